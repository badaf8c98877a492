"""Workers that engines run in tests: functions of a module, because they travel by name."""

import os
import signal
import time
from functools import partial
from pathlib import Path

from ddsfl.compute.parts import part_of


def makes(work, *arguments):
    """Return what makes the worker ``work`` with these arguments first."""
    return partial(partial, work, *arguments)


def square(item, say):
    """Say a line and return the square."""
    say(f"squaring {item}")
    return item**2


def place(item, say):
    """Return which process worked, and on how many threads."""
    import torch

    time.sleep(0.2)
    return os.getpid(), torch.get_num_threads()


def refuse(item, say):
    """Refuse odd items, as a user's mistake or as a bug."""
    if item == 1:
        raise ValueError("1 is odd.")
    if item == 3:
        raise KeyError(3)
    return item


def die(folder, item, say):
    """Note each attempt; item 1 kills its worker once, item 2 always."""
    attempts = list(Path(folder).glob(f"{item}-*"))
    (Path(folder) / f"{item}-{os.getpid()}-{len(attempts)}").touch()
    if item == 2 or (item == 1 and not attempts):
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def write_slowly(folder, item, say):
    """Write a file that is complete after a minute; an orderly end removes what is unfinished."""
    part = part_of(Path(folder) / str(item))
    part.write_text("half")
    try:
        (Path(folder) / f"started-{item}-{os.getpid()}").touch()
        say(f"started {item}")
        time.sleep(60)
        part.rename(Path(folder) / str(item))
    finally:
        part.unlink(missing_ok=True)


def cannot_be_made():
    """Fail to make a worker."""
    raise ValueError("the model is damaged.")


def dies_when_made():
    """Die while a worker is made."""
    os.kill(os.getpid(), signal.SIGKILL)


def return_function(item, say):
    """Return what cannot be pickled."""
    return lambda: item


def wait_on_node(folder, item, say):
    """Return the node that worked, after a file named "go" has appeared."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    (Path(folder) / f"started-{item}-{node}-{os.getpid()}").touch()
    while not (Path(folder) / "go").exists():
        time.sleep(0.05)
    return node
