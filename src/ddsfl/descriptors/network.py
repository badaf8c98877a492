"""Deep features: one vector per image from a network in an ONNX file, or from any function.

Networks need colour, so these classes take image sources (paths, PIL images, arrays) instead of the decoded
images that other descriptors take. `table.py` reads vectors that were computed elsewhere.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ddsfl.compute.device import as_numpy, resolve_device
from ddsfl.compute.files import regular_only
from ddsfl.compute.rules import Rule, rules, whole
from ddsfl.compute.stages import fingerprint
from ddsfl.descriptors.network_inputs import Preparation, side_pair
from ddsfl.images.image_list import ImageList, Source
from ddsfl.patches.batches import Progress
from ddsfl.patches.source import ListSource

Vectors = np.ndarray[Any, np.dtype[np.float32]]

#: Supported types of network inputs.
INPUT_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


#: The key under which an ONNX file names the file of external data, after its length. Found without parsing.
_EXTERNAL = re.compile(rb"(?:\x08|\x88\x80*\x00)location")

#: What the path of a network or a table may be; the file itself is looked for when it is read.
FILE = Rule("the path of a file", lambda path: isinstance(path, str | os.PathLike) and os.fspath(path) != "")


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkFeatures(Preparation, ListSource):
    """What all networks share: how images become their inputs, and batches of outputs one matrix.

    Parameters
    ----------
    input_size, resize, layout, value_range, mean, std, views : what the network expects, as in
        `Preparation`. The vector of an image is the mean over its views.
    batch_size : images per call. Two more batches are decoded ahead; nothing else grows with the images.
    device : "auto", "cpu" or "cuda".
    """

    RULES = rules(**Preparation.RULES, batch_size=whole(1, 100_000))

    batch_size: int = 32
    device: str | torch.device = "auto"

    def seen(self, images: ImageList) -> str:
        """Return a digest of the image sources: networks use colours, which gray pixels do not contain."""
        return fingerprint(*map(_content, images.sources))

    def _run(
        self,
        rows: Callable[[Tensor], Any],
        batches: Iterator[Tensor],
        total: int,
        progress: Progress | None,
    ) -> Vectors:
        """Apply ``rows`` to batches of all images and return the mean over the views of each image."""
        # Allocated once: small results between large temporary arrays would fragment memory by gigabytes.
        vectors: Vectors = np.empty((0, 0), dtype=np.float32)
        begun: Vectors | None = None  # rows of an image whose views are still incomplete
        done, views = 0, self.views
        for pixels in batches:
            given = rows(pixels)
            part = as_numpy(given) if isinstance(given, Tensor) else np.asarray(given)
            if part.ndim < 2 or len(part) != len(pixels):
                raise ValueError(
                    f"the network returned shape {part.shape} for {len(pixels)} images; "
                    "expected one row each."
                )
            part = part.reshape(len(part), -1).astype(np.float32)
            part = part if begun is None else np.concatenate([begun, part])
            if len(vectors) == 0:
                vectors = np.empty((total, part.shape[1]), dtype=np.float32)
            complete, width = len(part) // views, part.shape[1]
            shaped = part[: complete * views].reshape(complete, views, width)
            shaped.mean(axis=1, out=vectors[done : done + complete])
            begun, done = part[complete * views :], done + complete
            if progress is not None:
                progress(done, total)
        return vectors


@dataclass(eq=False, repr=False)
class CallableFeatures(NetworkFeatures):
    """Image vectors from any function of a batch of pixels, for example a torch module in eval mode.

    Parameters
    ----------
    function : takes a float32 tensor (n, 3, height, width) on ``device`` and returns a tensor or an array
        with n rows; further axes are flattened.
    input_size, resize, layout, value_range, mean, std, views, batch_size, device : as in `NetworkFeatures`.

    Examples
    --------
    >>> colours = CallableFeatures(lambda pixels: pixels.mean(dim=(2, 3)), input_size=8, device="cpu")
    >>> red = np.zeros((20, 30, 3), np.uint8)
    >>> red[..., 0] = 255
    >>> colours.vectors([red, red[:, ::2]])
    array([[1., 0., 0.],
           [1., 0., 0.]], dtype=float32)
    """

    RULES = rules(**NetworkFeatures.RULES, function=Rule("a function of a batch of pixels", callable))

    storable, must_match = False, False

    function: Callable[[Tensor], Any]

    def vectors(self, sources: Sequence[Source], progress: Progress | None = None) -> Vectors:
        """Return the vectors (N, d) of images given as paths, PIL images or arrays.

        ``progress`` is called with (images done, total images) after each batch.
        """
        device = resolve_device(self.device)

        def rows(pixels: Tensor) -> Any:
            with torch.inference_mode():
                return self.function(pixels.to(device))

        return self._run(rows, self.batches(sources, self.batch_size), len(sources), progress)

    def fingerprint(self) -> str:
        """Return a new digest each time, because two functions cannot be compared."""
        return secrets.token_hex(8)

    def identity(self, output: int) -> Any:
        """Return the parameters except the function, which `fingerprint` identifies."""
        return {key: value for key, value in super().identity(output).items() if key != "function"}


@dataclass(eq=False, repr=False)
class OnnxFeatures(NetworkFeatures):
    """Image vectors from an ONNX network with one image input; its first output is used.

    Requires onnxruntime (``pip install onnxruntime``), and its GPU build to run on CUDA.

    Parameters
    ----------
    path : the ONNX file. It is opened when vectors are computed.
    input_size, batch_size : used if the file does not fix the height, width or batch size.
    resize, layout, value_range, mean, std, views, device : as in `NetworkFeatures`.

    Examples
    --------
    >>> network = OnnxFeatures("alexnet_pool5.onnx", batch_size=64)
    >>> network.vectors([np.zeros((50, 60), np.uint8)])
    Traceback (most recent call last):
    ValueError: path=alexnet_pool5.onnx does not exist; expected an ONNX file.
    """

    RULES = rules(**NetworkFeatures.RULES, path=FILE)

    path: str | os.PathLike[str]

    def vectors(self, sources: Sequence[Source], progress: Progress | None = None) -> Vectors:
        """Return the vectors (N, d) of images given as paths, PIL images or arrays.

        ``progress`` is called with (images done, total images) after each batch.
        """
        session = open_network(self.path, self.device)
        name, numbers, size, fixed = self._input(session)
        output = session.get_outputs()[0].name

        def rows(pixels: Tensor) -> Any:
            wanted = len(pixels)
            if fixed is not None and wanted < fixed:  # such files accept full batches only
                pixels = torch.cat([pixels, pixels[-1:].expand(fixed - wanted, -1, -1, -1)])
            [outputs] = session.run([output], {name: as_numpy(pixels).astype(numbers)})
            return outputs[:wanted] if len(outputs) == len(pixels) else outputs

        batches = self.batches(sources, fixed or self.batch_size, size)
        return self._run(rows, batches, len(sources), progress)

    @property
    def file(self) -> str:
        """The ONNX file."""
        return os.fspath(self.path)

    def identity(self, output: int) -> Any:
        """Return the parameters except the path: the network file may have moved."""
        return {key: value for key, value in super().identity(output).items() if key != "path"}

    def fingerprint(self) -> str:
        """Return the SHA-256 of the file's bytes, by which a model identifies its network."""
        return file_fingerprint(self.path)

    def needs_other_files(self) -> bool:
        """Return whether weights may be kept in other files (ONNX calls this external data)."""
        with open(self.path, "rb", opener=regular_only) as stream:
            if os.fstat(stream.fileno()).st_size == 0:  # cannot be mapped
                return False
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return _EXTERNAL.search(content) is not None

    def _input(self, session: Any) -> tuple[str, Any, tuple[int, int], int | None]:
        """Return name, number type and size of the network's input, and its batch size or None if open."""
        inputs = session.get_inputs()
        shape: list[Any] = inputs[0].shape if len(inputs) == 1 else []
        channels, *sides = (1, 2, 3) if self.layout == "nchw" else (3, 1, 2)
        if len(shape) != 4 or (isinstance(shape[channels], int) and shape[channels] != 3):
            listed = ", ".join(f"{entry.name} {entry.shape}" for entry in inputs)
            raise ValueError(
                f"path={os.fspath(self.path)} has the inputs {listed}; expected a single input with 4 axes "
                f"and 3 channels, in the order layout={self.layout!r}."
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
        raise ImportError("OnnxFeatures needs the package onnxruntime: pip install onnxruntime.") from error
    wanted = resolve_device(device)
    providers: list[Any] = ["CPUExecutionProvider"]
    if wanted.type == "cuda" and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        # The default search picks the convolution that runs fastest, which can differ between runs.
        options = {"device_id": wanted.index or 0, "cudnn_conv_algo_search": "HEURISTIC", "use_tf32": 0}
        providers.insert(0, ("CUDAExecutionProvider", options))
    settings = onnxruntime.SessionOptions()
    settings.use_deterministic_compute = True
    settings.intra_op_num_threads = torch.get_num_threads()
    try:
        session = onnxruntime.InferenceSession(os.fspath(path), settings, providers=providers)
    except Exception as error:  # onnxruntime's errors have no common base class
        raise ValueError(f"path={os.fspath(path)} cannot be read by onnxruntime: {error}") from error
    # onnxruntime silently drops a provider whose libraries are missing.
    used = session.get_providers()[0]
    if wanted.type == "cuda" and device != "auto" and used != "CUDAExecutionProvider":
        raise ValueError(
            f"device={str(device)!r} was requested, but this onnxruntime runs on {used}; expected its GPU "
            "build with its libraries."
        )
    return session


def file_fingerprint(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes.

    >>> len(file_fingerprint(__file__))
    64
    """
    with open(path, "rb", opener=regular_only) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _content(source: Source) -> Any:
    """Return a digest or the values of one image source."""
    if isinstance(source, str | os.PathLike):
        return file_fingerprint(source)
    if isinstance(source, Image.Image):
        return np.asarray(source.convert("RGBA"))
    return np.asarray(source)
