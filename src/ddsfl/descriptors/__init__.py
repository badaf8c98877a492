"""Local and global image descriptors, one file each."""
