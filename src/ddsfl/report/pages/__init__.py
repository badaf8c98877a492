"""Self-contained HTML pages: one file each, without requests to any address."""
