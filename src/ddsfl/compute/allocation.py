"""How the C library hands out memory: what was freed is used again instead of given back.

Results of tens of megabytes live for milliseconds. By default each gets fresh pages from the system, which
fills them with zeros one by one: a third of the time of describing an image on two cores.
"""

from __future__ import annotations

import ctypes
import os

#: Blocks of up to so many bytes come from the memory of the process; this much freed memory is kept for the
#: next one; memory is asked for in steps of so many bytes. Names are those of glibc's `mallopt`.
M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD = (-3, 2**30), (-1, 2**28), (-2, 2**24)
#: Variables with which users set the same; they are left alone.
SET_BY_USERS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Set the allocator of this process, once; return whether it is glibc's and was not set by the user."""
    if any(name in os.environ for name in SET_BY_USERS):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, or another system
        return False
    done = [mallopt(*setting) for setting in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD)]
    return all(done)
