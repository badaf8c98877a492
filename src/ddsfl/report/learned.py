"""From a model to what the page of `ddsfl report` shows of it: filters, sharing, blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ddsfl.explain.firing import Firing, strongest_places
from ddsfl.model.classifier import SceneClassifier
from ddsfl.patches.batches import Progress
from ddsfl.report.blocks import block_rows, validated_score
from ddsfl.report.curves import learning_curve
from ddsfl.report.pages.report_view import FilterPicture, Learned, LearnedLayer
from ddsfl.report.pages.why_view import Patch
from ddsfl.report.pairs import Confusions, class_pairs
from ddsfl.report.sharing import joined_sharing, own_filters, sharing_tree, sharing_words
from ddsfl.report.tiles import as_bytes, scaled_tiles

Array = np.ndarray[Any, Any]
#: Places where filters of a layer respond most, by filter.
Firings = dict[int, tuple[Firing, ...]]

#: Filters of a layer and pairs of classes that are shown.
N_FILTERS, N_PAIRS = 200, 10
#: Filters of a layer that one class has for itself whose patches are shown, and patches of each.
N_OWN, N_PATCHES = 40, 4


def learned_part(
    model: SceneClassifier,
    images: Any = None,
    labels: Any = None,
    progress: Progress | None = None,
    confusion: Array | None = None,
) -> Learned:
    """Return what a model has learned, for a page.

    Parameters
    ----------
    model : any fitted model; parts that it does not have are empty or None.
    images, labels : the training images and their labels, to show where filters that only one class uses
        respond most; ValueError if the model was trained with others.
    progress : called with (images done, images in all) while these are searched.
    confusion : (C, C) counts of tested images, a row per true class in the order of ``model.classes_``; by
        default those of the answers held out in training.

    Examples
    --------
    >>> from ddsfl import SceneClassifier, make_scenes
    >>> images, labels = make_scenes(n_per_class=4, random_state=0)
    >>> small = {"layers.bank.n_filters": 16, "blocks.coding.n_words": 32, "layers.bank.max_iter": 5}
    >>> model = SceneClassifier(changes=small, random_state=0).fit(images, labels)
    >>> learned = learned_part(model)
    >>> [layer.n_filters for layer in learned.layers], [block.name for block in learned.blocks]
    ([16, 16], ['layer1', 'layer2'])
    """
    fired: dict[int, Firings] = {}
    if images is not None and "stack" in model.sources_:
        fired = own_firings(model, images, labels, progress)
    confusions = Confusions.held_out(model.validation_)
    if confusion is not None:
        confusions = Confusions.of_counts(confusion)
    sharing_pairs, confused_pairs = class_pairs(model, confusions, N_PAIRS)
    names = [str(name) for name in model.classes_]
    n_layers = len(model.stack_.learned_) if "stack" in model.sources_ else 0
    return Learned(
        layers=tuple(_layer(model, index, fired.get(index, {})) for index in range(n_layers)),
        sharing=sharing_tree(names, joined_sharing(model)),
        sharing_pairs=sharing_pairs,
        confused_pairs=confused_pairs,
        blocks=block_rows(model),
        score=validated_score(model),
        score_name="mean average precision" if model.multilabel_ else "mean class accuracy",
    )


def own_firings(
    model: SceneClassifier, images: Any, labels: Any, progress: Progress | None = None
) -> dict[int, Firings]:
    """Return by layer and filter where filters that only one class uses respond most in the training images.

    At most N_OWN filters of a layer, spread over the classes; layers without any are left out.
    """
    listed, numbers = model.training_images(images, labels)
    own = {index: own_filters(sharing, N_OWN) for index, sharing in enumerate(model.stack_.sharing_)}
    searched = {index: filters for index, filters in own.items() if filters}
    fired: dict[int, Firings] = {}
    for place, (index, filters) in enumerate(searched.items()):

        def shifted(done: int, total: int, before: int = place) -> None:
            if progress is not None:
                progress(before * total + done, len(searched) * total)

        places = strongest_places(model.stack_, listed, numbers.tolist(), index, filters, N_PATCHES, shifted)
        fired[index] = dict(zip(filters, places))
    return fired


def _layer(model: SceneClassifier, index: int, fired: Firings) -> LearnedLayer:
    stack, names = model.stack_, [str(name) for name in model.classes_]
    sharing, pictures = stack.sharing_[index], stack.pixel_filters_[index]
    count = len(pictures)
    shown = shown_filters(sharing, N_FILTERS)
    tiles = as_bytes(scaled_tiles(pictures[shown]))
    words = sharing_words(sharing, count)
    if count > len(shown):
        words += f" {len(shown)} of them are shown."
    filters = tuple(
        FilterPicture(
            number=number,
            pixels=tile,
            classes=tuple(names[row] for row in np.flatnonzero(sharing[:, number])),
            patches=tuple(Patch(place.pixels, names[place.label]) for place in fired.get(number, ())),
        )
        for number, tile in zip(shown, tiles)
    )
    return LearnedLayer(f"layer {index + 1}", filters, count, words, learning_curve(stack, index))


def shown_filters(sharing: Array, most: int) -> list[int]:
    """Return which filters (C, D) are shown, those of most classes first.

    If there are more than ``most``, some that only one class uses are among them in any case: these tell most
    about the classes.

    >>> shown_filters(np.array([[1, 1, 0, 1], [0, 1, 1, 1]], dtype=bool), most=2)
    [1, 0]
    """
    users = sharing.sum(axis=0)
    order = np.argsort(-users, kind="stable").tolist()
    if len(order) <= most:
        return order
    kept = set(own_filters(sharing, min(N_OWN, most // 2)))
    others = [number for number in order if number not in kept][: most - len(kept)]
    kept |= set(others)
    return [number for number in order if number in kept]
