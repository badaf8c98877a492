"""Encoding images: seconds per image for each step, compared with bare matrix products of the same shapes.

Layer 1 of presets `paper` and `quick`: filters are learned briefly (their quality does not affect speed),
words by k-means. The bare products are the responses of the filters and the products of all descriptors with
all words, in blocks that reuse memory: fresh memory alone would double their time.
`benchmarks.rivals` compares complete encoding, from pixels to vectors, with OpenCV and faiss.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from benchmarks import rivals
from benchmarks.learning import seconds
from ddsfl.coding.llc import LLC
from ddsfl.coding.pyramid import SpatialPyramid
from ddsfl.images.decode import decode
from ddsfl.images.folders import ImageSet
from ddsfl.images.scenes import make_scenes
from ddsfl.learning.layer import LearnedLayer
from ddsfl.learning.stack import FilterStack
from ddsfl.model.presets import preset
from ddsfl.patches.local import LocalDescriptors

#: Folder of real scenes; drawn ones are used if it is missing.
SCENES = Path("/tmp/data/scene15")
N_LEARNED_FROM, N_ENCODED, ROUNDS = 30, 6, 3
DESCRIPTORS_AN_IMAGE = 800
BLOCK = 2048


def some_images() -> tuple[list[Tensor], list[str]]:
    """Return images spread over all classes, and their labels."""
    count = N_LEARNED_FROM + N_ENCODED
    if SCENES.is_dir():
        photographs = ImageSet.find(SCENES)
        every = max(1, len(photographs.paths) // count)
        chosen = list(zip(photographs.paths, photographs.labels))[::every][:count]
        return [decode(path) for path, _ in chosen], [str(label) for _, label in chosen]
    scenes, labels = make_scenes(-(-count // 8), size=240)
    return [torch.from_numpy(scene)[None] for scene in scenes[:count]], labels[:count]


def learn(name: str) -> tuple[FilterStack, LLC, list[Tensor]]:
    """Return layer 1 of a preset, its words, and images used for neither."""
    images, labels = some_images()
    every = len(images) // N_ENCODED
    new = images[::every][:N_ENCODED]
    known = [image for number, image in enumerate(images) if number % every]
    labels = [label for number, label in enumerate(labels) if number % every]
    layer, coding = preset(name).layers[0], preset(name).blocks[0].coding or {}
    bank = {**(layer.bank or {}), "gamma": 0.0, "eta": 0.0, "rounds": 1, "max_iter": 30}
    brief = dataclasses.replace(layer, exemplars=None, patches_per_image=200, bank=bank)
    stack = FilterStack([brief], device="cpu", random_state=0).fit(known, labels)
    draw = torch.Generator().manual_seed(0)
    drawn = []
    for image in known:
        vectors = stack.describe([image])[0].vectors
        drawn.append(vectors[torch.randperm(len(vectors), generator=draw)[:DESCRIPTORS_AN_IMAGE]])
    words = LLC(n_words=coding["n_words"], max_iter=5, device="cpu", random_state=0).fit(torch.cat(drawn))
    return stack, words, new


def bare_products(described: LocalDescriptors, words: Tensor, layer: LearnedLayer) -> Callable[[], None]:
    """Return the lower bound: only the products of patches with filters and of descriptors with words."""
    vectors, n_inputs, n_filters = described.vectors, layer.layer.field**2, len(layer.filters)
    patches, filters = torch.rand(len(vectors), n_inputs), torch.rand(n_inputs, n_filters)
    responses, products = torch.empty(BLOCK, n_filters), torch.empty(BLOCK, len(words))

    def run() -> None:
        for some, block in zip(patches.split(BLOCK), vectors.split(BLOCK)):
            torch.mm(some, filters, out=responses[: len(some)])
            torch.mm(block, words.T, out=products[: len(block)])

    return run


def measure(name: str) -> str:
    """Return a short report on layer 1 of a preset: medians over images and rounds, contestants in turn."""
    stack, coding, images = learn(name)
    pyramid, n_words = SpatialPyramid(), len(coding.words_)
    words = torch.from_numpy(coding.words_)
    like = words[:0]
    fast, exact = (coding.set_params(search=search).coder(like) for search in ("fast", "exact"))
    times: dict[str, list[float]] = {
        part: [] for part in ("describe", "fast", "exact", "pool", "bare", "plain")
    }
    matched = wanted = n_descriptors = 0
    for image in images * ROUNDS:
        described = stack.describe([image])[0]
        vectors, codes = described.vectors, fast(described.vectors)
        true = exact(vectors).indices
        matched += int((codes.indices[:, :, None] == true[:, None, :]).any(dim=1).sum())
        wanted, n_descriptors = wanted + true.numel(), n_descriptors + len(vectors)
        works: dict[str, Callable[[], object]] = {
            "describe": partial(stack.describe, [image]),
            "fast": partial(fast, vectors),
            "exact": partial(exact, vectors),
            "pool": partial(pyramid.pool, codes, n_words, described),
            "bare": bare_products(described, words, stack.learned_[0]),
            "plain": partial(torch.mm, vectors, words.T),
        }
        for part, work in works.items():
            times[part].append(seconds(work, 1))
    cost = {part: median(taken) for part, taken in times.items()}
    around = cost["describe"] + cost["pool"]
    shown = {part: f"{1e3 * taken:.0f} ms" for part, taken in cost.items()}
    lines = [
        f"{name}, layer 1, {torch.get_num_threads()} threads, {n_descriptors // len(times['pool'])} "
        f"descriptors per image: describe {shown['describe']}, pool {shown['pool']}",
        f"  bare products {shown['bare']} (of words alone, into fresh memory: {shown['plain']})",
    ]
    for search in ("fast", "exact"):
        total = around + cost[search]
        lines.append(
            f"  {search}: code {shown[search]}, {1 / total:.1f} images/s, "
            f"{cost['bare'] / total:.2f} of the products' speed"
        )
    return "\n".join([*lines, f"  recall of the nearest words by the fast search: {matched / wanted:.4f}"])


def main() -> None:
    for name in ("paper", "quick"):
        print(measure(name))
    rivals.main()


if __name__ == "__main__":
    main()
