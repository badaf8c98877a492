"""Small models of all kinds, and mutations of what their files hold."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from safetensors.numpy import save

from attacks.mutations import chance, mutated, near_miss, odd_text, odd_value, pick
from attacks.tiny_network import TINY_NETWORK
from ddsfl.images.scenes import make_scenes
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.file import ModelFileError, read_model, write_model

Array = np.ndarray[Any, Any]
Rng = np.random.Generator

_LLC = {"method": "llc", "n_words": 6, "n_neighbors": 3, "max_iter": 2}
_VQ = {"method": "vq", "n_words": 5, "max_iter": 2}
_FISHER = {"method": "fisher", "n_gaussians": 2, "n_components": 3, "max_iter": 2, "descriptor_power": 0.5}
_BANK = {"n_filters": 6, "max_iter": 2, "rounds": 1, "round_iter": 1, "n_neighbors": 2}
_LAYER = {"field": 16, "step": 8, "n_scales": 2, "n_components": 5, "patches_per_image": 10, "bank": _BANK}
_ABOVE = {**_LAYER, "field": 32, "grid": 8, "pool": 3}
_SCALES = {"n_scales": 2}

#: Changes of preset `quick` by the name of a small model; ``DEEP`` stands for the folder of its files.
RECIPES: dict[str, dict[str, Any]] = {
    "layers": {
        "layers": [{**_LAYER, "signs": 0.5}, _ABOVE],
        "blocks.coding": _LLC,
        "blocks.levels": [[1, 1], [2, 2]],
    },
    "fisher": {
        "layers": [_LAYER, {**_ABOVE, "bank": None}],
        "sources": {"sift": {"method": "sift", "step": 16, **_SCALES}},
        "blocks": [
            {"name": "pooled", "output": 1, "coding": _FISHER, "levels": [[1, 1], [3, 1]], "mirrored": True},
            {"name": "sift", "source": "sift", "coding": _FISHER, "levels": [[1, 1]], "weight": "cv"},
        ],
    },
    "descriptors": {
        "layers": [],
        "colour": "rgb",
        "sources": {name: {"method": name, **_SCALES} for name in ("hog2x2", "lbp", "otc")},
        "blocks": [
            *(
                {"name": f"{name} words", "source": name, "coding": _VQ, "pooling": "average", "power": 0.5}
                for name in ("hog2x2", "lbp", "otc")
            ),
            *({"name": name, "source": name, "coding": None} for name in ("gist", "centrist")),
        ],
        "classifier": {"C": 1.0, "calibrate": False},
    },
    "table": {
        "layers": [],
        "sources": {
            "sift": {"method": "sift", "step": 16, **_SCALES},
            "deep": {"method": "table", "path": "DEEP/deep.npz"},
        },
        "blocks": [
            {"name": "sift", "source": "sift", "coding": _LLC, "levels": [[1, 1]]},
            {"name": "net", "source": "deep", "coding": None},
        ],
    },
    "network": {
        "layers": [],
        "sources": {"deep": {"method": "onnx", "path": "DEEP/deep.onnx"}},
        "blocks": [{"name": "net", "source": "deep", "coding": None}],
    },
}


class Seed(NamedTuple):
    """A valid model: what its file holds, and the files that its sources read."""

    name: str
    tensors: dict[str, Array]
    header: dict[str, Any]
    files: tuple[Path, ...]


def make_seeds(folder: Path) -> tuple[list[Seed], list[Path]]:
    """Train the small models in ``folder``; return them and paths of two images."""
    drawn, labels = make_scenes(n_per_class=3, random_state=0, size=64)
    classes = sorted(set(labels))[:3]
    kept = [number for number, label in enumerate(labels) if label in classes]
    images, y = [], [labels[number] for number in kept]
    for number in kept:
        images.append(folder / f"{number}.png")
        Image.fromarray(drawn[number]).save(images[-1])
    vectors = np.random.default_rng(0).standard_normal((len(images), 4))
    np.savez(folder / "deep.npz", paths=[path.name for path in images], vectors=vectors)
    (folder / "deep.onnx").write_bytes(TINY_NETWORK)
    (folder / "secret.csv").write_text("a secret,of somebody else\n")
    targets: dict[str, Any] = dict.fromkeys(RECIPES, y)
    targets["descriptors"] = ["first" if label == classes[0] else "second" for label in y]
    targets["fisher"] = [(label, "odd") if number % 2 else (label,) for number, label in enumerate(y)]
    seeds = []
    for name, changes in RECIPES.items():
        here = json.loads(json.dumps(changes).replace("DEEP", str(folder)))
        model = SceneClassifier(changes=here, device="cpu", random_state=0).fit(images, targets[name])
        if name in ("layers", "fisher"):
            model.collect_patches(images, targets[name])
        model.save(folder / name)
        files = [folder / f"deep{end}" for end in (".npz", ".onnx") if f"deep{end}" in str(here)]
        seeds.append(Seed(name, *read_model(folder / name), tuple(files)))
    return seeds, images[:2]


def write_mutant(rng: Rng, seed: Seed, path: Path) -> str:
    """Write a file that differs from a seed; return what was done, for people."""
    tensors, header = dict(seed.tensors), copy.deepcopy(seed.header)
    done = []
    for _ in range(1 if chance(rng, 0.7) else int(rng.integers(2, 5))):
        in_header = chance(rng, 0.5)
        done.append(change_header(rng, seed, tensors, header) if in_header else change_tensors(rng, tensors))
    way = rng.random()
    if way < 0.65:
        try:
            write_model(path, tensors, header)
            return "; ".join(done)
        except ModelFileError:  # what the writer refuses may still be in a file
            pass
    # An older format has no checksums, and its text may say a key twice.
    _write_older(rng, path, tensors, header)
    if way > 0.9:
        path.write_bytes(mutated(rng, path.read_bytes()))
        done.append("bytes")
    return "; ".join([*done, "older"])


def change_header(rng: Rng, seed: Seed, tensors: dict[str, Array], header: dict[str, Any]) -> str:
    """Change one value of a header in place; most changes are made in the settings."""
    if chance(rng, 0.1) and header == seed.header and len(tensors) == len(seed.tensors):
        return _change_together(rng, tensors, header)
    root = header.get("settings") if chance(rng, 0.6) else header
    places = list(_places(root)) or list(_places(header))
    holder, key = pick(rng, places)
    kind = int(rng.integers(0, 8))
    before = repr(holder[key])[:80]
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[near_miss(rng, str(key))] = holder.pop(key)
    elif kind == 2 and isinstance(holder, dict):
        holder[odd_text(rng)] = odd_value(rng)
    elif kind == 3:
        other, name = pick(rng, places)
        holder[key] = copy.deepcopy(other[name])
    elif kind == 4:
        holder[key] = _nested(holder[key], int(pick(rng, (1, 3, 30, 200))))
    elif kind == 5 and type(holder[key]) in (int, float):
        holder[key] = pick(rng, _NUMBERS)
    elif kind == 6 and isinstance(holder[key], str):
        holder[key] = pick(rng, _NAMES)
    else:
        holder[key] = odd_value(rng)
    return f"header {key!r}: {before} -> {repr(holder[key])[:80] if _has(holder, key) else 'nothing'}"


def change_tensors(rng: Rng, tensors: dict[str, Array]) -> str:
    """Change, remove, rename or add one tensor in place."""
    name = pick(rng, sorted(tensors))
    array = tensors[name]
    kind = int(rng.integers(0, 12))
    if kind == 0:
        del tensors[name]
    elif kind == 1:
        tensors[near_miss(rng, name)] = tensors.pop(name)
    elif kind == 2:
        tensors[pick(rng, (near_miss(rng, name), "extra", "source.stack.layer9.filters"))] = array
    elif kind == 3:
        tensors[name] = tensors[pick(rng, sorted(tensors))]
    elif kind == 4:
        tensors[name] = pick(rng, _RESHAPED)(array)
    elif kind == 5:
        with np.errstate(all="ignore"):
            tensors[name] = array.astype(pick(rng, _TYPES))
    else:
        tensors[name] = _with_values(rng, array)
    return f"tensor {name} kind {kind}"


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)


def _places(values: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place in nested values as a mapping or list and the key there."""
    if isinstance(values, dict | list):
        for key in list(values) if isinstance(values, dict) else range(len(values)):
            yield values, key
            yield from _places(values[key])


