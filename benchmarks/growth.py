"""How time and memory grow: with images, words and filters in encoding, with classes in learning.

    python -m benchmarks.growth            # on a CPU, noise images

Layer 1 of preset `paper`. `benchmarks.gpu` runs the same on a GPU, with photographs. Filters and words are
learned briefly: their quality does not affect the cost. Rates are of one run after an untimed warm-up. Memory
is the peak: on CUDA, in addition to the memory already in use; on a CPU, of the process including libraries.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.memory import forget_peak, peak_gigabytes
from ddsfl.coding.llc import LLC
from ddsfl.encoder.encoder import Encoder
from ddsfl.learning.bank import FilterBank
from ddsfl.learning.stack import FilterStack
from ddsfl.model.presets import preset

N_IMAGES, PATCHES = 32, 15_000
WORDS, FILTERS, CLASSES = (1000, 2000, 4000, 8000), (128, 400, 1024, 2048), (15, 67, 200)


def noise_images(count: int) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    return [torch.randint(0, 256, (1, 240, 300), dtype=torch.uint8, generator=draw) for _ in range(count)]


def seconds(run: Callable[[], Any], repeats: int = 3) -> float:
    """Return the median time of a call, after an untimed one."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    run()
    times = []
    for _ in range(repeats):
        wait()
        start = time.perf_counter()
        run()
        wait()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def gigabytes_of(run: Callable[[], Any], device: str) -> float:
    """Return the peak memory of a call: on CUDA in addition to what was in use, on a CPU of the process."""
    if device == "cpu":
        forget_peak()
        run()
        return peak_gigabytes()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    run()
    return (torch.cuda.max_memory_allocated() - held) / 1e9


def small_stack(images: Sequence[Tensor], n_layers: int, device: str, **bank: Any) -> FilterStack:
    """Return a stack of the paper's layers, learned for a few steps only: encoding costs the same."""
    few = {"max_iter": 20, "gamma": 0.0, "eta": 0.0, **bank}
    layers = [
        dataclasses.replace(layer, patches_per_image=100, bank={**(layer.bank or {}), **few})
        for layer in preset("paper").layers[:n_layers]
    ]
    some = images[:: max(1, len(images) // 100)]
    return FilterStack(layers, device=device, random_state=0).fit(some, np.arange(len(some)) % 2)


def encoder_of(images: Sequence[Tensor], stack: FilterStack, device: str, n_words: int = 2000) -> Encoder:
    """Return the encoder of these layers, from images to vectors, with words from one step of k-means."""
    some = [images[0], images[len(images) // 2], images[len(images) - 1]]
    codings = [
        LLC(n_words=n_words, max_iter=1, device=device, random_state=0).fit(described.vectors)
        for described in stack.describe(some)
    ]
    blocks = preset("paper").blocks[: len(stack.layers)]
    return Encoder({"stack": stack}, list(zip(blocks, codings)), torch.device(device))


def consume(encoder: Encoder, images: Sequence[Tensor]) -> None:
    for _ in encoder.encode(images):
        pass


def growth(images: Sequence[Tensor], device: str, n_patches: int) -> None:
    """Print times, memory and rates as each quantity grows."""
    stack = small_stack(images, 1, device)
    encoder = encoder_of(images, stack, device)
    quarter = len(images) // 4
    for times in (1, 2, 4):
        some = [images[number] for number in range(quarter * times)]
        took = seconds(partial(consume, encoder, some), 1)
        memory = gigabytes_of(partial(consume, encoder, some), device)
        print(f"{len(some):>5} images: {took:.2f} s, {memory:.2f} GB", flush=True)
    some = [images[number] for number in range(quarter)]
    for n_words in WORDS:
        encoder = encoder_of(images, stack, device, n_words)
        rate = len(some) / seconds(partial(consume, encoder, some), 1)
        print(f"{n_words:>5} words: {rate:.4g} images/s", flush=True)
    for n_filters in FILTERS:
        encoder = encoder_of(images, small_stack(images, 1, device, n_filters=n_filters), device)
        rate = len(some) / seconds(partial(consume, encoder, some), 1)
        print(f"{n_filters:>5} filters: {rate:.4g} images/s", flush=True)
    X = torch.randn(n_patches, 256, device=device) / 16
    for n_classes in CLASSES:
        labels = np.arange(len(X)) % n_classes
        bank = FilterBank(400, max_iter=20, rounds=1, round_iter=20, random_state=0, device=device)
        took = seconds(partial(bank.fit, X, labels), 1)
        learned = f"400 filters in 40 steps from {n_patches:,} patches"
        print(f"{n_classes:>5} classes: {took:.2f} s to learn {learned}", flush=True)


def main() -> None:
    growth(noise_images(N_IMAGES), "cpu", PATCHES)


if __name__ == "__main__":
    main()
