"""What is at --out: one command at a time writes it, and replaces nothing unless --overwrite says so."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from ddsfl.compute.device import drawn_seed
from ddsfl.compute.files import check_regular, regular_only
from ddsfl.compute.locks import InUse, held, lock_of_file, lock_of_folder
from ddsfl.compute.parts import remove_left_parts
from ddsfl.compute.words import why_not
from ddsfl.images.folders import Label
from ddsfl.images.image_list import ImageList
from ddsfl.images.labels import Labels
from ddsfl.model.file import ModelFileError, read_model
from ddsfl.model.header import check_header
from ddsfl.model.networks import NetworkFiles, without_folders
from ddsfl.model.settings import Settings
from ddsfl.report.console import Console

_ADVICE = "Use --overwrite to replace it, or choose another --out."
#: What each page of ours says in its head.
PAGE_MARK = b'<meta name="generator" content="ddsfl'


def hold_file(context: typer.Context, out: Path, console: Console) -> None:
    """Let no other command write file ``out`` until this one ends; ValueError says who writes it now."""
    _hold(context, lock_of_file(out), out, console)


def hold_folder(
    context: typer.Context, out: Path, console: Console, *, only: str | None = None, option: str = "--out"
) -> None:
    """Let no other command write into folder ``out`` until this one ends; ValueError says who does so now.

    ``only`` names the part of the folder that the command writes; others may write other parts.
    """
    lock = lock_of_folder(out) if only is None else lock_of_file(out / only)
    _hold(context, lock, out, console, option)


def _hold(context: typer.Context, lock: Path, out: Path, console: Console, option: str = "--out") -> None:
    try:
        locked = context.with_resource(held(lock, out, f"`ddsfl {context.info_name}`"))
    except InUse as error:
        raise ValueError(f"{error} Wait until it ends, or choose another {option}.") from error
    remove_left_parts(lock.parent)
    if not locked:
        console.say(f"{out}: the file system has no locks; do not start a second command with it meanwhile")


def check_free(out: Path, overwrite: bool) -> None:
    """Raise ValueError if something is at ``out`` that may not be replaced."""
    if not os.path.lexists(out):
        return
    if not overwrite:
        raise ValueError(f"{out} exists. {_ADVICE}")
    if os.path.exists(out):
        try:
            check_regular(out, os.stat(out).st_mode)
        except OSError as error:
            raise ValueError(f"{out} cannot be replaced: {error.strerror}.") from error


def check_free_page(page: Path, option: str) -> None:
    """Raise ValueError if something other than a page of ours is at ``page``: reports are simply renewed."""
    if not os.path.lexists(page):
        return
    try:
        with open(page, "rb", opener=regular_only) as stream:
            ours = PAGE_MARK in stream.read(2**12)
    except OSError as error:
        raise ValueError(f"{option} {page} cannot be replaced: {why_not(error)}.") from error
    if not ours:
        raise ValueError(f"{option} {page} exists and is not a page of ddsfl; choose another name.")


@dataclass(frozen=True)
class EarlierModel:
    """A model that already is where a training will write; each check raises ValueError if it is another one.

    Attributes
    ----------
    path : the file.
    header : its header.
    """

    path: Path
    header: Mapping[str, Any]

    @classmethod
    def find(cls, out: Path) -> EarlierModel | None:
        """Return the model at ``out``; None if nothing is there. Anything else raises ValueError."""
        if not os.path.lexists(out):
            return None
        try:
            header = read_model(out)[1]  # a damaged model is not one that is already trained
            check_header(header)
            return cls(out, header)
        except ModelFileError as error:
            raise ValueError(f"{error} {_ADVICE}") from error
        except ValueError as error:
            raise ValueError(f"{out} is not a valid model: {error} {_ADVICE}") from error

    def check_settings(self, settings: Settings, seed: int, keep_patches: bool = False) -> None:
        """Check what can be known before any image is read: settings, seed, patches and files of networks."""
        theirs = self.header.get("preset")
        try:
            stored = Settings.from_json(self.header["settings"]).to_json()
            same = without_folders(stored) == without_folders(settings.to_json())
        except (KeyError, TypeError, ValueError):  # of a version with other settings
            same = False
        if not same and theirs != settings.preset:
            self._refuse(f"preset {theirs}; this command has preset {settings.preset}")
        if not same:
            self._refuse("other settings (`ddsfl inspect` shows them)")
        if self.header.get("seed") != drawn_seed(seed):
            self._refuse(f"seed {self.header.get('random_state')}; this command has seed {seed}")
        if keep_patches != self.header.get("keeps_patches", False):
            self._refuse("no --keep-patches" if keep_patches else "--keep-patches")
        files = NetworkFiles.of(settings.make_sources("cpu")).files
        trained = self.header.get("networks", {})
        if any(
            trained.get(name, {}).get("fingerprint") != file["fingerprint"] for name, file in files.items()
        ):
            self._refuse("another file of a network or table")

    def check_images(self, images: ImageList, y: Sequence[Label]) -> None:
        """Check that the model was trained with these images and labels."""
        training = self.header.get("training", {})
        if training.get("fingerprint") != images.fingerprint():
            self._refuse("other images")
        labels = Labels.read(y)
        if "labels" not in training:
            self._refuse("an older ddsfl, which did not record the labels")
        same_names = self.header.get("classes") == labels.classes.tolist()
        if not same_names or training["labels"] != labels.fingerprint():
            self._refuse("other labels")

    def _refuse(self, what: str) -> None:
        raise ValueError(f"{self.path} is a model that was trained with {what}. {_ADVICE}")
