"""Images in tar archives, as WebDataset writes them: read where they lie, never unpacked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ddsfl.compute.files import regular_only
from ddsfl.compute.words import why_not
from ddsfl.datasets.members import Damaged, Refused
from ddsfl.datasets.tar_reading import BLOCK_SIZE, read_tar
from ddsfl.images.formats import readable_suffixes
from ddsfl.images.sources import Source
from ddsfl.scale.inputs.rows import Input, Opened, Rows, Stamp, check_stamp, stamp_of


@dataclass(frozen=True)
class Place:
    """Where the bytes of an image lie in an archive."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class TarRows(Rows):
    """Members of a tar archive, named `FILE.tar/member`."""

    file: str
    stamp: Stamp
    places: tuple[Place, ...]

    def __len__(self) -> int:
        return len(self.places)

    def listed(self) -> Any:
        """Return the archive and the names of its members."""
        return [self.file, *(place.name for place in self.places)]

    def state(self) -> Any:
        """Return size and time of the archive."""
        return self.stamp

    def read(self, opened: Opened) -> list[tuple[str, Source]]:
        """Return the names and the bytes of the members."""
        check_stamp(self.file, self.stamp)
        stream = opened.get((self.file, self.stamp), partial(open, self.file, "rb", opener=regular_only))
        found: list[tuple[str, Source]] = []
        for place in self.places:
            stream.seek(place.offset)
            found.append((f"{self.file}/{place.name}", stream.read(place.size)))
        return found


@dataclass(frozen=True)
class TarInput(Input):
    """The images in a tar archive that is not compressed; other members are left out."""

    file: str

    def cut(self, size: int) -> Iterator[Rows]:
        """Yield the images in the order of the archive, whose headers are read at once."""
        stamp = stamp_of(self.file)
        places = self._places()
        for start in range(0, len(places), size):
            yield TarRows(self.file, stamp, tuple(places[start : start + size]))

    def _places(self) -> list[Place]:
        places = []
        try:
            with open(self.file, "rb", opener=regular_only) as stream:
                # The reader takes one block at a time, so the stream stands where the contents of a member
                # begin; behind them the next header is read.
                for member in read_tar(iter(partial(stream.read, BLOCK_SIZE), b"")):
                    offset = stream.tell()
                    if not member.is_folder and _is_image(member.name):
                        places.append(Place(member.name, offset, member.size))
                    stream.seek(offset + member.size + -member.size % BLOCK_SIZE)
        except OSError as error:
            raise ValueError(f"{self.file} cannot be opened: {why_not(error)}.") from error
        except Damaged as error:
            raise ValueError(f"{self.file} is damaged, or not a tar archive: {error}.") from error
        except Refused as error:
            raise ValueError(f"{self.file} is refused: {error}.") from error
        return places


def _is_image(name: str) -> bool:
    """Return whether a member is an image by its suffix; hidden ones are left out, as in folders.

    >>> _is_image("train/0001.jpg"), _is_image("train/0001.json"), _is_image("train/._0001.jpg")
    (True, False, False)
    """
    last = name.rpartition("/")[2]
    return not last.startswith(".") and os.path.splitext(last)[1].lower() in readable_suffixes()
