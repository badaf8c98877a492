"""Inspection of a model: tables that describe it."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Column, Table
from rich.text import Text

from ddsfl.compute.words import counted
from ddsfl.learning.layer import Layer
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.blocks import block_rows, source_words, validated_score
from ddsfl.report.console import describe_stage
from ddsfl.report.pairs import Confusions, class_pairs
from ddsfl.report.sharing import SharingCounts, own_counts
from ddsfl.report.weights import block_parts, confusable_classes

#: Rows of the table of similar classes, of classes and of times, and length of the bars of times.
_PAIRS, _CLASSES, _STAGES, _BAR = 10, 2000, 50, 30


def describe_model(model: SceneClassifier) -> list[Table]:
    """Return tables of provenance, layers, blocks, classes and times of a fitted model."""
    tables = [_about(model)]
    if "stack" in model.sources_:
        tables.append(_layers_table(model))
    tables.append(_blocks_table(model))
    tables.append(_classes_table(model))
    tables += _pairs_tables(model)
    return [*tables, _times(model)]


def _right(title: str) -> Column:
    return Column(title, justify="right")


def _classes_table(model: SceneClassifier) -> Table:
    """Return the classes, with the number of filters of each layer that only this class uses."""
    shared = enumerate(model.stack_.sharing_, start=1) if "stack" in model.sources_ else ()
    own = {number: own_counts(sharing) for number, sharing in shared if sharing.any()}
    classes = Table(
        _right("number"), "class", _right("images"), *(_right(f"own filters, layer {n}") for n in own),
        title="Classes",
    )  # fmt: skip
    listed = zip(model.classes_[:_CLASSES], model.training_["images_per_class"])
    for row, (name, count) in enumerate(listed):
        owned = (str(counts[row]) for counts in own.values())
        classes.add_row(str(row + 1), Text(str(name)), str(count), *owned)
    if len(model.classes_) > _CLASSES:
        classes.caption = (
            f"{counted(len(model.classes_) - _CLASSES, 'more class', 'more classes')}, not listed."
        )
    return classes


def _pairs_tables(model: SceneClassifier) -> list[Table]:
    """Return tables of the classes that share most, and of those that are hard to tell apart."""
    held_out, tables = Confusions.held_out(model.validation_), []
    sharing, confused = class_pairs(model, held_out, _PAIRS)
    if sharing:
        alike = Table(
            "class", "class", _right("filters of both"), _right("part"), title="Share most filters",
            caption="Of the filters of all layers that either class uses, how many both use.",
        )  # fmt: skip
        for pair in sharing:
            part = f"{100 * (pair.shared or 0) / (pair.either or 1):.0f} %"
            alike.add_row(Text(pair.first), Text(pair.second), f"{pair.shared} of {pair.either}", part)
        tables.append(alike)
    if confused:
        mixed = Table(
            "class", "class", _right("taken for the other"), title="Confused most",
            caption="Training images, classified by SVMs that were fitted without them.",
        )  # fmt: skip
        for pair in confused:
            images = counted(pair.tested or 0, "image")
            mixed.add_row(Text(pair.first), Text(pair.second), f"{pair.confused} of {images}")
        tables.append(mixed)
    pairs = confusable_classes(model, _PAIRS) if held_out is None else []
    if pairs:
        similar = Table(
            "class", "class", _right("cosine of the SVM weights"), title="Hard to tell apart",
            caption="The more negative, the more alike the classes look to the model.",
        )  # fmt: skip
        for first, second, cosine in pairs:
            similar.add_row(Text(first), Text(second), f"{cosine:.2f}")
        tables.append(similar)
    return tables


def _about(model: SceneClassifier) -> Table:
    about = Table("", "", title="Model", show_header=False)
    for name, value in about_rows(model):
        about.add_row(name, Text(value))
    return about


def about_rows(model: SceneClassifier) -> list[tuple[str, str]]:
    """Return what a model is and where it comes from, as names and values in words."""
    training, machine, run = model.training_, model.classifier_, model.run_
    scores, slopes = getattr(machine, "cv_scores_", None), getattr(machine, "slopes_", None)
    cost = f"{machine.C_:g}"
    if scores is not None:
        tried = ", ".join(f"{C:g}: {100 * score:.1f} %" for C, score in zip(machine.Cs, scores))
        cost += f", by cross-validation ({tried})"
    labels = "several labels per image" if model.multilabel_ else "one label per image"
    threads = f", {counted(run.threads, 'thread')}" if run.threads else ""
    calibrated = "not calibrated" if slopes is None else f"calibrated, slope {slopes.mean():.2f}"
    return [
        ("preset", model.settings_.preset or "none: custom settings"),
        *(("changed", f"{path} = {value}") for path, value in model.settings_.changes.items()),
        ("seed", "drawn" if model.random_state is None else str(model.random_state)),
        ("trained on", f"{training['n_images']} images (digest of their pixels: {training['fingerprint']})"),
        ("classes", f"{len(model.classes_)}, {labels}"),
        ("trained with", f"{run.device}{threads}"),
        ("checksum", model.checksum_ or "none: damage to the file would not be noticed"),
        ("values per image", f"{machine.n_features_in_:,}"),
        ("C of the SVM", cost),
        ("probabilities", calibrated),
    ]


def _layers_table(model: SceneClassifier) -> Table:
    layers = Table(
        "layer", "field", "step", "scales", "filters", "learned from", "filters per class",
        "used by all classes", "by several", "by one", "by none", title="Layers",
    )  # fmt: skip
    for number, layer in enumerate(model.settings_.layers, start=1):
        cells = [str(number), f"{layer.field} px", str(layer.step), str(layer.n_scales)]
        if layer.bank is None:
            layers.add_row(*cells, "-", f"nothing: pools layer {number - 1}", *"-----")
            continue
        sharing = model.stack_.sharing_[number - 1]
        cells += [str(len(model.stack_.learned_[number - 1].filters)), _learned_from(layer)]
        if sharing.any():
            cells += [f"{sharing.sum(axis=1).mean():.0f}", *SharingCounts.of(sharing).words]
        else:
            cells += ["all", *"----"]
        layers.add_row(*cells)
    return layers


def _learned_from(layer: Layer) -> str:
    bank = layer.bank or {}
    uses_classes = bank.get("gamma", 1) or bank.get("eta", 1)
    return "patches and classes" if uses_classes else "patches only"


def _blocks_table(model: SceneClassifier) -> Table:
    """Return what each block is made of and how much it contributes to the decisions."""
    blocks = Table(
        "block", "descriptors", "coding", _right("words"), "cells", _right("values"), "weight",
        _right("share of decisions"), _right("score without it"), title="Blocks",
    )  # fmt: skip
    parts, rows, score = block_parts(model), block_rows(model), validated_score(model)
    for index, (block, coding, weight) in enumerate(
        zip(model.settings_.blocks, model.codings_, model.weights_)
    ):
        cells = " + ".join(f"{rows}x{columns}" for rows, columns in block.levels) if block.coding else "-"
        blocks.add_row(
            Text(block.name),
            Text(source_words(model, block)),
            block.coding["method"] if block.coding else "-",
            "-" if coding is None else f"{coding.n_learned} {coding.noun}",
            cells + (", mirrored too" if block.mirrored else ""),
            "-" if parts is None else f"{parts[index].shape[1]:,}",
            f"{weight:g}" + (" (chosen)" if block.weight == "cv" else ""),
            "-" if rows[index].share is None else f"{100 * (rows[index].share or 0):.0f} %",
            _without(rows[index].without, score),
        )
    return blocks


def _without(without: float | None, score: float | None) -> str:
    """Return the score without a block, and the change in points.

    >>> _without(0.79, 0.83), _without(None, 0.83)
    ('79.0 % (-4.0)', '-')
    """
    if without is None or score is None:
        return "-"
    return f"{100 * without:.1f} % ({100 * (without - score):+.1f})"


def _times(model: SceneClassifier) -> Table:
    """Return the times of the stages in their order: of all, or of those that took longest."""
    joined = _by_kind(model.run_.seconds)
    shown = set(sorted(joined, key=lambda name: -joined[name])[:_STAGES])
    seconds = Table("stage", _right("seconds"), "", title="Time")
    longest = max([*joined.values(), 1e-9])
    for name, value in joined.items():
        if name in shown:
            bar = Text("█" * round(_BAR * value / longest))
            seconds.add_row(Text(describe_stage(name)), f"{value:.1f}", bar)
    if len(shown) < len(joined):
        rest = sum(value for name, value in joined.items() if name not in shown)
        seconds.add_row(
            f"{counted(len(joined) - len(shown), 'shorter stage')}, not listed", f"{rest:.1f}", ""
        )
    seconds.add_section()
    seconds.add_row("total", f"{sum(joined.values()):.1f}", "")
    return seconds


def _by_kind(seconds: Mapping[str, float]) -> dict[str, float]:
    """Add up the times of all parts of the encoding."""
    joined: dict[str, float] = {}
    for name, value in seconds.items():
        kind = "vectors" if name.rpartition(".")[2].startswith("vectors") else name
        joined[kind] = joined.get(kind, 0.0) + value
    return joined
