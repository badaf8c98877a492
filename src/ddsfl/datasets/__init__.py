"""Image sets: contents, layout on disk, download, and training and test splits."""
