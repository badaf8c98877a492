"""What a command needs before its libraries are loaded: some of them end the process if they lack it."""

from __future__ import annotations

import os
import threading

#: Bytes of address space that the libraries take as they are loaded (torch alone 1.1 GB), and some for small
#: images. With less, each library says in its own words that it is broken.
LEAST_MEMORY = 2_000_000_000
#: Threads that read images and show progress.
_OWN_THREADS = 9


def check_needs() -> None:
    """Raise an error with a sentence if memory, threads or the current folder are lacking."""
    _check_memory()
    _check_threads(2 * (os.cpu_count() or 1) + _OWN_THREADS)  # NumPy and torch have threads of their own
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise ValueError("the current folder does not exist any more; change to another one.") from error
    os.environ["MPLBACKEND"] = "agg"  # pictures are files; an unknown name would be an error


def check_parquet() -> None:
    """Raise ImportError with a sentence if the package that writes Parquet files is missing."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ImportError("Parquet files need the package pyarrow: pip install 'ddsfl[parquet]'.") from error


def _check_memory() -> None:
    try:
        import resource
    except ImportError:  # there are no such limits on this system
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < LEAST_MEMORY:
        least = LEAST_MEMORY // 1_000_000
        raise MemoryError(f"the limit is {limit // 1_000_000} MB (ulimit -v); expected at least {least}.")


def _check_threads(count: int) -> None:
    """Raise RuntimeError if ``count`` threads cannot run at the same time."""
    end = threading.Event()
    threads = [threading.Thread(target=end.wait, daemon=True) for _ in range(count)]
    started = []
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
    finally:
        end.set()
        for thread in started:
            thread.join()
