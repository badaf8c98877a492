"""The methods of the tables by name: hand-crafted descriptors, learned layers, networks and combinations.

A name consists of parts: ``sift``, ``rica-2layers``, ``ddsfl-3layers``, ``ddsfl-2layers:svm``,
``ddsfl-3layers+alexnet_pool5``. Settings that a name does not vary come from preset `paper`.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Any

from ddsfl.compute.parameters import among
from ddsfl.descriptors.registry import METHODS
from ddsfl.encoder.block import Block
from ddsfl.model.presets import BANK, LLC, PRESETS, preset
from ddsfl.model.settings import Settings

#: Files of networks, by the names that methods use for them.
NetworkPaths = Mapping[str, str | os.PathLike[str]]

#: The hand-crafted descriptors: they need neither layers nor a file.
DESCRIPTORS = [name for name, kind in METHODS.items() if kind.sees_pixels and not kind.uses_labels]

#: Suffix of a network that sees five views of each image.
FIVE_VIEWS = "five-views"

#: How filters are learned: changes to the bank of every layer. RICA takes as many steps in total as DDSFL,
#: because the number of steps matters more than most settings.
LEARNING: Mapping[str, Mapping[str, Any]] = {
    "random": {"gamma": 0.0, "eta": 0.0, "max_iter": 0},
    "rica": {
        "gamma": 0.0,
        "eta": 0.0,
        "max_iter": BANK["max_iter"] + BANK["rounds"] * BANK["round_iter"],
    },
    "ddsfl": {},
}

#: What an ablation changes: values by path.
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "sharing": {"layers.bank.eta": 0.0},
    "sharing-alone": {
        "layers.bank.eta": 0.0,
        "layers.bank.reconstruction": 0.0,
        "layers.bank.lambda1": 0.0,
    },
    "any-patches": {"layers.exemplars": {"method": "random", "fraction": 0.1}},
    "svm": {"layers.exemplars": {"method": "svm"}},
    "as-printed": {"layers.bank.margin": 1.0, "layers.bank.eta": 1.0},
    # as in the paper: descriptors without signs, equal weights of all layers
    "magnitudes": {"layers.signs": 0.0, "blocks.weight": 1.0},
    "llc-average": {"blocks.pooling": "average"},
    "vq-max": {"blocks.coding": {"method": "vq", "n_words": LLC["n_words"]}},
    "vq-average": {
        "blocks.coding": {"method": "vq", "n_words": LLC["n_words"]},
        "blocks.pooling": "average",
    },
    "lab": {"colour": "lab"},
}


def method(name: str, networks: NetworkPaths | None = None) -> Settings:
    """Return the settings of a method.

    Parameters
    ----------
    name : parts joined by "+": a preset, a descriptor, LEARNING-Nlayers (with :VARIANT or :dN for N
        filters), or one of ``networks`` (with :five-views for four corners and centre instead of the complete
        image).
    networks : ONNX files by name.

    >>> [block.name for block in method("rica-2layers+sift").blocks]
    ['layer1', 'layer2', 'sift']
    >>> method("ddsfl-1layer:d128").layers[0].bank["n_filters"]
    128
    """
    parts = [_part(part, networks or {}) for part in name.split("+")]
    joined = parts[0]
    for part in parts[1:]:
        names = {block.name for block in joined.blocks} & {block.name for block in part.blocks}
        if names:
            raise ValueError(f"method {name!r} joins {', '.join(sorted(names))} twice.")
        if joined.layers and part.layers:
            raise ValueError(f"method {name!r} joins two stacks of learned layers; expected at most one.")
        if joined.colour != part.colour:
            raise ValueError(
                f"method {name!r} joins parts that see {joined.colour} and {part.colour} images."
            )
        # Weights of added blocks are chosen by cross-validation.
        added = tuple(dataclasses.replace(block, weight="cv") for block in part.blocks)
        joined = dataclasses.replace(
            joined,
            layers=joined.layers or part.layers,
            sources={**joined.sources, **part.sources},
            blocks=(*joined.blocks, *added),
        )
    return joined


def _part(name: str, networks: NetworkPaths) -> Settings:
    if name in PRESETS:
        return preset(name)
    network, _, views = name.partition(":")
    if network in networks and views in ("", FIVE_VIEWS):
        source: dict[str, Any] = {"method": "onnx", "path": os.fspath(networks[network])}
        source |= {"views": 5} if views else {}
        return _single(Block(network, source=network, coding=None), {network: source})
    if name in DESCRIPTORS:
        coding = LLC if METHODS[name].is_local else None
        return _single(Block(name, source=name, coding=coding))
    match = re.fullmatch(r"(random|rica|ddsfl)-([123])layers?(?::([a-z0-9-]+))?", name)
    if match is None:
        learned = [f"{kind}-{number}layers" for kind in LEARNING for number in (1, 2, 3)]
        known = [*PRESETS, *DESCRIPTORS, *networks, *learned]
        raise ValueError(
            f"method {name!r} is unknown{among(name, known)} Networks are named with --network NAME=FILE."
        )
    return _learned(match[1], int(match[2]), match[3])


def _learned(kind: str, n_layers: int, variant: str | None) -> Settings:
    paper = preset("paper")
    settings = dataclasses.replace(paper, layers=paper.layers[:n_layers], blocks=paper.blocks[:n_layers])
    changes = {f"layers.bank.{key}": value for key, value in LEARNING[kind].items()}
    if variant is not None and re.fullmatch(r"d\d+", variant):
        changes["layers.bank.n_filters"] = int(variant[1:])
    elif variant is not None:
        if variant not in VARIANTS:
            raise ValueError(f"variant {variant!r} is unknown{among(variant, ['dN', *VARIANTS])}")
        changes |= VARIANTS[variant]
    return settings.change(changes)


def _single(block: Block, sources: Mapping[str, Any] | None = None) -> Settings:
    paper = preset("paper")
    return dataclasses.replace(paper, layers=(), sources=sources or {}, blocks=(block,))
