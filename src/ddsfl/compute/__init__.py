"""Tools that every room uses; nothing here knows about images."""
