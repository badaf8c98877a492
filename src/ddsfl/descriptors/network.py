"""Deep features: one vector an image from a network in an ONNX file, or from any function.

Networks ask for colour, so these take the sources of images (paths, PIL images, arrays) and not the decoded
ones that other descriptors see. `table.py` reads vectors that were computed elsewhere.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from ddsfl.compute.device import as_numpy, resolve_device
from ddsfl.descriptors.network_inputs import Layout, Preparation, Resize, Views, side_pair
from ddsfl.images.image_list import Source
from ddsfl.patches.batches import Progress

Vectors = np.ndarray[Any, np.dtype[np.float32]]

#: Types of network inputs that are understood.
INPUT_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


class CallableFeatures(BaseEstimator):
    """Vectors of images from any function of a batch of pixels, a torch module in eval mode say.

    Parameters
    ----------
    function : takes a float32 tensor (n, 3, height, width) on ``device`` and returns n rows of numbers, a
        tensor or an array; further axes are flattened.
    input_size, resize, layout, value_range, mean, std : what the function wants, as in `Preparation`.
    views : 1 shows it the whole image, 5 its corners and its middle; the vector is the mean over the views.
    batch_size : images a call. Two more batches are decoded ahead; nothing else grows with the images.
    device : "auto", "cpu" or "cuda".

    Examples
    --------
    >>> colours = CallableFeatures(lambda pixels: pixels.mean(dim=(2, 3)), input_size=8, device="cpu")
    >>> red = np.zeros((20, 30, 3), np.uint8)
    >>> red[..., 0] = 255
    >>> colours.vectors([red, red[:, ::2]])
    array([[1., 0., 0.],
           [1., 0., 0.]], dtype=float32)
    """

    def __init__(
        self,
        function: Callable[[Tensor], Any],
        *,
        input_size: int | tuple[int, int] = 224,
        resize: Resize = "squash",
        layout: Layout = "nchw",
        value_range: tuple[float, float] = (0.0, 1.0),
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        views: Views = 1,
        batch_size: int = 32,
        device: str | torch.device = "auto",
    ) -> None:
        self.function = function
        self.input_size = input_size
        self.resize = resize
        self.layout = layout
        self.value_range = value_range
        self.mean = mean
        self.std = std
        self.views = views
        self.batch_size = batch_size
        self.device = device

    def vectors(self, sources: Sequence[Source], progress: Progress | None = None) -> Vectors:
        """Return the vectors (N, d) of images given as paths, PIL images or arrays.

        ``progress`` is called with (images done, images in all) after each batch.
        """
        device = resolve_device(self.device)

        def rows(pixels: Tensor) -> Any:
            with torch.inference_mode():
                return self.function(pixels.to(device))

        batches = _preparation(self, self.input_size).batches(sources, self.batch_size)
        return _joined(rows, batches, len(sources), self.views, progress)


class OnnxFeatures(BaseEstimator):
    """Vectors of images from an ONNX file with one image input; its first output counts.

    Needs onnxruntime (``pip install ddsfl[onnx]``), and its GPU build to run on CUDA.

    Parameters
    ----------
    path : the file. It is opened when vectors are asked for.
    input_size, batch_size : used where the file leaves height, width or batch open.
    resize, layout, value_range, mean, std : what the network wants, as in `Preparation`.
    views : 1 shows it the whole image, 5 its corners and its middle; the vector is the mean over the views.
    device : "auto" is CUDA where both torch and onnxruntime have it; "cpu" or "cuda".

    Examples
    --------
    >>> network = OnnxFeatures("alexnet_pool5.onnx", batch_size=64)
    >>> network.vectors([np.zeros((50, 60), np.uint8)])
    Traceback (most recent call last):
    ValueError: path=alexnet_pool5.onnx does not exist; expected an ONNX file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        input_size: int | tuple[int, int] = 224,
        resize: Resize = "squash",
        layout: Layout = "nchw",
        value_range: tuple[float, float] = (0.0, 1.0),
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        views: Views = 1,
        batch_size: int = 32,
        device: str | torch.device = "auto",
    ) -> None:
        self.path = path
        self.input_size = input_size
        self.resize = resize
        self.layout = layout
        self.value_range = value_range
        self.mean = mean
        self.std = std
        self.views = views
        self.batch_size = batch_size
        self.device = device

    def vectors(self, sources: Sequence[Source], progress: Progress | None = None) -> Vectors:
        """Return the vectors (N, d) of images given as paths, PIL images or arrays.

        ``progress`` is called with (images done, images in all) after each batch.
        """
        session = open_network(self.path, self.device)
        name, numbers, size, fixed = self._input(session)
        output = session.get_outputs()[0].name

        def rows(pixels: Tensor) -> Any:
            wanted = len(pixels)
            if fixed is not None and wanted < fixed:  # such files take whole batches only
                pixels = torch.cat([pixels, pixels[-1:].expand(fixed - wanted, -1, -1, -1)])
            [found] = session.run([output], {name: as_numpy(pixels).astype(numbers)})
            return found[:wanted] if len(found) == len(pixels) else found

        batches = _preparation(self, size).batches(sources, fixed or self.batch_size)
        return _joined(rows, batches, len(sources), self.views, progress)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the file's bytes, by which a model can say which network it needs."""
        return file_fingerprint(self.path)

    def _input(self, session: Any) -> tuple[str, Any, tuple[int, int], int | None]:
        """Return name, number type and size of the network's input, and its batch where that is fixed."""
        inputs = session.get_inputs()
        shape: list[Any] = inputs[0].shape if len(inputs) == 1 else []
        channels, *sides = (1, 2, 3) if self.layout == "nchw" else (3, 1, 2)
        if len(shape) != 4 or (isinstance(shape[channels], int) and shape[channels] != 3):
            found = ", ".join(f"{entry.name} {entry.shape}" for entry in inputs)
            raise ValueError(
                f"path={os.fspath(self.path)} has the inputs {found}; expected one of 4 axes with 3 "
                f"channels in the order layout={self.layout!r}."
            )
        if inputs[0].type not in INPUT_TYPES:
            raise ValueError(
                f"path={os.fspath(self.path)} has an input of {inputs[0].type}; expected one of "
                f"{', '.join(INPUT_TYPES)}."
            )
        height, width = (
            shape[axis] if isinstance(shape[axis], int) else given
            for axis, given in zip(sides, side_pair(self.input_size))
        )
        fixed = shape[0] if isinstance(shape[0], int) else None
        return inputs[0].name, INPUT_TYPES[inputs[0].type], (height, width), fixed


