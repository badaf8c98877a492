"""From images to one vector each: blocks of descriptor, coding, pooling and norm, joined by the encoder."""
