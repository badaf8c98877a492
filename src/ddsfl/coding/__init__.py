"""From local descriptors to one vector per image: codebooks, codes and pyramids."""
