"""The store behind lists of images: their sources, decoded images within a limit, and digests of all seen."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ddsfl.images.decode import decode
from ddsfl.images.sources import Source
from ddsfl.images.unreadable import UnreadableImage


class Store:
    """Decoded images and their digests, shared by an `ImageList` and its subsets.

    >>> import numpy as np
    >>> store = Store([np.zeros((20, 30), np.uint8)], {}, cache_bytes=0)
    >>> tuple(store.get(0).shape), list(store.digests)
    ((1, 20, 30), [0])
    """

    def __init__(
        self,
        sources: list[Source],
        options: dict[str, Any],
        cache_bytes: int,
        digests: Mapping[int, bytes] | None = None,
    ) -> None:
        self.sources = sources
        self.options = options
        self.cache_bytes = cache_bytes
        self.digests: dict[int, bytes] = dict(digests or {})
        self._cache: dict[int, Tensor] = {}
        self._lock = threading.Lock()
        self._room = cache_bytes

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the decoded images.
        return Store, (self.sources, self.options, self.cache_bytes, self.digests)

    def get(self, index: int) -> Tensor:
        """Return one image, decoded now or before; UnreadableImage if it has changed meanwhile."""
        image = self._cache.get(index)
        if image is not None:
            return image
        try:
            image = decode(self.sources[index], **self.options)
        except UnreadableImage as error:
            raise UnreadableImage(error.source, error.reason, index) from error
        shape = str(tuple(image.shape)).encode()
        digest = hashlib.sha256(shape + image.numpy().tobytes()).digest()
        with self._lock:
            self.note(index, digest)
            # First come, first kept: each pass visits all images in order, so a cache that drops the
            # oldest would never hit.
            if index not in self._cache and image.nbytes <= self._room:
                self._cache[index] = image
                self._room -= image.nbytes
        return image

    def note(self, index: int, digest: bytes) -> None:
        """Note the digest of the pixels of one image; UnreadableImage if they were others before."""
        # Every pass must see the same pixels, or a model would belong to no training set.
        if self.digests.setdefault(index, digest) != digest:
            raise UnreadableImage(self.sources[index], "it changed while it was in use", index)
