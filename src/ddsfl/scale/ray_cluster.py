"""The cluster: a small one on this machine for as long as it is needed, or an existing one.

Ray asks each process for a token before it answers (RAY_AUTH_MODE=token), and stores a new one in
``~/.ray/auth_token`` unless it finds one. For a cluster of our own the token lives in the environment of this
process and its children only. For an existing cluster, its nodes and the user must have the same token.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ddsfl.compute.locks import InUse, held, lock_of_folder

#: Seconds until somebody must answer at an address, a cluster have accepted us, and have let us go.
_CALL, _START, _END = 5.0, 60.0, 4.0
#: What to look at if a cluster that is there does not take us: Ray does not say what it missed.
_SAME = (
    "do all machines have the same version of Ray and the same token (RAY_AUTH_MODE=token and "
    "~/.ray/auth_token, or RAY_AUTH_TOKEN)?"
)
#: Ray puts sockets into its folder, whose paths may not exceed 107 characters.
_LONGEST_FOLDER = 25
_PREFIX = "ddsfl-ray-"


def import_ray() -> Any:
    """Return the package ``ray``; ImportError says how to get it."""
    # It counts its users over the network otherwise.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise ImportError("Ray is not installed: pip install 'ddsfl[ray]'.") from error
    return ray


@contextmanager
def connected(ray: Any, address: str | None = None) -> Iterator[None]:
    """Be connected to the cluster at ``address``, or RAY_ADDRESS, or to a new one on this machine.

    A connection that the calling program already has is used and kept.
    """
    if ray.is_initialized():
        yield
        return
    quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    address = address or os.environ.get("RAY_ADDRESS")
    with ExitStack() as stack:
        stack.enter_context(_silent(ray))
        if address is None or address == "local":
            folder = stack.enter_context(_local_folder())
            if "RAY_AUTH_MODE" not in os.environ and not (Path.home() / ".ray" / "auth_token").exists():
                # It stays for this process: Ray reads it once.
                os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
            more = {"address": "local", "include_dashboard": False, "_temp_dir": str(folder)}
        else:
            _call(address)
            more = {"address": address}
        stack.enter_context(_kept(lambda: ray.init(**quiet, **more), ray.shutdown, address))
        yield


def _call(address: str) -> None:
    """Raise ValueError or OSError unless somebody answers; Ray itself would try for two minutes."""
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if "://" in address or not colon or not port.isdigit():
        raise ValueError(
            f"--address {address}: expected auto or HOST:PORT of the head node, such as head:6379."
        )
    try:
        socket.create_connection((host, int(port)), _CALL).close()
    except (OSError, OverflowError) as error:
        raise OSError(f"--address {address}: nobody answers ({error}); is the cluster running?") from error


@contextmanager
def _silent(ray: Any) -> Iterator[None]:
    """Keep Ray from printing on standard output that a worker died: the engine says so itself."""
    module = ray._private.worker
    before = module.print_to_stdstream
    module.print_to_stdstream = lambda *lines, **options: None
    try:
        yield
    finally:
        module.print_to_stdstream = before


@contextmanager
def _kept(init: Callable[[], object], shutdown: Callable[[], object], address: str | None) -> Iterator[None]:
    """Connect and disconnect in a thread of its own.

    In the main thread, Ray would answer signals and end the program without a word. The thread stays, because
    Ray's processes end with the thread that started them.
    """
    began: Future[object] = Future()
    end = threading.Event()

    def keep() -> None:
        try:
            began.set_result(init())
        except BaseException as error:  # Ray also exits
            began.set_exception(error)
        end.wait()
        shutdown()

    on_terminate = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        _await(began, "Ray on this machine" if address is None else f"--address {address}")
        if on_terminate is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_terminate)  # Ray's would print a stack first
        yield
    finally:
        end.set()
        thread.join(_END)


def _await(began: Future[object], where: str) -> None:
    """Wait until a connection is there; OSError says why there is none."""
    try:
        began.result(_START)
    except Late as error:
        raise OSError(f"{where}: no connection within {_START:.0f} s; {_SAME}") from error
    except (Exception, SystemExit) as error:
        reason = next(
            (line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__
        )
        if reason.startswith("Failed to connect"):  # for example with another token
            reason = f"{reason}; {_SAME}"
        raise OSError(f"{where}: {reason}") from error


@contextmanager
def _local_folder() -> Iterator[Path]:
    """Return a new folder for Ray's sockets and logs; folders that killed processes left are removed, too."""
    place = Path(tempfile.gettempdir())
    if len(str(place)) > _LONGEST_FOLDER and os.name == "posix":
        place = Path("/tmp")
    for left in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, InUse), held(lock_of_folder(left), left, "ddsfl"):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    try:
        with held(lock_of_folder(folder), folder, "ddsfl"):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
