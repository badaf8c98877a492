"""Settings and image folders small enough for tests."""

from pathlib import Path

from PIL import Image

from ddsfl.images.scenes import make_scenes

#: Two layers, everything else as small as possible.
TINY = {
    "layers.bank.n_filters": 10,
    "layers.bank.max_iter": 4,
    "layers.bank.rounds": 1,
    "layers.bank.round_iter": 3,
    "layers.n_components": 12,
    "layers.n_scales": 2,
    "layers.patches_per_image": 20,
    "blocks.coding.n_words": 12,
    "blocks.coding.max_iter": 3,
}
#: The same on the command line.
TINY_OPTIONS = [part for path, value in TINY.items() for part in ("--set", f"{path}={value}")]


def tiny_scenes(n_per_class=4, seed=0, classes=3):
    """Return images and labels of a few classes of small drawn scenes."""
    images, labels = make_scenes(n_per_class=n_per_class, random_state=seed, size=64)
    names = sorted(set(labels))[:classes]
    kept = [index for index, label in enumerate(labels) if label in names]
    return [images[index] for index in kept], [labels[index] for index in kept]


def write_scenes(folder: Path, **options) -> list[Path]:
    """Write drawn scenes into class folders and return their paths."""
    paths = []
    for number, (image, label) in enumerate(zip(*tiny_scenes(**options))):
        path = folder / label / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
        paths.append(path)
    return paths
