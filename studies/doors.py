"""Which doors a command goes through: functions entered from another room before the first patch is cut.

    python -m studies.doors [--limit 12]

A room is a folder (or, where there is none, a module) directly below the package. A door is a function, method
or property of one room that was entered while a function of another room was running; each counts once. Work
done while modules are imported does not count, nor does what threads do that decode images ahead.
"""

from __future__ import annotations

import argparse
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


class FirstPatch(BaseException):
    """Raised when the first patch is about to be cut; no command catches it."""


def room_of(frame: FrameType) -> str | None:
    """Return the room whose code a frame runs; None outside the package and in its root."""
    try:
        parts = Path(frame.f_code.co_filename).relative_to(PACKAGE).parts
    except ValueError:
        return None
    return None if parts[0].startswith("__") else parts[0].removesuffix(".py")


class Doors:
    """A profile function that notes doors in the order in which they are entered."""

    def __init__(self) -> None:
        self.entered: dict[str, str] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note a call from one room into another; stop at the first patch."""
        if event != "call" or (room := room_of(frame)) is None:
            return
        caller = frame.f_back
        while caller is not None and room_of(caller) is None:
            caller = caller.f_back
        if caller is not None and "<module>" in (caller.f_code.co_name, frame.f_code.co_name):
            return
        name = frame.f_code.co_qualname
        origin = None if caller is None else room_of(caller)
        if origin != room and "<locals>" not in name and "<lambda>" not in name:
            self.entered.setdefault(f"{room}: {name}", origin or "the shell")
        if frame.f_code.co_name in CUTTERS:
            raise FirstPatch


def count_doors(arguments: list[str]) -> dict[str, str]:
    """Run ``ddsfl`` with some arguments until it cuts a patch; return its doors and who entered each first."""
    cli = importlib.import_module("ddsfl.cli")
    for module in pkgutil.walk_packages(ddsfl.__path__, "ddsfl."):
        if "kernels" not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    doors = Doors()
    given, sys.argv = sys.argv, ["ddsfl", *arguments]
    sys.setprofile(doors)
    try:
        cli.main()
    except (FirstPatch, SystemExit):
        pass
    finally:
        sys.setprofile(None)
        sys.argv = given
    return doors.entered


def draw_photos(folder: Path) -> None:
    """Write a small set of drawn scenes as class folders."""
    images, labels = make_scenes(n_per_class=3, random_state=0)
    for number, (image, label) in enumerate(zip(images, labels)):
        (folder / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(image)).save(folder / label / f"{number}.png")


def main() -> None:
    """Count the doors of `ddsfl train` and `ddsfl predict`."""
    parser = argparse.ArgumentParser(description="Count the doors before the first patch is cut.")
    parser.add_argument("--limit", type=int, help="Exit with 1 if a command has more doors than this.")
    limit = parser.parse_args().limit
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        draw_photos(folder / "photos")
        model = folder / "model.safetensors"
        small = ["layers.bank.n_filters=8", "layers.bank.max_iter=2", "blocks.coding.n_words=8"]
        train = ["train", str(folder / "photos"), "--out", str(model), "--quiet", "--device", "cpu"]
        train += [word for change in small for word in ("--set", change)]
        predict = ["predict", str(model), str(folder / "photos"), "--quiet", "--device", "cpu"]
        too_many = []
        for command in (train, predict):
            entered = count_doors(command)
            print(f"{len(entered)} doors before the first patch of `ddsfl {command[0]}`:")
            for door, origin in entered.items():
                print(f"    {door}    (from {origin})")
            if limit is not None and len(entered) > limit:
                too_many.append(command[0])
            if command is train:  # completely, so that there is a model to predict with
                given, sys.argv = sys.argv, ["ddsfl", *train]
                try:
                    importlib.import_module("ddsfl.cli").main()
                except SystemExit:
                    pass
                finally:
                    sys.argv = given
    if too_many:
        sys.exit(f"more than {limit} doors: {', '.join(too_many)}")


if __name__ == "__main__":
    main()
