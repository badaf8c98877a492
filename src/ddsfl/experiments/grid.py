"""Run several methods on the splits of one data set; each method on each split gives one stored cell."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from torch import Tensor

from ddsfl.compute.stages import remove_stages
from ddsfl.datasets.protocols import protocol
from ddsfl.datasets.splits import Split
from ddsfl.datasets.voc import VocTruth
from ddsfl.experiments.cells import read_cell
from ddsfl.experiments.evaluate import Evaluation, cell_path, evaluate_split, made_with
from ddsfl.experiments.methods import method
from ddsfl.experiments.network_vectors import NetworkVectors, network_blocks
from ddsfl.experiments.results import score_of
from ddsfl.experiments.spread import run_splits
from ddsfl.images.folders import ImageSet, Label
from ddsfl.images.image_list import Colour, ImageList
from ddsfl.model.presets import preset
from ddsfl.model.settings import Settings
from ddsfl.scale.engine import Engine, Here

Report = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Grid:
    """The cells to compute, and everything needed to compute them.

    Attributes
    ----------
    dataset, data : name of the data set and its folder.
    methods : names of the methods, see `methods.method`.
    n_splits : number of splits; it may exceed what the protocol prescribes.
    cells : folder of the cells, with one subfolder per data set.
    networks : ONNX files by the names that methods use for them.
    scratch : folder for stages while cells are computed; they take several GB. Workers share it.
    seed : seed of the learning; splits have their own seeds.
    """

    dataset: str
    data: Path
    methods: Sequence[str]
    n_splits: int
    cells: Path
    scratch: Path
    networks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    seed: int = 0
    device: str = "auto"

    @property
    def folder(self) -> Path:
        """The folder of this data set's cells."""
        return self.cells / self.dataset

    def settings(self) -> dict[str, Settings]:
        """Return the settings of each method."""
        return {name: method(name, self.networks) for name in self.methods}

    def read_truth(self) -> VocTruth | None:
        """Return which images are difficult for which class, for VOC; None for other sets."""
        plan = protocol(self.dataset)
        if plan.dataset != "voc2012" or plan.lists is None:
            return None
        return VocTruth.read(self.data, plan.lists)

    def read(self) -> tuple[ImageSet, list[Split]]:
        """Return the images of the data set and the splits over them."""
        plan = protocol(self.dataset)
        if plan.n_train is not None:
            plan = dataclasses.replace(plan, n_splits=self.n_splits)
        return plan.read(self.data)

    def missing(self, split: str) -> list[str]:
        """Return the methods that have no cell for a split with the current settings."""
        missing = []
        for name, settings in self.settings().items():
            like = {"dataset": self.dataset, "method": name, "seed": self.seed}
            cell = read_cell(cell_path(self.folder, name, split), like)
            if cell is None or not made_with(cell, settings):
                missing.append(name)
        return missing


def run_grid(grid: Grid, *, engine: Engine | None = None, report: Report | None = None) -> None:
    """Compute all missing cells, split by split; an engine with several workers runs several at a time.

    A second call resumes interrupted work: finished cells and stored stages are kept. If splits fail, the
    others are finished first. Workers on other machines need the folders of the grid at the same paths.
    """
    image_set, splits = grid.read()
    numbers = [number for number, split in enumerate(splits) if grid.missing(split.name)]
    say = report or (lambda line: None)
    if not numbers:
        return
    missing = {name for number in numbers for name in grid.missing(splits[number].name)}
    wanted = [settings for name, settings in grid.settings().items() if name in missing]
    networks = _networks(grid, image_set, wanted)
    networks.prepare(wanted)
    run_splits(engine or Here(), partial(_GridWorker, grid, networks), splits, numbers, say)
    remove_stages(networks.folder)


class _GridWorker:
    """Computes the missing cells of one split after the other."""

    def __init__(self, grid: Grid, networks: NetworkVectors) -> None:
        self._grid, self._networks = grid, networks
        self._image_set, self._splits = grid.read()

    def __call__(self, number: int, say: Report) -> None:
        for line in run_split(self._grid, self._image_set, self._splits[number], self._networks):
            say(line)


def run_split(grid: Grid, image_set: ImageSet, split: Split, networks: NetworkVectors) -> Iterator[str]:
    """Compute the missing cells of one split and yield one line of text per cell."""
    wanted = {name: method(name, grid.networks) for name in grid.missing(split.name)}
    truth = grid.read_truth()
    scratch = grid.scratch / f"{grid.dataset}.{split.name.replace(' ', '').replace('/', '-')}"
    # Methods that see the same pixels share one image list, so images are decoded once.
    for seen in sorted({_seen(settings) for settings in wanted.values()}):
        chosen = {name: settings for name, settings in wanted.items() if _seen(settings) == seen}
        images = pixels_of(next(iter(chosen.values())), image_set.paths)
        readable, labels = readable_split(images, split, image_set.labels)
        if truth is None or not truth.secret:
            readable.check(labels)
        vectors: dict[str, Tensor] = {}
        uses: Counter[str] = Counter()
        evaluations = [
            Evaluation(
                settings,
                name,
                grid.dataset,
                grid.seed,
                grid.device,
                folder=grid.folder,
                shared_stages=scratch,
                vectors=vectors,
                uses=uses,
                truth=truth,
            )
            for name, settings in chosen.items()
        ]
        for evaluation in evaluations:  # so that vectors are dropped after their last use
            uses.update(evaluation.fit_of(images, labels, readable).vector_keys().values())
        for evaluation in evaluations:
            networks.share(evaluation, images, labels, readable)
            cell = evaluate_split(evaluation, images, labels, readable)
            score = score_of(cell)
            shown = "files for the server written" if score is None else f"{score:.2f}"
            yield (f"{grid.dataset} {split.name}: {evaluation.method} {shown} ({cell['wall_seconds']:.0f} s)")
    remove_stages(scratch)


def _networks(grid: Grid, image_set: ImageSet, wanted: Sequence[Settings]) -> NetworkVectors:
    """Return the store of network vectors; it covers all readable images if any method has a network."""
    paths: list[Path] = []
    if any(network_blocks(settings) for settings in wanted):
        unreadable = {problem.index for problem in ImageList(image_set.paths).read_all()}
        paths = [path for index, path in enumerate(image_set.paths) if index not in unreadable]
    return NetworkVectors(grid.scratch / f"{grid.dataset}.networks", paths, grid.device)


def pixels_of(settings: Settings, paths: Sequence[Path]) -> ImageList:
    """Return the images of a method, at least as large as the paper's three layers require.

    All methods of the paper therefore see the same pixels.
    """
    colour, max_side, min_side = _seen(settings)
    return ImageList(paths, colour=colour, max_side=max_side, min_side=min_side)


def _seen(settings: Settings) -> tuple[Colour, int, int]:
    return settings.colour, settings.max_side, max(settings.min_side, preset("paper").min_side)


def readable_split(
    images: ImageList, split: Split, labels: Sequence[Label]
) -> tuple[Split, dict[int, Label]]:
    """Return the split without unreadable images, and the labels of the others by index."""
    used = [*split.train, *split.test]
    unreadable = {used[problem.index] for problem in images.subset(used).read_all()}
    readable = split.without(unreadable)
    return readable, {index: labels[index] for index in [*readable.train, *readable.test]}
