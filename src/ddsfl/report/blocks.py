"""What each block of a model is made of, and what it adds."""

from __future__ import annotations

import numpy as np

from ddsfl.encoder.block import Block
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.pages.report_view import BlockRow
from ddsfl.report.weights import block_shares


def validated_score(model: SceneClassifier) -> float | None:
    """Return the score of cross-validation at the C in use; None if there was none."""
    if model.validation_ is not None:
        return model.validation_.score
    scores = getattr(model.classifier_, "cv_scores_", None)  # of models saved before the validation was kept
    return None if scores is None else float(np.max(scores))


def block_rows(model: SceneClassifier) -> tuple[BlockRow, ...]:
    """Return the blocks with their share of the decisions and the score without them."""
    shares = block_shares(model)
    without = None if model.validation_ is None else model.validation_.without
    return tuple(
        BlockRow(
            name=block.name,
            made_of=_made_of(model, number, block),
            share=None if shares is None else float(shares[:, number].mean()),
            without=None if without is None else float(without[number]),
        )
        for number, block in enumerate(model.settings_.blocks)
    )


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


def _made_of(model: SceneClassifier, number: int, block: Block) -> str:
    coding = model.codings_[number]
    described = source_words(model, block)
    if coding is None or block.coding is None:
        return described
    return f"{described}; {block.coding['method']}, {coding.n_learned} {coding.noun}"
