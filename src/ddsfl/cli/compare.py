"""The command `ddsfl compare`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ddsfl.cli.engines import Address, EngineName, GpusPerWorker, Workers, engine_of
from ddsfl.cli.inputs import check_device, check_folder, network_files, parsed_changes, with_balance
from ddsfl.cli.options import (
    Balanced,
    Changes,
    Device,
    Groups,
    ImageSetPath,
    NetworkFile,
    QuietTable,
    Seed,
    Strict,
)
from ddsfl.cli.outputs import hold_folder
from ddsfl.cli.splitting import (
    Folds,
    Protocol,
    Splits,
    SplitSet,
    Splitting,
    Test,
    TestList,
    Train,
    TrainList,
)
from ddsfl.compute.parameters import among
from ddsfl.experiments.compare import Comparison, method_folder
from ddsfl.experiments.evaluate import Evaluation
from ddsfl.experiments.methods import method
from ddsfl.experiments.reporting.album import names_in
from ddsfl.experiments.spread import Contender, Contest, evaluate_splits
from ddsfl.images.image_list import ImageList
from ddsfl.model.settings import Settings
from ddsfl.report.console import Console, show

#: Learned filters, and the usual hand-made descriptor with LLC codes and a spatial pyramid.
DEFAULT = "quick,sift"


def compare(
    context: typer.Context,
    images: ImageSetPath,
    methods: Annotated[
        str,
        typer.Option(
            metavar="A,B,...",
            help="Presets, descriptors, learned layers, or several joined: quick,best,rica-2layers,sift+lbp.",
        ),
    ] = DEFAULT,
    against: Annotated[
        str | None,
        typer.Option(help="The method that others are held against; by default the first.", metavar="NAME"),
    ] = None,
    protocol: Protocol = None,
    folds: Folds = None,
    train: Train = None,
    test: Test = None,
    splits: Splits = None,
    train_list: TrainList = None,
    test_list: TestList = None,
    groups: Groups = None,
    changes: Changes = None,
    balanced: Balanced = False,
    network: NetworkFile = None,
    seed: Seed = 0,
    device: Device = "auto",
    out: Annotated[
        Path | None, typer.Option(help="Folder for one folder per method, with one JSON file per split.")
    ] = None,
    strict: Strict = False,
    engine: EngineName = "here",
    address: Address = None,
    workers: Workers = None,
    gpus_per_worker: GpusPerWorker = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with the score of each split.")
    ] = False,
    quiet: QuietTable = False,
) -> None:
    """Compare several methods on one image set, with a test.

    All methods train and test on the same splits: cross-validation by default, random splits with --train,
    official lists with --train-list and --test-list. Shows accuracies, times and, for each method, its
    difference from the first one (or --against) with a test that says whether that could be chance.

    With --out, finished splits are kept (rerun the same command to resume), and methods share what they have
    in common. With --engine, several splits run at a time; workers read IMAGES, and write to --out, under the
    same paths. --set changes a setting of each method that has it.
    """
    console = Console(quiet, resumes=out is not None)
    splitting = Splitting(protocol, folds, train, test, splits, train_list, test_list, groups)
    settings = _settings_of(_names(methods), network_files(network), parsed_changes(changes), balanced)
    reference = against if against is not None else next(iter(settings))
    if reference not in settings:
        raise typer.BadParameter(f"--against {reference} is not one of --methods{among(reference, settings)}")
    check_device(device, console)
    chosen = context.with_resource(engine_of(engine, address, workers, gpus_per_worker))
    if out is not None:
        check_folder(out)
        hold_folder(context, out, console)
    found = splitting.read(images, next(iter(settings.values())), seed, strict, console)
    seen = _images_of(settings.values(), found)
    names = names_in(images, found.image_set.paths)
    contenders = [
        Contender(
            Evaluation(
                one,
                name,
                images.name,
                seed,
                device,
                folder=None if out is None else method_folder(out, name),
                names=names,
            ),
            seen[one.pixels],
        )
        for name, one in settings.items()
    ]
    n_trainings = len(contenders) * len(found.splits)
    console.say(f"{len(contenders)} methods x {len(found.splits)} splits = {n_trainings} trainings")
    contest = Contest(contenders, found.checked.label_of, found.splits, scratch=out)
    comparison = Comparison.of(evaluate_splits(contest, chosen, console), reference)
    if as_json:
        print(json.dumps(comparison.to_json(), indent=1))
    else:
        show(comparison.table())


def _names(methods: str) -> list[str]:
    """Return the names between commas; each may be given once.

    >>> _names("quick, sift")
    ['quick', 'sift']
    """
    names = [name.strip() for name in methods.split(",")]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise typer.BadParameter(f"--methods names {name!r} twice")
    if len(names) < 2:
        raise typer.BadParameter(
            f"--methods {methods}: expected two or more, separated by commas; `ddsfl evaluate` evaluates one"
        )
    return names


def _settings_of(
    names: Sequence[str], networks: Mapping[str, str], changes: Mapping[str, Any], balanced: bool
) -> dict[str, Settings]:
    """Return the settings of each method; a change must be possible for one of them at least."""
    settings: dict[str, Settings] = {}
    used: set[str] = set()
    for name in names:
        try:
            unchanged = method(name, networks)
        except ValueError as error:
            raise typer.BadParameter(f"--methods: {error}") from error
        own = unchanged.applicable(changes)
        used.update(own)
        try:
            settings[name] = unchanged.change(own)
        except ValueError as error:
            raise typer.BadParameter(f"--set for method {name}: {error}") from error
        if balanced:
            settings[name] = with_balance(settings[name])
    for path, value in changes.items():
        if path not in used:
            try:
                settings[names[0]].change({path: value})
            except ValueError as error:
                raise typer.BadParameter(f"none of the methods has it: {error}") from error
    return settings


def _images_of(settings: Iterable[Settings], found: SplitSet) -> dict[tuple[str, int, int], ImageList]:
    """Return the images as methods see them; those that see the same pixels share one list.

    The first method has read the set. What it can read, others can: they differ in sizes and colours.
    """
    first, *others = settings
    seen = {first.pixels: found.checked.images}
    for one in others:
        if one.pixels not in seen:
            seen[one.pixels] = one.image_list(found.image_set.paths)
    return seen
