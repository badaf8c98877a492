"""Very many images, given as folders, lists, tables or archives, and cut into shards."""
