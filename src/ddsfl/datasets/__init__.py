"""Image sets: what they are, where they lie, how they are fetched, and which images train and test."""
