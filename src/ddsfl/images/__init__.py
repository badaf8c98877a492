"""Image decoding, image folders and lists, and the built-in drawn scenes."""
