"""Invented reports: drawn pictures, several splits, numbers that are missing, names that are hostile."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
from scipy.cluster.hierarchy import linkage

from ddsfl.images.scenes import make_scenes
from ddsfl.report.pages.report_view import (
    Bin,
    BlockRow,
    Calibration,
    ClassPair,
    ClassRow,
    Comparison,
    Curve,
    Disagreement,
    Facts,
    FilterPicture,
    Found,
    Learned,
    LearnedLayer,
    Measure,
    Mistake,
    Report,
    SharingTree,
    Tested,
)
from ddsfl.report.pages.why_view import Patch

SCRIPT = "<script>alert(1)</script>"
NAMES = ("coast", "forest", "highway", "inside city", "mountain", "open country", "street", SCRIPT)
#: Width and height of the pictures: not square.
WIDTH, HEIGHT = 96, 72
SCENES, _ = make_scenes(4, random_state=0, size=WIDTH)


def class_names(count):
    """The names of eight classes, of two of them, or many."""
    return NAMES[:count] if count <= len(NAMES) else tuple(f"kind of flower {n}" for n in range(count))


def picture(number):
    """A drawn scene in a colour of its own, not square."""
    scene = SCENES[number % len(SCENES)][:HEIGHT]
    tone = 0.7 + 0.3 * np.cos(number + np.arange(3))
    return (scene[..., None] * tone).astype(np.uint8)


def heat(number):
    """A blob for and a blob against, at places that depend on the number."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    places = np.random.default_rng(number).uniform(10, 60, (2, 2))
    blobs = [np.exp(-((y - row) ** 2 + (x - column) ** 2) / 150) for row, column in places]
    return blobs[0] - 0.8 * blobs[1]


def made_tested(names=NAMES, per_class=30, n_splits=3, pictures=12, seed=0):
    """Answers whose mistakes agree with the confusion matrix; neighbours in the list are confused most."""
    rng = np.random.default_rng(seed)
    count = len(names)
    confusion = np.diag(rng.integers(int(0.6 * per_class), per_class, count))
    for true in range(count):
        for shift, weight in ((1, 0.6), (2, 0.3), (5, 0.1)):
            taken = (true + shift) % count
            if taken != true:
                confusion[true, taken] += rng.binomial(per_class - confusion[true, true], weight)
    splits = tuple(f"split {n + 1}" for n in range(n_splits))
    wrong = [
        (true, taken)
        for true in range(count)
        for taken in range(count)
        if true != taken
        for _ in range(confusion[true, taken])
    ]
    sure = np.sort(rng.uniform(0.2, 0.999, len(wrong)))[::-1]
    mistakes = tuple(
        Mistake(
            name=f"scenes/{true}/photo {number}.jpg",
            split=splits[number % n_splits],
            true=(names[true],),
            predicted=(names[taken],),
            sure=float(sure[number]),
            true_probability=float(0.8 * (1 - sure[number])),
            surprise=float(sure[number]),
            picture=picture(number) if number < pictures else None,
            heat=heat(number) if number < pictures and number % 5 != 4 else None,
        )
        for number, (true, taken) in enumerate(rng.permutation(wrong).tolist())
    )
    with np.errstate(invalid="ignore"):
        recall = np.diag(confusion) / confusion.sum(axis=1)
        precision = np.diag(confusion) / confusion.sum(axis=0)
    f1 = 2 * recall * precision / (recall + precision)
    rows = [
        ClassRow(name, int(confusion[at].sum()), *(float(part[at]) for part in (recall, precision, f1)))
        for at, name in enumerate(names)
    ]
    measures = (
        Measure("mean class accuracy", tuple(float(np.mean(recall) + s / 97) for s in range(n_splits))),
        Measure(
            "accuracy", tuple(float(np.trace(confusion) / confusion.sum() - s / 113) for s in range(n_splits))
        ),
    )
    bins = tuple(
        Bin(low / 10, (low + 1) / 10, 3 * low**2, low / 10 + 0.06, min(1.0, low / 10 + 0.01 * (low % 3)))
        if low
        else Bin(0.0, 0.1, 0, float("nan"), float("nan"))
        for low in range(10)
    )
    how = ("Tested on images that did not train.", "Two test images are copies of training images.")
    images = int(confusion.sum())
    return Tested(how, splits, measures, images, tuple(rows), confusion, mistakes, Calibration(bins, 0.0312))


def made_layer(number, names, n_filters=40, seed=0):
    """A layer whose filters go from shared by all to used by one class, and one that nobody uses."""
    rng = np.random.default_rng(seed + number)
    y, x = np.mgrid[-1:1:12j, -1:1:12j]
    filters = []
    for at in range(n_filters):
        users = max(0, round(len(names) * (1 - at / (n_filters - 3))))
        users = max(users, 1) if at < n_filters - 1 else 0
        wave = np.cos(rng.uniform(2, 9) * (x * np.cos(at) + y * np.sin(at))) * np.exp(-2 * (x**2 + y**2))
        pixels = (128 + 120 * wave).astype(np.uint8)
        if at % 2:
            pixels = np.stack([pixels, pixels[::-1], 255 - pixels], axis=2)
        used = tuple(sorted(rng.permutation(names)[:users].tolist(), key=names.index))
        patches = tuple(
            Patch(picture(at + shift)[10 : 26 + shift, 20:36], names[(at + shift) % len(names)])
            for shift in range(4)
        )
        filters.append(FilterPicture(at + 1, pixels, used, patches))
    steps = np.arange(60.0)
    terms = [3000 * np.exp(-steps / 9) + 2000, 900 + 0 * steps, 700 * np.exp(-steps / 20) + 20]
    terms[2][30:] += 90
    values = np.stack([sum(terms), *terms], axis=1)
    curve = Curve(("objective", "reconstruction", "sparsity", "classes"), values, (30,), "It fell by half.")
    words = f"Of {n_filters + 3} filters, 12 are used by all classes."
    return LearnedLayer(f"layer {number}", tuple(filters), n_filters + 3, words, curve)


