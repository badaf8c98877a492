"""Inspection of a model: tables that describe it."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Column, Table
from rich.text import Text

from ddsfl.compute.words import counted
from ddsfl.encoder.block import Block
from ddsfl.learning.layer import Layer
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.console import describe_stage
from ddsfl.report.weights import block_parts, block_shares, confusable_classes

#: Rows of the table of similar classes, and length of the bars of times.
_PAIRS, _BAR = 10, 30


def describe_model(model: SceneClassifier) -> list[Table]:
    """Return tables of provenance, layers, blocks, classes and times of a fitted model."""
    tables = [_about(model)]
    if "stack" in model.sources_:
        tables.append(_layers_table(model))
    tables.append(_blocks_table(model))
    classes = Table(_right("number"), "class", _right("images"), title="Classes")
    for number, (name, count) in enumerate(zip(model.classes_, model.training_["images_per_class"]), start=1):
        classes.add_row(str(number), Text(str(name)), str(count))
    tables.append(classes)
    pairs = confusable_classes(model, _PAIRS)
    if pairs:
        similar = Table(
            "class", "class", _right("cosine of the SVM weights"), title="Hard to tell apart",
            caption="The more negative, the more alike the classes look to the model.",
        )  # fmt: skip
        for first, second, cosine in pairs:
            similar.add_row(Text(first), Text(second), f"{cosine:.2f}")
        tables.append(similar)
    return [*tables, _times(model)]


def _right(title: str) -> Column:
    return Column(title, justify="right")


def _about(model: SceneClassifier) -> Table:
    about = Table("", "", title="Model", show_header=False)
    training, machine = model.training_, model.classifier_
    about.add_row("preset", Text(model.settings_.preset or "none: custom settings"))
    for path, value in model.settings_.changes.items():
        about.add_row("changed", Text(f"{path} = {value}"))
    about.add_row("seed", "drawn" if model.random_state is None else str(model.random_state))
    about.add_row(
        "trained on", f"{training['n_images']} images (digest of their pixels: {training['fingerprint']})"
    )
    labels = "several labels per image" if model.multilabel_ else "one label per image"
    about.add_row("classes", f"{len(model.classes_)}, {labels}")
    threads = f", {counted(model.run_.threads, 'thread')}" if model.run_.threads else ""
    about.add_row("trained with", Text(f"{model.run_.device}{threads}"))
    about.add_row("checksum", model.checksum_ or "none: damage to the file would not be noticed")
    about.add_row("values per image", f"{machine.n_features_in_:,}")
    scores = getattr(machine, "cv_scores_", None)
    if scores is None:
        about.add_row("C of the SVM", f"{machine.C_:g}")
    else:
        tried = ", ".join(f"{C:g}: {100 * score:.1f} %" for C, score in zip(machine.Cs, scores))
        about.add_row("C of the SVM", f"{machine.C_:g}, by cross-validation ({tried})")
    slopes = getattr(machine, "slopes_", None)
    if slopes is None:
        about.add_row("probabilities", "not calibrated")
    else:
        about.add_row("probabilities", f"calibrated, slope {slopes.mean():.2f}")
    return about


def _layers_table(model: SceneClassifier) -> Table:
    layers = Table(
        "layer", "field", "step", "scales", "filters", "learned from", "filters per class", "shared",
        title="Layers",
    )  # fmt: skip
    for number, layer in enumerate(model.settings_.layers, start=1):
        cells = [str(number), f"{layer.field} px", str(layer.step), str(layer.n_scales)]
        if layer.bank is None:
            layers.add_row(*cells, "-", f"nothing: pools layer {number - 1}", "-", "-")
            continue
        sharing = model.stack_.sharing_[number - 1]
        cells += [str(len(model.stack_.learned_[number - 1].filters)), _learned_from(layer)]
        if sharing.any():
            cells += [f"{sharing.sum(axis=1).mean():.0f}", str(int((sharing.sum(axis=0) > 1).sum()))]
        else:
            cells += ["all", "-"]
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
        _right("share of decisions"), title="Blocks",
    )  # fmt: skip
    parts, shares = block_parts(model), block_shares(model)
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
            "-" if shares is None else f"{100 * shares[:, index].mean():.0f} %",
        )
    return blocks


def source_words(model: SceneClassifier, block: Block) -> str:
    """Return the name of a block's descriptors for people."""
    if block.source == "stack":
        layer = model.settings_.layers[block.output]
        if layer.bank is None:
            return f"pooled layer {block.output}"
        return f"layer {block.output + 1}" + (f", signs {layer.signs:g}" if layer.signs else "")
    method = model.settings_.source(block.source)["method"]
    named = method if method == block.source else f"{block.source} ({method})"
    network = model.networks_.files.get(block.source)
    return f"{named} {network['file']} {network['fingerprint'][:12]}" if network else named


def _times(model: SceneClassifier) -> Table:
    joined = _by_kind(model.run_.seconds)
    seconds = Table("stage", _right("seconds"), "", title="Time")
    longest = max([*joined.values(), 1e-9])
    for name, value in joined.items():
        seconds.add_row(Text(describe_stage(name)), f"{value:.1f}", Text("█" * round(_BAR * value / longest)))
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
