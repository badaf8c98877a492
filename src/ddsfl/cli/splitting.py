"""How commands split images: the options, which of them fit together, and what they draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ddsfl.cli.inputs import CheckedSet, read_checked_set
from ddsfl.datasets.groups import read_groups
from ddsfl.datasets.splits import Split, SplitError, fold_splits, most_folds, official_split, random_splits
from ddsfl.images.folders import ImageSet, ImageSetError, Label
from ddsfl.model.settings import Settings
from ddsfl.report.console import Console

#: Each protocol, and the options that ask for it.
PROTOCOLS = {
    "folds": ("--folds",),
    "random": ("--train", "--test", "--splits"),
    "lists": ("--train-list", "--test-list"),
}
N_FOLDS, N_SPLITS = 5, 5

Protocol = Annotated[
    str | None,
    typer.Option(help="folds, random or lists; by default what the other options ask for, else folds."),
]
Folds = Annotated[
    int | None,
    typer.Option(
        min=2, help="Number of folds, 5 by default; every image is tested once.", show_default=False
    ),
]
Train = Annotated[
    int | None, typer.Option(min=1, help="Training images per class: random splits instead of folds.")
]
Test = Annotated[
    int | None, typer.Option(min=1, help="Maximum number of test images per class (with --train).")
]
Splits = Annotated[
    int | None, typer.Option(min=1, help="Number of random splits, 5 by default (with --train).")
]
TrainList = Annotated[
    Path | None, typer.Option(help="Text file of training images: one official split instead of folds.")
]
TestList = Annotated[Path | None, typer.Option(help="Text file of test images.")]


class SplitSet(NamedTuple):
    """An image set that was read, and its splits."""

    image_set: ImageSet
    checked: CheckedSet
    splits: list[Split]


@dataclass(frozen=True)
class Splitting:
    """The options that say which images train and which test; None: not given.

    >>> Splitting(train=10).kind, Splitting().kind
    ('random', 'folds')
    """

    protocol: str | None = None
    folds: int | None = None
    train: int | None = None
    test: int | None = None
    splits: int | None = None
    train_list: Path | None = None
    test_list: Path | None = None
    groups: str | None = None

    def __post_init__(self) -> None:
        """Refuse options that contradict each other."""
        given = {kind: [one for one in options if self._is_given(one)] for kind, options in PROTOCOLS.items()}
        kinds = [kind for kind, options in given.items() if options]
        if self.protocol is not None and self.protocol not in PROTOCOLS:
            raise typer.BadParameter(f"--protocol is {self.protocol!r}; expected {', '.join(PROTOCOLS)}")
        if len(kinds) > 1:
            raise typer.BadParameter(f"{given[kinds[0]][0]} and {given[kinds[1]][0]} exclude each other")
        if self.protocol is not None and kinds and kinds[0] != self.protocol:
            raise typer.BadParameter(
                f"--protocol {self.protocol} and {given[kinds[0]][0]} exclude each other"
            )
        if self.kind == "random" and self.train is None:
            asked = given["random"][0] if given["random"] else "--protocol random"
            raise typer.BadParameter(f"{asked} needs --train, the number of training images per class")
        if self.kind == "lists" and (self.train_list is None or self.test_list is None):
            raise typer.BadParameter(f"{_first(given['lists'])} needs --train-list and --test-list")
        if self.kind == "lists" and self.groups is not None:
            raise typer.BadParameter(f"--groups and {_first(given['lists'])} exclude each other")

    @property
    def kind(self) -> str:
        """The protocol: given, or the one that the options ask for; folds without any."""
        asked = (kind for kind, options in PROTOCOLS.items() if any(map(self._is_given, options)))
        return self.protocol or next(asked, "folds")

    def _is_given(self, option: str) -> bool:
        return getattr(self, option.removeprefix("--").replace("-", "_")) is not None

    def read(self, images: Path, settings: Settings, seed: int, strict: bool, console: Console) -> SplitSet:
        """Read an image set once, as ``settings`` see it, and draw its splits.

        Impossible splits are found before the images are read. Images that cannot be read are listed.
        """
        image_set = ImageSet.find(images)
        groups = self.groups_of(images, image_set)
        first = self.draw(image_set, dict(enumerate(image_set.labels)), groups, seed)
        official = first[0] if self.kind == "lists" else None
        checked = read_checked_set(image_set, settings, strict, console, official)
        splits = self.draw(image_set, checked.label_of, groups, seed)
        if self.kind == "folds" and (fewer := self.n_folds(checked.label_of, groups)[1]):
            console.say(fewer)
        return SplitSet(image_set, checked, splits)

    def groups_of(self, images: Path, image_set: ImageSet) -> list[str] | None:
        """Return the group of each image; None without --groups."""
        if self.groups is None:
            return None
        try:
            return read_groups(images, self.groups, image_set.paths)
        except ImageSetError as error:
            raise ImageSetError(f"--groups {self.groups}: {error}") from error

    def draw(
        self, image_set: ImageSet, labels: Mapping[int, Label], groups: list[str] | None, seed: int
    ) -> list[Split]:
        """Return the splits over the images that ``labels`` has, by their number in the set.

        Random splits and lists are those of the complete set without the other images, so that a damaged
        file changes nothing else. Folds are drawn from the images in ``labels`` alone.
        """
        if self.kind == "folds":
            drawn = self._folds(labels, groups, seed)
        else:
            gone = set(range(len(image_set))) - set(labels)
            every = self._random(image_set, groups, seed) if self.kind == "random" else self._lists(image_set)
            drawn = [split.without(gone) for split in every]
        for split in drawn:
            split.check(labels)
        return drawn

    def n_folds(self, labels: Mapping[int, Label], groups: list[str] | None) -> tuple[int, str | None]:
        """Return how many folds are drawn, and a sentence if they are fewer than asked for."""
        asked, chosen = self.folds or N_FOLDS, _of(groups, labels)
        most, smallest = most_folds(list(labels.values()), chosen)
        what, found = "images", f"class {smallest!r} has {most} image(s)"
        if groups is not None:
            what, found = "groups", f"class {smallest!r} has images of {most} group(s)"
        if most < 2:
            raise ImageSetError(f"Cross-validation needs at least 2 {what} per class, but {found}.")
        return min(asked, most), f"{most} folds instead of {asked}: {found}." if most < asked else None

    def _folds(self, labels: Mapping[int, Label], groups: list[str] | None, seed: int) -> list[Split]:
        numbers = list(labels)
        n_folds, _ = self.n_folds(labels, groups)
        folds = fold_splits(list(labels.values()), n_folds, seed, _of(groups, labels))
        return [
            replace(
                fold,
                train=[numbers[place] for place in fold.train],
                test=[numbers[place] for place in fold.test],
            )
            for fold in folds
        ]

    def _random(self, image_set: ImageSet, groups: list[str] | None, seed: int) -> list[Split]:
        assert self.train is not None
        labels = [label for label in image_set.labels if isinstance(label, str)]
        if len(labels) < len(image_set):
            raise ImageSetError(
                "--train cannot be used for images with several labels; use --folds, or --train-list and "
                "--test-list."
            )
        try:
            return random_splits(
                labels, self.train, self.splits or N_SPLITS, n_test=self.test, seed=seed, groups=groups
            )
        except SplitError as error:
            raise ImageSetError(f"--train {error.value} {error.reason}") from error

    def _lists(self, image_set: ImageSet) -> list[Split]:
        assert self.train_list is not None
        assert self.test_list is not None
        return [official_split(image_set.paths, self.train_list, self.test_list)]


def _of(groups: list[str] | None, labels: Mapping[int, Label]) -> list[str] | None:
    return None if groups is None else [groups[number] for number in labels]


def _first(options: list[str]) -> str:
    return options[0] if options else "--protocol lists"
