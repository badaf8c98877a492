"""From local descriptors to one vector an image: codebooks, codes and pyramids."""
