"""What a trained model finds suspicious; nothing without one."""

from __future__ import annotations

from ddsfl.report.findings import Finding, Item, Subject


def doubtful_labels(subject: Subject) -> Finding | None:
    """Find images that another class accepts and their own rejects, the clearest first."""
    doubted = [(opinion.doubt, index) for index, opinion in subject.opinion.items() if opinion.doubt > 0]
    items = []
    for doubt, index in sorted(doubted, reverse=True):
        preferred = subject.opinion[index].preferred
        detail = f"rather {preferred!r} ({doubt:.2f})"
        items.append(Item((subject.name(index),), (*subject.labels(index), preferred), detail))
    return Finding.of(
        "doubtful",
        "note",
        "labels that the model doubts",
        "Look at the first ones and correct wrong labels.",
        items,
    )


def new_to_the_model(subject: Subject) -> Finding | None:
    """Find images unlike the training images of the model, the strangest first."""
    new = [(opinion.novelty, index) for index, opinion in subject.opinion.items() if opinion.novelty > 1]
    items = [
        Item((subject.name(index),), detail=f"{novelty:.2f}") for novelty, index in sorted(new, reverse=True)
    ]
    return Finding.of(
        "novel",
        "note",
        "images unlike those the model was trained on",
        "Look at them; remove what does not belong here.",
        items,
    )
