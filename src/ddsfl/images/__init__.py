"""Decoding pictures, finding them in folders and lists, and drawing the embedded scenes."""
