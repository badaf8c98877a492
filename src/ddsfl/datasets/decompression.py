"""Compressed streams: decoded in pieces of bounded size, to their very end and including their checksums."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import BinaryIO, Protocol

from ddsfl.compute.words import why_not
from ddsfl.datasets.members import BLOCK, Damaged

#: Small, because what follows a stream is copied once for each stream that a block holds.
_PACKED_BLOCK = 2**15
#: No format needs so many bytes before it yields one; longer headers of gzip are not worth reading.
_MAX_SILENCE = 2**24
#: xz -9 needs 65 MiB; a header may ask for 4 GiB.
_XZ_MEMORY = 2**27


class Decoder(Protocol):
    """One compressed stream, as `bz2.BZ2Decompressor` has it."""

    @property
    def eof(self) -> bool: ...  # noqa: D102
    @property
    def needs_input(self) -> bool: ...  # noqa: D102
    @property
    def unused_data(self) -> bytes: ...  # noqa: D102

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...  # noqa: D102


class Inflate:
    """A deflate stream as a `Decoder`: with the header and checksum of gzip, or ``raw``."""

    def __init__(self, raw: bool = False) -> None:
        self._zlib = zlib.decompressobj(-zlib.MAX_WBITS if raw else 16 + zlib.MAX_WBITS)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        """What followed the stream."""
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Return at most ``max_length`` bytes; what is left of ``data`` is kept."""
        piece = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self.needs_input = not self._zlib.unconsumed_tail and len(piece) < max_length
        return piece


#: How each compressed file begins, and its decoder.
_FORMATS: tuple[tuple[tuple[bytes, ...], Callable[[], Decoder]], ...] = (
    ((b"\x1f\x8b\x08",), Inflate),
    (tuple(b"BZh%d1AY&SY" % level for level in range(1, 10)), bz2.BZ2Decompressor),
    ((b"\xfd7zXZ\0",), lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)),
)


def decoder_for(beginning: bytes) -> Callable[[], Decoder] | None:
    """Return what decodes a file that begins so (gzip, bzip2, xz), or None.

    >>> import gzip
    >>> decoder_for(gzip.compress(b"waves")) is Inflate, decoder_for(b"waves")
    (True, None)
    """
    return next((start for magics, start in _FORMATS if beginning.startswith(magics)), None)


def blocks_of(stream: BinaryIO, length: int | None = None, block: int = BLOCK) -> Iterator[bytes]:
    """Yield the next ``length`` bytes of a file in blocks, or all to its end."""
    while length is None or length > 0:
        try:
            read = stream.read(block if length is None else min(block, length))
        except OSError as error:
            raise Damaged(f"it cannot be read ({why_not(error)})") from error
        if not read and length is not None:
            raise Damaged("it ends too early")
        if not read:
            return
        if length is not None:
            length -= len(read)
        yield read


def all_streams(start: Callable[[], Decoder], stream: BinaryIO) -> Iterator[bytes]:
    """Yield the decoded bytes of a file of one or more streams; zero bytes may follow them.

    >>> import gzip, io
    >>> b"".join(all_streams(Inflate, io.BytesIO(gzip.compress(b"wa") + gzip.compress(b"ves"))))
    b'waves'
    """
    blocks = blocks_of(stream, block=_PACKED_BLOCK)
    rest = next(blocks, b"")
    while rest:
        rest = yield from _one_stream(start(), rest, blocks)
        rest = rest or next(blocks, b"")
        if rest.startswith(b"\0"):  # padding of tapes, which gzip and xz ignore too
            while rest:
                refuse_data(rest)
                rest = next(blocks, b"")


def single_stream(decoder: Decoder, stream: BinaryIO, length: int) -> Iterator[bytes]:
    """Yield the decoded bytes of exactly one stream, which must fill the next ``length`` bytes."""
    blocks = blocks_of(stream, length, _PACKED_BLOCK)
    rest = yield from _one_stream(decoder, next(blocks, b""), blocks)
    if rest or next(blocks, b""):
        raise Damaged("a compressed stream ends before its last byte")


def refuse_data(block: bytes) -> None:
    """Raise `Damaged` unless all bytes are zero."""
    if block.count(0) != len(block):
        raise Damaged("other data follow its end")


def _one_stream(decoder: Decoder, first: bytes, blocks: Iterator[bytes]) -> Generator[bytes, None, bytes]:
    """Yield the decoded bytes of a stream and return what follows it in its last block."""
    block, silence = first, 0
    while not decoder.eof:
        if decoder.needs_input:
            block = block or next(blocks, b"")
            if not block:
                raise Damaged("it ends too early")
        try:
            # bz2 raises OSError, and ValueError for some damaged streams.
            piece = decoder.decompress(block if decoder.needs_input else b"", BLOCK)
        except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError) as error:
            raise Damaged(f"a compressed stream is invalid ({error})") from error
        silence = 0 if piece else silence + len(block)
        if silence > _MAX_SILENCE:
            raise Damaged(f"more than {_MAX_SILENCE} bytes of a compressed stream hold no data")
        block = b""
        if piece:
            yield piece
    return decoder.unused_data
