"""Linear classification, fusion of blocks, and metrics."""