def _nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def _change_together(rng: Rng, tensors: dict[str, Array], header: dict[str, Any]) -> str:
    """Change settings and tensors so that they still agree: large grids, many scales, many classes."""
    settings, coef = header["settings"], tensors["classifier.coef"]
    if chance(rng, 0.4):
        block = pick(rng, settings["blocks"])
        block["levels"] = pick(rng, ([[20, 20]], [[100, 100]], [[100, 1]] * 20, [[7, 5], [3, 2], [1, 1]]))
        cells = sum(rows * columns for rows, columns in block["levels"])
        words = tensors.get(f"block.{block['name']}.words")
        if words is not None:
            known = sum(
                tensors[f"block.{other['name']}.words"].shape[0] * sum(a * b for a, b in other["levels"])
                for other in settings["blocks"]
                if f"block.{other['name']}.words" in tensors
            )
            tensors["classifier.coef"] = np.ones((len(coef), known), np.float32)
        for name in [name for name in tensors if name.startswith(("average.", "patches."))]:
            del tensors[name]
        return f"{cells} cells"
    if chance(rng, 0.5):
        for place, key in _places(settings):
            if key in ("n_scales", "step", "max_side", "batch_size", "input_size"):
                place[key] = pick(rng, (1, 2, 20, 1000, 1024, 4096, 8192, 10**6))
        return "scales and steps"
    header["classes"] = [f"class {number}" for number in range(len(header["classes"]))]
    header["changes"] = {f"sources.x{number}": {} for number in range(int(pick(rng, (1, 100, 3000))))}
    return "changes"


