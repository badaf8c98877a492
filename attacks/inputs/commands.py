"""Command lines: real commands and options with odd values, on small images and a tiny model."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from attacks.domain import DECODER
from attacks.inputs.settings import TINY
from attacks.mutations import chance, mutated, near_miss, odd_text, odd_value, pick
from attacks.trees import OUTSIDE, as_name, make_tree
from ddsfl.cli.main import COMMANDS, load_command, main
from ddsfl.datasets.splits import fold_splits
from ddsfl.experiments.evaluate import Evaluation, evaluate_split
from ddsfl.images.scenes import make_scenes
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.presets import PRESETS

#: Each command takes seconds with these; without them training would take minutes.
_SMALL = [word for path, value in TINY.items() for word in ("--set", f"{path}={value}")]
_LEARNS = ("train", "evaluate", "compare", "search")
#: `demo` takes minutes and `datasets get` downloads.
_NAMES = [name for name in COMMANDS if name not in ("demo", "datasets")]
#: Plausible values of options; names of files are added for each case.
_VALUES: dict[str, Sequence[str]] = {
    "--device": ("cpu", "auto", "cuda", "cuda:7", "gpu"),
    "--seed": ("0", "7", "-1", "4294967296", "1e3"),
    "--preset": ("quick", "best", "paper", "qiuck"),
    "--set": (
        "max_side=100",
        "colour=lab",
        "layers.step=0",
        "classifier.C=1",
        "x=1",
        "=",
        "a",
        "blocks.power=0.5",
    ),
    "--try": ("eta=0,0.1", "gamma=nan", "eta=", "C=1,10", "layers.step=4"),
    "--over": ("eta", "gamma", "bank"),
    "--protocol": ("folds", "random", "lists", "none"),
    "--folds": ("2", "3", "1", "0", "999999999"),
    "--train": ("1", "2", "0", "99"),
    "--test": ("1", "0", "99"),
    "--splits": ("1", "2", "0", "-5"),
    "--groups": ("[0-9]", "(", "source", "(?P<x>.)"),
    "--classes": ("coast", "coast,forest", "nobody", ","),
    "--dataset": ("scene15", "voc2007", "none"),
    "--methods": ("sift", "sift,lbp", "quick,ddsfl-3layers:svm", ",", "none"),
    "--against": ("sift", "none"),
    "--jobs": ("1", "0", "-1"),
    "--network": ("x=y", "=", "x", "sift=/dev/null"),
    "name": ("components", "filters", "all", "complement", "none"),
}
#: What can follow --out, by command; others write a file of any name or a folder.
_PAGES = ("x.html", "a/x.html")
_OUTPUTS = {"encode": ("x.npz", "x.csv", "a/b/c.npz"), "explain": _PAGES, "report": _PAGES}
_RARE = ("datasets", "--help", "--version", "-h", "--")
_ODD_CLASSES = ("\x1b[31mred\n", "=1+1", "$\\frac{1}{")


@dataclass
class Case:
    """A command line, and the folder with its files; the model and outputs lie in ``folder / "out"``."""

    arguments: list[str]
    folder: Path


class Domain:
    """Command lines as people and scripts may write them."""

    name = "commands"
    #: The version of the source tree is stored with results.
    may_start = ("'git'", DECODER)

    def prepare(self, folder: Path) -> None:
        images, labels = make_scenes(n_per_class=3, random_state=0, size=64)
        kept = sorted(set(labels))[:3]
        self.set = folder / "set"
        for number, (image, label) in enumerate(zip(images, labels)):
            if label in kept:
                (self.set / label).mkdir(parents=True, exist_ok=True)
                Image.fromarray(image).save(self.set / label / f"{number}.png")
        self.paths = sorted(self.set.glob("*/*"))
        self.models = [folder / "model.safetensors", folder / "odd.safetensors"]
        usual = [path.parent.name for path in self.paths]
        odd = dict(zip(kept, _ODD_CLASSES))
        for path, labels in zip(self.models, (usual, [odd[label] for label in usual])):
            model = SceneClassifier("quick", changes=TINY, device="cpu", random_state=0)
            model.fit(self.paths, labels).save(path)
        evaluation = Evaluation(
            PRESETS["quick"].change(TINY), "quick", "set", device="cpu", folder=folder / "cells",
            names=[path.relative_to(self.set).as_posix() for path in self.paths],
        )  # fmt: skip
        listed = evaluation.settings.image_list(self.paths)
        [split, *_] = fold_splits(usual, 2, 0)
        evaluate_split(evaluation, listed, usual, split)
        [self.cell] = (folder / "cells").glob("*.json")
        for name in COMMANDS:
            load_command(name)  # imports cost once

    def case(self, rng: np.random.Generator, folder: Path) -> Case:
        (folder / "out").mkdir()
        shutil.copyfile(pick(rng, self.models), folder / "out" / "model.safetensors")
        files = self._files(rng, folder)
        if chance(rng, 0.05):
            odd = (odd_text(rng), near_miss(rng, pick(rng, _NAMES)), *_RARE)
            return Case(_words(pick(rng, (*_NAMES, *odd)) for _ in range(int(rng.integers(0, 4)))), folder)
        if chance(rng, 0.05):
            named = [pick(rng, ("scene15", "voc2007", odd_text(rng))), pick(rng, files)]
            return Case(_words(["datasets", pick(rng, ("list", "check", "chekc")), *named]), folder)
        name = pick(rng, _NAMES)
        words = [name, *self._options(rng, name, files, folder)]
        if chance(rng, 0.05):
            del words[int(rng.integers(len(words)))]
        if chance(rng, 0.05):
            words.append(odd_text(rng))
        return Case(_words([*words, *(_SMALL if name in _LEARNS else [])]), folder)

    def may_open(self, case: Case) -> list[Path]:
        return [case.folder, self.set, *map(Path, OUTSIDE)]

    def attempt(self, case: Case) -> str:
        before = _listing(case.folder)
        out, err = _stream(), _stream()
        code = None
        with _at(case.folder / "out"), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            arguments, sys.argv = sys.argv, ["ddsfl", *case.arguments]
            try:
                main()
            except SystemExit as end:
                code = end.code
            finally:
                sys.argv = arguments
        printed, said = _text(out), _text(err)
        assert code in (0, 1, 2, None), f"exit code {code}"
        assert "Traceback" not in printed + said, said
        assert _listing(case.folder) == before, f"changed: {set(_listing(case.folder)) ^ set(before)}"
        if not code and "--json" in case.arguments and "--help" not in case.arguments:
            json.loads(printed, parse_constant=_refuse)
        if code == 1 and (end_of := re.findall(r"^ddsfl: .*", said, re.MULTILINE)):
            assert end_of[-1].endswith((".", "?")) or ": " in end_of[-1][7:], f"no sentence: {end_of[-1]}"
        return "refused" if code else "accepted"

    def _files(self, rng: np.random.Generator, folder: Path) -> list[str]:
        """Make an image set and other files in the folder; return what command lines may name."""
        images = folder / "set"
        if chance(rng, 0.2):
            make_tree(rng, images, self.paths)
        else:
            shutil.copytree(self.set, images)
            for number, place in enumerate(sorted(images.iterdir()) if chance(rng, 0.4) else ()):
                place.rename(images / f"{number}{as_name(odd_text(rng).replace(chr(0), ''))[:200]}")
        listed = folder / "list.csv"
        lines = [f"{path},{path.parent.name}" for path in self.paths]
        listed.write_text("\n".join(["path,label", *lines, odd_text(rng)]), errors="surrogatepass")
        split = [folder / "train.txt", folder / "test.txt"]
        for file in split:
            file.write_text("\n".join(str(path) for path in self.paths if chance(rng, 0.5)))
        damaged = folder / "damaged.safetensors"
        model = folder / "out" / "model.safetensors"
        damaged.write_bytes(mutated(rng, model.read_bytes(), most=3))
        (folder / "empty").mkdir()
        (folder / "cells").mkdir()
        for number in range(int(rng.integers(1, 3))):
            (folder / "cells" / f"{number}.json").write_bytes(_as_cell(rng, self.cell.read_bytes()))
        made = (images, self.set, listed, *split, damaged, model, folder / "empty", folder / "none")
        return [*map(str, made), *OUTSIDE[:3], odd_text(rng).lstrip("/")]

    def _options(self, rng: np.random.Generator, name: str, files: list[str], folder: Path) -> Iterator[str]:
        places = ("set",) if name in ("predict", "explain", "encode") else ("set", "list.csv")
        usual = {
            "model": str(folder / "out" / "model.safetensors"),
            "images": str(folder / pick(rng, places)),
            "what": str(folder / pick(rng, ("cells", "cells", "cells/0.json", "out/model.safetensors"))),
        }
        for parameter in load_command(name).params:
            option = parameter.opts[0]
            if parameter.param_type_name == "argument":
                for _ in range(1 if parameter.nargs == 1 else int(rng.integers(1, 3))):
                    odd = option not in usual or chance(rng, 0.07)
                    yield self._value(rng, option, files) if odd else usual[option]
                continue
            needed = parameter.required or (option == "--out" and name == "explain")
            if not needed and chance(rng, 0.85):
                continue
            yield near_miss(rng, option) if chance(rng, 0.03) else option
            if option in ("--out", "--scratch", "--report"):
                usual_names = _PAGES if option == "--report" else _OUTPUTS.get(name, ("x", "x.csv", "a/b"))
                outputs = (*usual_names * 4, _as_output(rng))
                yield str(folder / "out" / pick(rng, outputs))
            elif not parameter.is_flag:
                yield self._value(rng, option, files)

    def _value(self, rng: np.random.Generator, option: str, files: list[str]) -> str:
        if chance(rng, 0.07):
            return odd_text(rng).lstrip("/")
        return pick(rng, _VALUES.get(option, files))


def _as_cell(rng: np.random.Generator, cell: bytes) -> bytes:
    """Return a stored result as it is, with damaged bytes, or with odd values."""
    way = rng.random()
    if way < 0.3:
        return cell
    if way < 0.5:
        return mutated(rng, cell, most=3)
    values = json.loads(cell)
    for _ in range(int(rng.integers(1, 4))):
        place = values
        while True:
            key = pick(rng, list(place) if isinstance(place, dict) else list(range(len(place))))
            inner = place[key]
            if not (isinstance(inner, dict | list) and inner) or chance(rng, 0.3):
                place[key] = odd_value(rng)
                break
            place = inner
    return json.dumps(values, default=str).encode("utf-8", "surrogatepass")


def _words(words: Iterator[str] | Sequence[str]) -> list[str]:
    """Return words as a shell passes them on: NUL ends a word, and bytes that are not UTF-8 are escaped."""
    return [os.fsdecode(os.fsencode(word.partition("\0")[0])) for word in words]


def _as_output(rng: np.random.Generator) -> str:
    return odd_text(rng).replace("/", "_").replace("..", "_")


def _listing(folder: Path) -> list[tuple[str, int, int]]:
    """Return name, size and time of everything in a folder, except what is in its folder "out"."""
    found = []
    for here, folders, files in os.walk(folder):
        if here == str(folder):
            folders.remove("out")
        for name in (*folders, *files):
            with contextlib.suppress(OSError):  # a path that is too long
                status = os.lstat(os.path.join(here, name))
                found.append((os.path.join(here, name), status.st_size, status.st_mtime_ns))
    return sorted(found)


@contextlib.contextmanager
def _at(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    written: io.BytesIO = stream.buffer  # type: ignore[assignment]
    return written.getvalue().decode(errors="replace")


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} in JSON")
