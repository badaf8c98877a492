"""Model files that are valid except for one thing that is extreme: a name, a size, a number of parts."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attacks.mutations import odd_text, pick
from ddsfl.compute.checksums import checksum_of_values
from ddsfl.model.file import read_header, write_model
from ddsfl.model.run_file import file_beside

Array = np.ndarray[Any, Any]
Rng = np.random.Generator
Tensors = dict[str, Array]
Header = dict[str, Any]


def write_extreme(rng: Rng, tensors: Tensors, header: Header, path: Path) -> str:
    """Write a model with one extreme; return what it is, for people."""
    tensors, header = dict(tensors), copy.deepcopy(header)
    kind = pick(rng, (*_CHANGES, "raw", "stages"))
    if kind == "raw":
        return _write_raw(rng, path)
    if kind != "stages":
        done = _CHANGES[kind](rng, tensors, header)
    try:
        write_model(path, tensors, header)
    except ValueError:  # what the writer refuses, also as a name of a tensor
        return _write_raw(rng, path)
    return _write_stages(rng, path) if kind == "stages" else f"extreme {kind}: {done}"


def _name(rng: Rng, tensors: Tensors, header: Header) -> str:
    """Give a block or a source a name that leads elsewhere, in the settings and in all tensors."""
    settings, name = header["settings"], pick(rng, _NAMES) if rng.random() < 0.7 else odd_text(rng)
    if settings["sources"] and rng.random() < 0.4:
        before = pick(rng, sorted(settings["sources"]))
        settings["sources"][name] = settings["sources"].pop(before)
        for block in settings["blocks"]:
            block["source"] = name if block["source"] == before else block["source"]
        _rename(tensors, f"source.{before}.", f"source.{name}.")
        return repr(name)
    block = pick(rng, settings["blocks"])
    before, block["name"] = block["name"], name
    _rename(tensors, f"block.{before}.", f"block.{name}.")
    for tensor in [tensor for tensor in tensors if tensor.endswith(f".{before}")]:
        tensors[f"{tensor.removesuffix(before)}{name}"] = tensors.pop(tensor)
    return repr(name)


def _rename(tensors: Tensors, before: str, after: str) -> None:
    for tensor in [tensor for tensor in tensors if tensor.startswith(before)]:
        tensors[after + tensor.removeprefix(before)] = tensors.pop(tensor)


def _work(rng: Rng, tensors: Tensors, header: Header) -> str:
    """Ask for more work per image than the file has bytes: small steps, many scales, words and sources."""
    settings = header["settings"]
    for part in (*settings["layers"], *settings["sources"].values()):
        part.update({"step": 1} if "step" in part else {}, n_scales=20) if "n_scales" in part else None
    settings["max_side"] = 8192
    for name in [name for name in tensors if name.startswith("average.")]:
        del tensors[name]
    for block in settings["blocks"]:
        words = tensors.get(f"block.{block['name']}.words")
        if words is not None and block["coding"]["method"] == "llc":
            block["coding"] |= {"n_words": 1000, "n_neighbors": int(pick(rng, (3, 5, 50, 51, 1000)))}
    if rng.random() < 0.5:
        method = pick(rng, ("sift", "otc", "hog2x2"))
        settings["sources"] |= {f"s{n}": {"method": method} for n in range(int(pick(rng, (20, 40, 100))))}
    return "steps, scales, words"


def _classes(rng: Rng, tensors: Tensors, header: Header) -> str:
    """Give a model very many classes, all with the weights of the first ones."""
    count, before = int(pick(rng, (2001, 6000, 25_001))), len(header["classes"])
    header["classes"] = [f"c{number}" for number in range(count)]
    header["training"]["images_per_class"] = [1] * count
    for name in list(tensors):
        part = name.rpartition(".")[2]
        if name.startswith(("average.", "novelty.", "patches.", "validation.")):
            del tensors[name]
        elif part in ("coef", "intercept", "slopes", "offsets", "sharing", "n_exemplars") and len(
            tensors[name]
        ):
            tensors[name] = np.resize(tensors[name], (count, *tensors[name].shape[1:]))
    tensors["classifier.classes"] = np.arange(count)
    return f"{count} classes instead of {before}"


def _labels(rng: Rng, tensors: Tensors, header: Header) -> str:
    """Name a class with what is no text, or no word."""
    number = int(rng.integers(len(header["classes"])))
    header["classes"][number] = pick(rng, ("\ud800", "\udcff", "\ud83d", "a\0b", odd_text(rng)))
    return repr(header["classes"][number])


def _steps(rng: Rng, tensors: Tensors, header: Header) -> str:
    """Let the learning of the layers have taken very many steps."""
    for name in [name for name in tensors if name.endswith(".objective")]:
        if len(tensors[name]):
            tensors[name] = np.resize(tensors[name], (200_000, tensors[name].shape[1]))
    return "200,000 steps"


def _write_raw(rng: Rng, path: Path) -> str:
    """Write a header that is heavy to parse, deep, or names places that no file has."""
    inner = json.dumps({"format": "ddsfl model", "format_version": int(pick(rng, (3, 4)))})
    entry = '{"dtype": "U8", "shape": [1], "data_offsets": [0, %s]}'
    offset = pick(rng, ("9" * 4300, "9" * 4299, "1e308", "-1", "true", "9223372036854775808"))
    unit = pick(rng, ("[],", "{},", "1,", '"a",', "[[[[[[[[]]]]]]]],"))
    many = f"[{unit * (int(pick(rng, (10_000, 1_000_000, 5_000_000))) // len(unit))}0]"
    deep = "[" * 100_000 + "]" * 100_000
    held, text = pick(rng, ((inner, entry % offset), (inner, many), (f'{{"z": {many}}}', "0"), (inner, deep)))
    header = f'{{"__metadata__": {{"ddsfl": {json.dumps(held)}}}, "z": {text}}}'.encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0")
    return f"raw header of {len(header):,} bytes: {text[:40]}"


def _write_stages(rng: Rng, path: Path) -> str:
    """Write very many stages, or odd ones, next to a model."""
    header = read_header(path)
    checksum = checksum_of_values({name: value for name, value in header.items() if name != "checksum"})
    count = int(pick(rng, (10, 20_000, 60_000)))
    names = (odd_text(rng) if number < 10 else f"{number:x}" for number in range(count))
    run = {
        "model": checksum,
        "device": odd_text(rng),
        "seconds": dict.fromkeys(names, pick(rng, (0, 1, 1e8))),
    }
    file_beside(path).write_text(json.dumps(run, separators=(",", ":")))
    return f"{count} stages"


_NAMES = (
    *(
        "/tmp/ddsfl-evil",
        "../evil",
        "../../evil",
        "a/b",
        "..",
        ".",
        "a\\b",
        "C:evil",
        "a.b",
        " a",
        "a ",
        "CON",
    ),
    *("\ud800", "\udcff", "\u202ea", "a\nb", "\x1b[2J", "x" * 101, "*", "?", "|"),
)
_CHANGES: dict[str, Callable[[Rng, Tensors, Header], str]] = {
    "name": _name,
    "work": _work,
    "classes": _classes,
    "labels": _labels,
    "steps": _steps,
}
