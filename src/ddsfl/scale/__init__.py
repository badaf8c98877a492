"""Work that outgrows one process: shards of images, their results on disk, and the engines that run it."""
