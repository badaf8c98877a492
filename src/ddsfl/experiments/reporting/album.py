"""Images and kept models of an evaluation, found from its cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ddsfl.experiments.cells import Cell
from ddsfl.experiments.reporting.pictures import Album
from ddsfl.images.folders import ImageSet
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.file import ModelFileError
from ddsfl.model.run_file import file_beside
from ddsfl.report.console import Console


def names_in(images: Path, paths: Sequence[Path]) -> list[str]:
    """Return the paths of the images of a set, relative to the set where possible.

    >>> names_in(Path("sets/list.csv"), [Path("sets/sea/1.jpg")])
    ['sea/1.jpg']
    """
    root = images if images.is_dir() else images.parent
    return [(path.relative_to(root) if path.is_relative_to(root) else path).as_posix() for path in paths]


def album_of_cells(
    cells: Sequence[tuple[Path, Cell]],
    images: Path | None,
    sources: Mapping[str, str],
    device: str,
    console: Console,
) -> Album:
    """Return the images of an evaluation and the models that `ddsfl evaluate --keep-models` left."""
    files: dict[str, Path] = {}
    if images is not None:
        image_set = ImageSet.find(images, least=1)
        files = dict(zip(names_in(images, image_set.paths), image_set.paths))
        tested = {row["path"] for _, cell in cells for row in cell.get("images", ())}
        if tested and not tested & files.keys():
            raise ValueError(
                f"{images} has none of the tested images, such as {sorted(tested)[0]}; expected the set of "
                "the evaluation."
            )
    kept = KeptModels({cell["split"]: (file, cell) for file, cell in cells}, sources, device, console)
    return Album(files, kept.of_split)


def model_path(cell_file: Path) -> Path:
    """Return where the model of a cell is kept.

    >>> model_path(Path("cells/quick.fold1.json")).name
    'quick.fold1.safetensors'
    """
    return cell_file.with_suffix(".safetensors")


def remove_model(path: Path) -> None:
    """Remove the model of a split and the file that says how it was made."""
    for file in (path, file_beside(path)):
        file.unlink(missing_ok=True)


class KeptModels:
    """The models of the splits of an evaluation, one of them in memory."""

    def __init__(
        self,
        cells: Mapping[str, tuple[Path, Cell]],
        sources: Mapping[str, str],
        device: str,
        console: Console,
    ) -> None:
        self._cells, self._sources, self._device, self._console = cells, sources, device, console
        self._last: tuple[str, SceneClassifier | None] | None = None

    def of_split(self, split: str) -> SceneClassifier | None:
        """Return the model of a split; None if it was not kept, with a warning if it is another one."""
        if self._last is None or self._last[0] != split:
            self._last = (split, self._loaded(split))
        return self._last[1]

    def _loaded(self, split: str) -> SceneClassifier | None:
        file, cell = self._cells[split]
        path = model_path(file)
        if not cell.get("model") or not path.exists():
            return None
        try:
            model = SceneClassifier.load(path, device=self._device, sources=dict(self._sources))
            model.check_networks()
        except (ModelFileError, OSError) as error:
            self._console.warn([f"no maps for {split}: {error}"])
            return None
        if model.checksum_ != cell["model"]:
            self._console.warn([f"no maps for {split}: {path} is another model than that of the test."])
            return None
        return model
