"""The demo: compare three kinds of filters on drawn scenes, save a model and draw what it learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from ddsfl.compute.stages import write_whole
from ddsfl.experiments.cells import score_predictions
from ddsfl.experiments.reporting.asked import asked_cell
from ddsfl.experiments.reporting.build import report_of_model
from ddsfl.experiments.reporting.pictures import Album
from ddsfl.images.labels import Labels
from ddsfl.images.scenes import make_scenes
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.presets import preset
from ddsfl.report.console import Console, show, show_line
from ddsfl.report.explanation import explanations, for_page, word_nouns
from ddsfl.report.pages.report import report_page
from ddsfl.report.pages.why import why_page
from ddsfl.report.pictures import draw_model
from ddsfl.report.plots import draw_confusion

#: Drawn scenes are small and simple: fewer filters, scales and words than in preset `quick` suffice. Each
#: filter explains more, so it may cost more.
DEMO_CHANGES: Mapping[str, Any] = {
    "layers.bank.n_filters": 100,
    "layers.bank.max_iter": 60,
    "layers.bank.lambda2": 0.01,
    "layers.n_components": 100,
    "layers.n_scales": 3,
    "blocks.coding.n_words": 400,
}
_BANK = preset("quick").layers[0].bank or {}
#: RICA takes as many steps in total as DDSFL: those before the class terms are added and those of the rounds.
_ALL_STEPS = DEMO_CHANGES["layers.bank.max_iter"] + _BANK["rounds"] * _BANK["round_iter"]
#: The three kinds of filters that the demo compares; all other settings are equal.
KINDS: Mapping[str, Mapping[str, Any]] = {
    "Random": {"layers.bank.max_iter": 0, "layers.bank.gamma": 0.0, "layers.bank.eta": 0.0},
    "RICA": {"layers.bank.gamma": 0.0, "layers.bank.eta": 0.0, "layers.bank.max_iter": _ALL_STEPS},
    "DDSFL": {},
}
N_TRAIN, N_TEST = 30, 60
#: Wrong answers, and as many right ones, that are explained.
N_EXPLAINED = 4


def demo_scenes(seed: int) -> tuple[list[Any], list[str], list[Any], list[str]]:
    """Return training images, training labels, test images and test labels, drawn with one seed."""
    images, labels = make_scenes(n_per_class=N_TRAIN + N_TEST, random_state=seed)
    seen: dict[str, int] = {}
    train: list[int] = []
    test: list[int] = []
    for index, label in enumerate(labels):
        seen[label] = seen.get(label, 0) + 1
        (train if seen[label] <= N_TRAIN else test).append(index)
    return (
        [images[i] for i in train], [labels[i] for i in train],
        [images[i] for i in test], [labels[i] for i in test],
    )  # fmt: skip


def compare_kinds(
    seed: int, *, device: str = "auto", console: Console | None = None
) -> tuple[dict[str, dict[str, Any]], SceneClassifier, list[str]]:
    """Return the scores of each kind of filter on the scenes of ``seed``, the DDSFL model and its answers."""
    console = console or Console.silent()
    train_images, train_labels, test_images, test_labels = demo_scenes(seed)
    scores = {}
    for kind, changes in KINDS.items():
        console.prefix = f"{kind}: "
        model = SceneClassifier(
            "quick", changes={**DEMO_CHANGES, **changes}, device=device, random_state=seed
        )
        model.fit(
            train_images, train_labels, report=console.stage, progress=console.progress, steps=console.steps
        )
        console.begin("test images")
        predicted = model.predict(test_images, progress=console.progress)
        scores[kind] = score_predictions(test_labels, list(predicted), list(model.classes_))
    console.close()
    return scores, model, [str(label) for label in predicted]


def explain_some(
    model: SceneClassifier, predicted: Sequence[str], seed: int, console: Console | None = None
) -> str:
    """Return a page on some test images of the scenes of ``seed``, wrong answers first."""
    console = console or Console.silent()
    train_images, train_labels, images, labels = demo_scenes(seed)
    console.begin("training patches")
    model.collect_patches(train_images, train_labels, progress=console.progress)
    wrong = [number for number, label in enumerate(labels) if predicted[number] != label]
    right = [number for number, label in enumerate(labels) if predicted[number] == label]
    # Spread over the list, which is sorted by class.
    spread = (
        some[len(some) * part // N_EXPLAINED]
        for some in (wrong, right)
        for part in range(N_EXPLAINED)
        if some
    )
    shown = list(dict.fromkeys(spread))  # there may be fewer
    names = [_name(number, labels) for number in shown]
    listed = model.settings_.image_list([images[number] for number in shown])
    console.begin("explain")
    found = explanations(model, listed, names, progress=console.progress)
    nouns = word_nouns(model)
    page = why_page([for_page(one, images[number], nouns) for number, one in zip(shown, found)])
    console.close()
    return page


def _name(number: int, labels: Sequence[str]) -> str:
    """Return what a test image is called."""
    return f"test image {number}, drawn as {labels[number]}"


def report_scenes(model: SceneClassifier, seed: int, console: Console | None = None) -> str:
    """Return a page on the model and its mistakes on the test images of the scenes of ``seed``."""
    console = console or Console.silent()
    train_images, train_labels, images, labels = demo_scenes(seed)
    names = [_name(number, labels) for number in range(len(labels))]
    image_list = model.settings_.image_list
    return report_page(
        report_of_model(
            "Drawn scenes, DDSFL",
            model,
            asked_cell(model, image_list(images), dict(enumerate(labels)), names, console),
            Album(dict(zip(names, images)), lambda split: model),
            console,
            how=(f"{len(names)} drawn scenes that the model had not seen, {N_TEST} per class.",),
            training=(image_list(train_images), Labels.read(train_labels)),
        )
    )


def run_demo(out: Path, *, seed: int, device: str, console: Console) -> None:
    """Compare the kinds of filters, print a table, and write the model and the pictures to ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    scores, model, predicted = compare_kinds(seed, device=device, console=console)
    model.save(out / "scenes.safetensors")
    files = draw_model(model, out)
    classes = [str(name) for name in model.classes_]
    confusion = out / "confusion.png"
    draw_confusion(confusion, scores["DDSFL"]["confusion"], classes, "Drawn scenes, DDSFL")
    table = Table("filters", "mean class accuracy", title=f"{len(classes)} classes of drawn scenes")
    for kind, score in scores.items():
        table.add_row(kind, f"{100 * score['mean_class_accuracy']:.1f} %")
    show(table)
    page = out / "why.html"
    write_whole(page, explain_some(model, predicted, seed, console).encode())
    report = out / "report.html"
    write_whole(report, report_scenes(model, seed, console).encode())
    for file in [out / "scenes.safetensors", *files, confusion, page, report]:
        show_line(file)
    show_line(
        f"Open {page} in a browser to see why images got their labels, and {report} to see which are wrong."
    )