def open_network(path: str | os.PathLike[str], device: str | torch.device = "auto") -> Any:
    """Return an onnxruntime session that computes the same numbers every time."""
    if not Path(path).is_file():
        raise ValueError(f"path={os.fspath(path)} does not exist; expected an ONNX file.")
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError("OnnxFeatures needs the package onnxruntime: pip install ddsfl[onnx].") from error
    wanted = resolve_device(device)
    providers: list[Any] = ["CPUExecutionProvider"]
    if wanted.type == "cuda" and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        # The search for the fastest convolution picks by time, so not the same one every time.
        options = {"device_id": wanted.index or 0, "cudnn_conv_algo_search": "HEURISTIC", "use_tf32": 0}
        providers.insert(0, ("CUDAExecutionProvider", options))
    settings = onnxruntime.SessionOptions()
    settings.use_deterministic_compute = True
    settings.intra_op_num_threads = torch.get_num_threads()
    try:
        session = onnxruntime.InferenceSession(os.fspath(path), settings, providers=providers)
    except Exception as error:  # its errors share no base of their own
        raise ValueError(f"path={os.fspath(path)} is no network that onnxruntime reads: {error}") from error
    # A provider whose libraries are missing is dropped without an error.
    used = session.get_providers()[0]
    if wanted.type == "cuda" and device != "auto" and used != "CUDAExecutionProvider":
        raise ValueError(
            f"device={str(device)!r} was asked for, but this onnxruntime runs on {used}; expected its GPU "
            "build with its libraries."
        )
    return session


def file_fingerprint(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes.

    >>> len(file_fingerprint(__file__))
    64
    """
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _preparation(network: CallableFeatures | OnnxFeatures, size: int | tuple[int, int]) -> Preparation:
    return Preparation(
        size,
        network.resize,
        network.layout,
        network.value_range,
        network.mean,
        network.std,
        network.views,
    )


def _joined(
    rows: Callable[[Tensor], Any],
    batches: Iterator[Tensor],
    total: int,
    views: int,
    progress: Progress | None,
) -> Vectors:
    """Run ``rows`` over all batches and return the means over the views of each image below each other."""
    # Made at once: results that are kept between large temporary arrays leave holes in memory, GBs of them.
    vectors: Vectors = np.empty((0, 0), dtype=np.float32)
    begun: Vectors | None = None  # rows of an image whose views are not all there yet
    done = 0
    for pixels in batches:
        found = rows(pixels)
        part = as_numpy(found) if isinstance(found, Tensor) else np.asarray(found)
        if part.ndim < 2 or len(part) != len(pixels):
            raise ValueError(
                f"the network gave shape {part.shape} for {len(pixels)} images; expected a row for each."
            )
        part = part.reshape(len(part), -1).astype(np.float32)
        part = part if begun is None else np.concatenate([begun, part])
        if len(vectors) == 0:
            vectors = np.empty((total, part.shape[1]), dtype=np.float32)
        whole, width = len(part) // views, part.shape[1]
        part[: whole * views].reshape(whole, views, width).mean(axis=1, out=vectors[done : done + whole])
        begun, done = part[whole * views :], done + whole
        if progress is not None:
            progress(done, total)
    return vectors
