"""`python -m benchmarks.gpu`: CUDA paths compared with the plain path and bare matrix products in one run.

    PYTHONPATH=src python -m benchmarks.gpu [--images FOLDER] [--results FILE]

``--images`` is a folder of class folders whose images are encoded (default: noise images). ``--results`` is
a file for `benchmarks.goals`. Whole experiments are measured by `benchmarks.splits`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.goals import record, table_with
from benchmarks.growth import consume, encoder_of, gigabytes_of, growth, noise_images, seconds, small_stack
from ddsfl.compute.device import plain_path
from ddsfl.compute.neighbours.cuda import fused_nearest
from ddsfl.compute.neighbours.exact import nearest_within
from ddsfl.compute.neighbours.words import nearest_by_products
from ddsfl.experiments.cells import current_commit
from ddsfl.images.folders import ImageSet
from ddsfl.images.image_list import ImageList
from ddsfl.learning.inputs import InputDrawer
from ddsfl.model.presets import preset

CUDA = torch.device("cuda")
FULL, COVERAGE = 600_000, 75


def bare(rows: int, inner: int, columns: int, dtype: torch.dtype) -> float:
    """Return the seconds of one matrix product, extrapolated from part of the rows if the result is large."""
    part = min(rows, 2**31 // columns)
    left = torch.randn(part, inner, device=CUDA).to(dtype)
    right = torch.randn(columns, inner, device=CUDA).to(dtype)
    out = torch.empty(part, columns, device=CUDA, dtype=dtype)
    return seconds(lambda: torch.mm(left, right.T, out=out)) * rows / part


def unit(rows: int, width: int) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(rows, width, device=CUDA).abs(), dim=1)


def words() -> None:
    print("\n== the 5 nearest of M words, 500,000 descriptors of 400 magnitudes")
    print(
        f"{'words':>6}{'fused ms':>10}{'plain ms':>10}{'bare half ms':>14}{'bare float ms':>15}{'recall':>9}"
    )
    rows = unit(500_000, 400)
    for n_words in (1000, 2000, 4000, 8000):
        points = unit(n_words, 400)
        fused = seconds(partial(fused_nearest, rows, points, 5))
        with plain_path():
            plain = seconds(partial(nearest_by_products, rows, points, 5), 1)
        proposed = fused_nearest(rows[:5000], points, 5)[1]
        true = torch.cdist(rows[:5000].double(), points.double()).topk(5, dim=1, largest=False).indices
        recall = (proposed[:, :, None] == true[:, None, :]).any(dim=2).float().mean()
        half, full = (bare(len(rows), 400, n_words, kind) for kind in (torch.float16, torch.float32))
        numbers = f"{1e3 * fused:>10.1f}{1e3 * plain:>10.1f}{1e3 * half:>14.1f}{1e3 * full:>15.1f}"
        print(f"{n_words:>6}{numbers}{float(recall):>9.5f}")


def coverage(images: Sequence[Tensor]) -> None:
    """Time the full-size search of nearest-neighbour exemplars, on patches of the images."""
    settings = preset("paper")
    drawer = InputDrawer(images, settings.layers, [], device=CUDA, seed=0)
    drawn = drawer.draw(drawer.learn_space(), -(-FULL // len(images)))
    points, groups = drawn.projected[:FULL], drawn.images[:FULL].to(CUDA)
    membership = torch.eye(15, dtype=torch.bool, device=CUDA)[groups % 15]

    def search() -> Any:
        return nearest_within(points, COVERAGE, groups=groups, membership=membership)

    took, memory, covered = seconds(search, 1), gigabytes_of(search, "cuda"), search()
    rows = torch.randperm(len(points), device=CUDA)[:256]
    distances = torch.cdist(points[rows].double(), points.double()).square()
    distances[groups[rows, None] == groups] = torch.inf
    true = distances.topk(COVERAGE, dim=1, largest=False)
    # Compare distances, not indices: photographs contain identical patches, and either may be returned.
    same = torch.isclose(covered.distances[rows].double(), true.values, rtol=1e-5, atol=1e-7).double().mean()
    error = (covered.distances[rows] - true.values).abs().max() / true.values.max()
    product = bare(len(points), points.shape[1], len(points), torch.float16)
    print(f"\n== coverage search, {len(points):,} x {points.shape[1]}, k = {COVERAGE}")
    print(f"{took:.2f} s, {memory:.2f} GB excluding X; bare half-precision products {product:.2f} s")
    print(f"256 rows against float64: {100 * float(same):.3f} % of the neighbours, distances to {error:.1e}")


def encoding(images: Sequence[Tensor]) -> float:
    """Print rates of encoding; return the share of the products' limit that layer 1 reaches."""
    print(f"\n== encoding {len(images)} decoded images, preset paper")
    reached = 0.0
    for n_layers in (1, 3):
        stack = small_stack(images, n_layers, "cuda")
        encoder = encoder_of(images, stack, "cuda")
        rates = {}
        for name, path in (("fused", nullcontext()), ("plain", plain_path())):
            with path:
                rates[name] = len(images) / seconds(partial(consume, encoder, images), 1)
        memory = gigabytes_of(partial(consume, encoder, images), "cuda")
        print(
            f"layers 1 to {n_layers}: fused {rates['fused']:.0f} images/s, plain {rates['plain']:.0f}; "
            f"peak {memory:.2f} GB"
        )
        if n_layers == 1:
            some = [images[number] for number in range(0, len(images), max(1, len(images) // 200))]
            rows = sum(len(part) for image in some for part in stack.describe([image])) / len(some)
            width = stack.describe(some[:1])[0].vectors.shape[1]
            limit = bare(round(rows * 60), 256, 400, torch.float16)
            limit = (limit + bare(round(rows * 60), width, 2000, torch.float16)) / 60
            reached = rates["fused"] * limit
            print(f"  {rows:.0f} descriptors of {width} values per image")
            print(f"  bare half products allow {1 / limit:.0f} images/s")
            print(f"  reached {100 * reached:.1f} % of that")
            name = encoder.blocks[0].name
            with plain_path():
                plain = torch.cat([vectors[name] for _, vectors in encoder.encode(some[:64])])
            fused = torch.cat([vectors[name] for _, vectors in encoder.encode(some[:64])])
            print(f"  cosine of fused and plain vectors: least {float((fused * plain).sum(1).min()):.6f}")
    return reached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", help="folder of class folders to encode")
    parser.add_argument("--results", type=Path, help="file to store the share of the products' limit in")
    arguments = parser.parse_args()
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, commit {current_commit() or 'unknown'}"
    )
    if arguments.images:
        images: Sequence[Tensor] = ImageList(ImageSet.find(arguments.images).paths, min_side=64)
        images = [images[number] for number in range(len(images))]
    else:
        images = noise_images(1000)
    words()
    coverage(images)
    share = encoding(images)
    if arguments.results:
        record("encoding", 100 * share, arguments.results)
    print("\n== growth of layer 1")
    growth(images, "cuda", n_patches=60_000)
    if arguments.results:
        print(f"\n== promised and reached\n{table_with(arguments.results)}")


if __name__ == "__main__":
    main()
