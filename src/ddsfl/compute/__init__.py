"""Numerical tools shared by all packages; nothing here depends on images."""
