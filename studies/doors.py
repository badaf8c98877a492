"""Which doors a command goes through before the first patch is cut.

    python -m studies.doors [--limit 12]

A room is a folder (or a module, if it is not in a folder) directly below the package. A door is a name, a
function or a class, that code of one room enters from another room; each counts once, a class together with
all methods of its objects. Where the command starts and the function that cuts patches do not count.
`compute` is a toolbox that knows nothing of images and is not counted as a room. A function that a room was
handed by its caller, such as a progress report, is not a door: the room does not import it. The number of
distinct functions that are entered, methods and `compute` included, is printed as well.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import pkgutil
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from PIL import Image

import ddsfl
from ddsfl import make_scenes

PACKAGE = Path(ddsfl.__file__).parent
#: Whoever enters one of these cuts patches.
CUTTERS = ("patches_at", "normalised_patches", "resampled_patches")
#: Changes of preset `quick` that make it small.
SMALL = ["layers.bank.n_filters=8", "layers.bank.max_iter=2", "blocks.coding.n_words=8"]


class FirstPatch(BaseException):
    """Raised when the first patch is about to be cut; no command catches it."""


def room_of(file: str) -> str | None:
    """Return the room that a source file belongs to; None outside the package and in its root."""
    try:
        first = Path(file).relative_to(PACKAGE).parts[0]
    except ValueError:
        return None
    return None if first.startswith("__") else first.removesuffix(".py")


def imported_rooms() -> dict[str, set[str]]:
    """Return which rooms each room imports from."""
    imported: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        if (room := room_of(str(path))) is not None:
            nodes = ast.walk(ast.parse(path.read_text()))
            modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
            parts = [module.split(".") for module in modules if module.startswith("ddsfl.")]
            imported.setdefault(room, set()).update(part[1] for part in parts)
    return imported


class Doors:
    """A profile function that notes what is entered, in order, and from which room."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.functions: set[str] = set()
        self._imported = imported_rooms()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note a call from one room into another; stop at the first patch."""
        if event != "call" or (room := room_of(frame.f_code.co_filename)) is None:
            return
        if frame.f_code.co_name in CUTTERS:
            raise FirstPatch
        caller = frame.f_back
        while caller is not None and room_of(caller.f_code.co_filename) is None:
            caller = caller.f_back
        if caller is None or "<module>" in (caller.f_code.co_name, frame.f_code.co_name):
            return
        origin, name = room_of(caller.f_code.co_filename), frame.f_code.co_qualname
        if origin is None or origin == room or "<locals>" in name or "<lambda>" in name:
            return
        self.functions.add(f"{room}.{name}")
        if room == "compute" or room not in self._imported[origin]:
            return
        owner = name.partition(".")[0]
        if "." in name and "self" in frame.f_locals:  # an inherited method belongs to the object's class
            kind = type(frame.f_locals["self"])
            owner, room = kind.__name__, kind.__module__.split(".")[1]
        self.names.setdefault(f"{room}: {owner}", origin)


def run(arguments: list[str], profile: Any = None) -> None:
    """Run ``ddsfl`` with some arguments in this process."""
    main = importlib.import_module("ddsfl.cli.main").main
    given, sys.argv = sys.argv, ["ddsfl", *arguments]
    sys.setprofile(profile)
    try:
        main()
    except (FirstPatch, SystemExit):
        pass
    finally:
        sys.setprofile(None)
        sys.argv = given


def count_doors(arguments: list[str]) -> Doors:
    """Run ``ddsfl`` with some arguments until it cuts a patch; return what it went through."""
    for module in pkgutil.walk_packages(ddsfl.__path__, "ddsfl."):
        if "kernels" not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    doors = Doors()
    run(arguments, doors)
    return doors


def commands(folder: Path) -> dict[str, list[str]]:
    """Write drawn scenes into class folders; return the arguments of `train` and `predict`."""
    images, labels = make_scenes(n_per_class=3, random_state=0)
    for number, (image, label) in enumerate(zip(images, labels)):
        (folder / "photos" / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(image)).save(folder / "photos" / label / f"{number}.png")
    options = ["--quiet", "--device", "cpu"]
    photos, model = str(folder / "photos"), str(folder / "model.safetensors")
    return {
        "train": ["train", photos, "--out", model, *options],
        "predict": ["predict", model, photos, *options],
    }


def main() -> None:
    """Count the doors of `ddsfl train` and `ddsfl predict`."""
    parser = argparse.ArgumentParser(description="Count the doors before the first patch is cut.")
    parser.add_argument("--limit", type=int, help="Exit with 1 if a command has more doors than this.")
    limit = parser.parse_args().limit
    too_many = []
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in commands(Path(folder)).items():
            doors = count_doors(arguments)
            print(f"`ddsfl {name}`: {len(doors.names)} doors, {len(doors.functions)} functions")
            for door, origin in doors.names.items():
                print(f"    {door}    (from {origin})")
            if limit is not None and len(doors.names) > limit:
                too_many.append(name)
            if name == "train":  # now to the end, in small, so that there is a model to predict with
                run([*arguments, *(word for change in SMALL for word in ("--set", change))])
    if too_many:
        sys.exit(f"more than {limit} doors: {', '.join(too_many)}")


if __name__ == "__main__":
    main()