def _with_values(rng: Rng, array: Array) -> Array:
    """Return an array with some values changed: by bits, or to what is extreme for its type."""
    made = array.copy()
    flat = made.reshape(-1)
    if not flat.size:
        return made
    if chance(rng, 0.4):
        bits = flat.view(np.uint8)
        for _ in range(int(pick(rng, (1, 1, 10)))):
            bits[int(rng.integers(len(bits)))] ^= 1 << int(rng.integers(8))
        return made if made.dtype != bool else (made.view(np.uint8) != 0)
    places = slice(None) if chance(rng, 0.3) else rng.integers(len(flat), size=int(pick(rng, (1, 1, 5))))
    with np.errstate(all="ignore"):
        if chance(rng, 0.3):
            flat[places] = (flat[places] * pick(rng, (-1.0, 1e6, 1e12, 1e30, 1e-30))).astype(flat.dtype)
        else:
            flat[places] = np.asarray(pick(rng, _VALUES)).astype(flat.dtype)
    return made


def _write_older(rng: Rng, path: Path, tensors: dict[str, Array], header: dict[str, Any]) -> None:
    """Write a file of format 3, which has no checksums."""
    older = {**header, "format": "ddsfl model", "format_version": int(pick(rng, (3, 3, 3, 2, 1)))}
    for name in ("checksum", "checksums"):
        older.pop(name, None)
    older["seconds"] = {"layer1.bank": 1.5, "x": odd_value(rng)} if chance(rng, 0.2) else {}
    older["device"] = odd_value(rng) if chance(rng, 0.1) else "cpu"
    text = json.dumps(older)
    if chance(rng, 0.1):
        text = text[:-1] + f", {json.dumps(pick(rng, sorted(older)))}: {json.dumps(odd_value(rng))}}}"
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    path.write_bytes(save(arrays, metadata={"ddsfl": text}))


_NUMBERS = (
    *(0, 1, 2, 3, 4, 5, 6, 7, 10, 16, 20, 64, 100, 300, 1000, 1024, 4096, 8192, 20_000, 10**6, 2**31, 2**63),
    *(-1, 0.0, 1e-300, 1e-30, 1e-6, 0.1, 0.5, 1.0, 100.0, 1e6, 1e12, 1e300, 10**25),
)
_NAMES = (
    *("stack", "sift", "lbp", "gist", "centrist", "onnx", "table", "callable", "llc", "vq", "fisher", "cv"),
    *(
        "/etc/hostname",
        "../secret.csv",
        "secret.csv",
        "deep.npz",
        "/dev/zero",
        "..",
        "",
        "[/]",
        "$x^",
        "a\nb",
        *("../evil", "/tmp/ddsfl-evil", "a\\b", "C:evil", "\ud800", "\udcff"),
    ),
    *("cuda", "cuda:7", "cpu", "auto", "max", "average", "gray", "rgb", "lab", "balanced"),
)
_VALUES = (np.nan, np.inf, -np.inf, 0, -1, 1, 255, 1e6, -1e6, 1e12, 3e38, -3e38, 1e-38, 1e300, 2**31, 2**62)
_TYPES = ("float16", "float32", "float64", "int8", "int64", "uint8", "uint64", "bool", "int32")
_RESHAPED: tuple[Callable[[Array], Array], ...] = (
    lambda array: array.T,
    lambda array: array.reshape(-1),
    lambda array: array[None],
    lambda array: array[..., None],
    lambda array: array[:0] if array.ndim else array[None][:0],
    lambda array: array[:1] if array.ndim else array,
    lambda array: array[:-1] if array.ndim else array,
    lambda array: np.concatenate([array, array]) if array.ndim else array[None],
    lambda array: np.repeat(array, 300, axis=0) if array.ndim else array,
    lambda array: np.zeros((0, 0), array.dtype),
)
