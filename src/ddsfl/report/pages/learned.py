"""The filters of a layer, drawn: small pictures in groups, from shared by all classes to used by one."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from PIL import Image

from ddsfl.compute.words import counted
from ddsfl.report.pages.charts import LineChart, learning_lines
from ddsfl.report.pages.pixels import jpeg_address, png_address
from ddsfl.report.pages.report_view import Array, FilterPicture, Learned, LearnedLayer, Patch
from ddsfl.report.pages.tree import DrawnTree, draw_tree

#: Side of a patch in pixels, and how many classes of one filter are named.
_PATCH_SIDE, _NAMED = 48, 16


@dataclass(frozen=True)
class DrawnFilter:
    """A filter as an address; ``words`` say who uses it.

    ``named`` are the classes that are listed, ``unnamed`` is the number of the others. ``patches`` is one
    picture of all patches side by side, None without patches, and ``labels`` are their classes.
    """

    number: int
    address: str
    words: str
    named: Sequence[str]
    unnamed: int
    patches: str | None
    labels: Sequence[str]


@dataclass(frozen=True)
class FilterGroup:
    """Filters that a similar number of classes use; ``title`` is empty if filters are not chosen by class."""

    title: str
    filters: Sequence[DrawnFilter]


@dataclass(frozen=True)
class DrawnLayer:
    """A layer with its filters in groups and its learning curve."""

    layer: LearnedLayer
    groups: Sequence[FilterGroup]
    chart: LineChart | None


@dataclass(frozen=True)
class DrawnLearned:
    """What the page draws of a model: its layers, and the tree of its classes."""

    layers: Sequence[DrawnLayer]
    tree: DrawnTree | None


def draw_learned(learned: Learned) -> DrawnLearned:
    """Draw the layers and the tree of a model; a tree needs two classes."""
    sharing = learned.sharing
    total = len(sharing.names) if sharing else None
    return DrawnLearned(
        layers=[_draw_layer(layer, total) for layer in learned.layers],
        tree=draw_tree(sharing) if sharing and len(sharing.names) > 1 else None,
    )


def users(count: int, total: int | None) -> str:
    """Return a group of filters by how many of all classes use each.

    >>> [users(count, 8) for count in (8, 7, 4, 2, 1, 0)]
    ['all 8 classes', '5 to 7 classes', '2 to 4 classes', '2 to 4 classes', 'one class', 'no class']
    >>> users(2, 3), users(5, None)
    ('2 classes', 'several classes')
    """
    if count < 2:
        return "one class" if count else "no class"
    if total is None:
        return "several classes"
    if count == total:
        return f"all {total} classes"
    half = total // 2
    low, high = (2, half) if count <= half else (max(half + 1, 2), total - 1)
    return f"{low} to {high} classes" if low < high else f"{low} classes"


def _draw_layer(layer: LearnedLayer, total: int | None) -> DrawnLayer:
    by_class = any(drawn.classes for drawn in layer.filters)
    groups = groupby(layer.filters, key=lambda one: users(len(one.classes), total) if by_class else "")
    return DrawnLayer(
        layer=layer,
        groups=[FilterGroup(title, [_draw_filter(one, total) for one in some]) for title, some in groups],
        chart=learning_lines(layer.curve) if layer.curve and len(layer.curve.values) else None,
    )


def _draw_filter(drawn: FilterPicture, total: int | None) -> DrawnFilter:
    count = len(drawn.classes)
    everyone = count > 1 and count == total
    named = () if everyone else drawn.classes[:_NAMED]
    if not count:
        words = ""
    elif everyone:
        words = f"used by all {count} classes"
    else:
        words = f"used by {counted(count, 'class', 'classes')}"
    return DrawnFilter(
        number=drawn.number,
        address=png_address(_png(drawn.pixels)),
        words=words,
        named=named,
        unnamed=0 if everyone else count - len(named),
        patches=_side_by_side(drawn.patches) if drawn.patches else None,
        labels=[patch.label for patch in drawn.patches],
    )


def _png(pixels: Array) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, "PNG", optimize=True)
    return file.getvalue()


def _side_by_side(patches: Sequence[Patch]) -> str:
    """Return all patches as one picture: one file is much smaller than many."""
    drawn = [Image.fromarray(np.ascontiguousarray(patch.pixels)) for patch in patches]
    mode = "L" if all(picture.mode == "L" for picture in drawn) else "RGB"
    size = (_PATCH_SIDE, _PATCH_SIDE)
    row = [np.asarray(picture.convert(mode).resize(size, Image.Resampling.BICUBIC)) for picture in drawn]
    return jpeg_address(np.concatenate(row, axis=1), _PATCH_SIDE * len(row))