def made_learned(names=NAMES, layers=2, n_filters=40):
    """Layers, a tree, pairs and blocks."""
    rng = np.random.default_rng(3)
    merges = linkage(rng.uniform(0.1, 0.8, len(names) * (len(names) - 1) // 2), "average")
    pairs = tuple(
        ClassPair(one, other, 30 - at, 50 + at, at, 60) for at, (one, other) in enumerate(pairwise(names[:6]))
    )
    return Learned(
        layers=tuple(made_layer(number + 1, names, n_filters) for number in range(layers)),
        sharing=SharingTree(names, merges),
        sharing_pairs=pairs,
        confused_pairs=(*pairs[::-1], ClassPair(names[0], names[-1], None, None, 4, 61)),
        blocks=(
            BlockRow("layer1", "60 filters, LLC over 1024 words", 0.421, 0.8017),
            BlockRow("sift", "SIFT, Fisher vectors of 64 Gaussians", 0.379, 0.8402),
            BlockRow("network", "one vector per image", 0.2, None),
        ),
        score=0.8371,
        score_name="mean class accuracy",
    )


def made_comparison(names=NAMES, n=9):
    """A comparison with disagreements of every kind, some without pictures or maps."""
    first, second = made_tested(names, seed=1), made_tested(names, seed=2)
    kinds = ((0, 1), (1, 0), (1, 2))
    disagreements = tuple(
        Disagreement(
            name=f"scenes/0/other {number}.jpg",
            split="split 1",
            true=(names[0],),
            answers=tuple((names[min(at, len(names) - 1)],) for at in kinds[number * 3 // n]),
            sure=(0.91 - number / 50, None if number == 1 else 0.62 + number / 50),
            picture=picture(number) if number % 3 != 2 else None,
            heats=(heat(number), -0.4 * heat(number + 1)) if number % 3 == 0 else (None, None),
        )
        for number in range(n)
    )
    return Comparison(
        names=("small model", f"large {SCRIPT}"),
        measures=tuple(zip(first.measures, second.measures)),
        both_right=171,
        only_first=23,
        only_second=14,
        both_wrong=32,
        p=0.1877,
        words=("The small model is better by 3.8 points.", "That could be chance (p = 0.19)."),
        classes=tuple(zip(first.classes, second.classes)),
        disagreements=disagreements,
    )


def made_report(count=8, pictures=12, per_class=30, comparison=False, **changes):
    """Return a report with all its parts; a comparison only if it is asked for."""
    names = class_names(count)
    made = Report(
        title="Scenes: layers and SIFT",
        tested=made_tested(names, per_class=per_class, pictures=pictures),
        comparison=made_comparison(names) if comparison else None,
        learned=made_learned(names),
        found=(
            Found(
                "error",
                "Same image with two labels",
                "Decide which label is right.",
                2,
                ("a.jpg = b.jpg",) * 5,
            ),
            Found("warning", "Small images", "Use larger ones.", 3, ("c.jpg: 20 x 31",)),
            Found("note", "Gray images", "Nothing to do.", 1200, ()),
        ),
        facts=(
            Facts("Settings", (("preset", "scenes"), ("seed", "0"), ("folder", f"/data/{SCRIPT}"))),
            Facts("Where it comes from", (("model", "scenes.ddsfl"), ("ddsfl", "0.1.0"))),
        ),
        times=(("layer1.bank", 190.4), ("layer1.vectors", 7300.0), ("classifier", 0.41)),
        left_out=("Only the 12 most confident mistakes have pictures.",),
    )
    return replace(made, **changes)


def made_multilabel():
    """A report of images with several labels or none: no confusion matrix."""
    names = ("person", "dining table", SCRIPT)
    tested = made_tested(names)
    answers = ((("person",), ("person", SCRIPT)), ((), ("person",)), (names, ()))
    mistakes = tuple(
        replace(mistake, true=true, predicted=said, true_probability=None)
        for mistake, (true, said) in zip(tested.mistakes, answers * 4)
    )
    measures = (Measure("mean average precision", (0.512,)),)
    unknown = replace(
        tested.classes[2], images=0, recall=float("nan"), precision=float("nan"), f1=float("nan")
    )
    return Report(
        "Several labels",
        replace(
            tested,
            splits=("test",),
            measures=measures,
            confusion=None,
            mistakes=mistakes,
            classes=(*tested.classes[:2], unknown),
            calibration=None,
        ),
    )
