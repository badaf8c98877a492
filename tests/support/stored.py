"""Blocks of vectors that are read in passes, from memory."""

from ddsfl.compute.device import slices


class ReadBlocks:
    """Blocks (N, P_b), some images at a time; counts the passes."""

    def __init__(self, blocks, at_once):
        self.blocks, self.at_once, self.n_passes = blocks, at_once, 0

    @property
    def widths(self):
        return [block.shape[1] for block in self.blocks]

    def __len__(self):
        return len(self.blocks[0])

    def __iter__(self):
        self.n_passes += 1
        for part in slices(len(self), self.at_once):
            yield part, [block[part] for block in self.blocks]
