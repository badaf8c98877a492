"""Pictures of a model: what its layers, words and weights learned."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.curves import objective_curves
from ddsfl.report.learned import Firings
from ddsfl.report.plots import (
    draw_filters,
    draw_firing,
    draw_objective,
    draw_shares,
    draw_sharing,
    draw_words,
)
from ddsfl.report.tiles import scaled_tiles
from ddsfl.report.weights import block_shares, weighed_names, words_that_matter

#: Words in a picture.
_WORDS = 60


def draw_model(
    model: SceneClassifier, folder: Path, fired: Mapping[int, Firings] | None = None
) -> list[Path]:
    """Draw layers, words and shares of blocks into ``folder``; return the paths of the pictures.

    ``fired`` is what `own_firings` found in the training images; it is drawn, too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    if "stack" in model.sources_:
        files += _draw_layers(model, folder)
    files += _draw_firings(model, fired or {}, folder)
    files += _draw_words(model, folder)
    shares = block_shares(model)
    if shares is not None and shares.shape[1] > 1:
        files.append(folder / "blocks.png")
        names = [block.name for block in model.settings_.blocks]
        draw_shares(files[-1], shares, names, weighed_names(model), "How much each block contributes")
    return files


def _draw_layers(model: SceneClassifier, folder: Path) -> list[Path]:
    files = []
    names = [str(name) for name in model.classes_]
    stack = model.stack_
    for index, pictures in enumerate(stack.pixel_filters_):
        layer = f"layer {index + 1}"
        files.append(folder / f"layer{index + 1}-filters.png")
        shown = pictures[:, 0] if pictures.shape[1] == 1 else pictures
        draw_filters(files[-1], shown, f"What the {len(pictures)} filters of {layer} look for")
        if stack.sharing_[index].any():
            files.append(folder / f"layer{index + 1}-sharing.png")
            draw_sharing(
                files[-1], stack.sharing_[index], names, f"Which classes share which filters, {layer}"
            )
        if len(stack.objective_[index]) > 1:
            files.append(folder / f"layer{index + 1}-objective.png")
            draw_objective(files[-1], *objective_curves(stack, index), f"Learning {layer}")
    return files


def _draw_words(model: SceneClassifier, folder: Path) -> list[Path]:
    """Draw the words of blocks whose descriptors are gradients."""
    files = []
    for index, (block, coding) in enumerate(zip(model.settings_.blocks, model.codings_)):
        words = words_that_matter(model, index, _WORDS)
        if coding is None or words is None:
            continue
        strokes = model.sources_[block.source].strokes(coding.centres()[words.numbers])
        if strokes is None:
            continue
        files.append(folder / f"{block.name}-words.png")
        title = f"{block.name}: the {len(words.numbers)} most important of {coding.n_learned} {coding.noun}"
        caption = (
            "Strokes point to the brighter side of edges in the patch. Below: the class it matters most for."
        )
        draw_words(files[-1], np.maximum(strokes, 0), words.classes, title, caption)
    return files


def _draw_firings(model: SceneClassifier, fired: Mapping[int, Firings], folder: Path) -> list[Path]:
    """Draw filters that only one class uses, with the training patches where they respond most."""
    files, names = [], [str(name) for name in model.classes_]
    for index, places in fired.items():
        sharing, filters = model.stack_.sharing_[index], list(places)
        files.append(folder / f"layer{index + 1}-firing.png")
        draw_firing(
            files[-1],
            scaled_tiles(model.stack_.pixel_filters_[index][filters]),
            [[place.pixels for place in places[number]] for number in filters],
            [names[int(sharing[:, number].argmax())] for number in filters],
            [[names[place.label] for place in places[number]] for number in filters],
            f"Filters of layer {index + 1} that a single class uses",
        )
    return files
