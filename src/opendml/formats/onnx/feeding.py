"""Arrays for a model's inputs: from NumPy's files, from images, random ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from opendml.description.errors import ModelFormatError
from opendml.description.file_access import open_regular
from opendml.description.quoting import listed, quoted
from opendml.formats.files import IMAGE_SUFFIXES, image_size, read_image
from opendml.formats.json_text import Node
from opendml.formats.onnx.types import TensorInfo, known_type

if TYPE_CHECKING:
    from opendml.formats.onnx.model import OnnxModel

__all__ = ["RANDOM", "arrays_from", "filled"]

Array = npt.NDArray[Any]

RANDOM: Final = "random"
"""What stands for a file where an input is to be random."""

SEED: Final = 0
LARGEST_RANDOM: Final = 100
"""Below this random integers are: indices into most tables."""


def arrays_from(model: OnnxModel, files: Mapping[str, str], sizes: Mapping[str, Any]) -> dict[str, Array]:
    """The arrays of inputs by name, each from a file: ``.npy``, ``.npz`` (the array of its name, or its only one), an
    image. Under the name ``*`` a ``.npz`` gives all the inputs whose names it has.

    Raises ModelFormatError for a name that is no input and for files that are not read.
    """
    infos = {info.name: info for info in model.inputs}
    unknown = [name for name in files if name not in (*infos, "*")]
    if unknown:
        raise ModelFormatError("--input", f"the model has no input {listed(unknown)}, only {listed(infos)}")
    found: dict[str, Array] = {}
    for name, text in files.items():
        if name == "*":
            arrays = _archive(Path(text), name)
            found |= {one: array for one, array in arrays.items() if one in infos}
        elif text != RANDOM:
            found[name] = _array(Path(text), infos[name], sizes)
    return found


def filled(infos: Sequence[TensorInfo], sizes: Mapping[str, tuple[int, ...]], random: Mapping[str, str]) -> Any:
    """What was not given: zeros, or random where that is asked for, the same ones every time."""
    generator = np.random.default_rng(SEED)
    found = {}
    for info in infos:
        kind = known_type(info.element_type) or np.dtype(np.float32)
        array = np.zeros(sizes[info.name], kind)
        if random.get(info.name, random.get("*")) == RANDOM:
            whole = generator.integers(0, 2 if kind.kind == "b" else LARGEST_RANDOM, sizes[info.name])
            array = np.asarray(generator.standard_normal(sizes[info.name]) if kind.kind == "f" else whole).astype(kind)
        found[info.name] = array
    return found


def _array(path: Path, info: TensorInfo, sizes: Mapping[str, Any]) -> Array:
    place = Node(None, f"input {info.name!r}")
    suffix = path.suffix.lower()
    if suffix in IMAGE_SUFFIXES:
        return _image(path, info, sizes, place)
    if suffix == ".npz":
        arrays = _archive(path, info.name)
        if info.name not in arrays and len(arrays) != 1:
            place.fail(f"{quoted(path.name)} has the arrays {listed(arrays)}, none of this name")
        return arrays[info.name] if info.name in arrays else next(iter(arrays.values()))
    if suffix != ".npy":
        place.fail(f"{quoted(path.name)}: expected .npy, .npz, {', '.join(IMAGE_SUFFIXES)}, or {RANDOM}")
    with open_regular(path) as file:
        try:
            array: Array = np.load(file, allow_pickle=False)
        except (ValueError, EOFError, MemoryError) as error:
            place.fail(f"{quoted(path.name)} is no readable .npy file: {quoted(str(error))}")
    return array


def _archive(path: Path, name: str) -> dict[str, Array]:
    import zipfile

    with open_regular(path) as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                if not isinstance(archive, np.lib.npyio.NpzFile):
                    raise ValueError("it is no archive")
                return {one: archive[one] for one in archive.files}
        except (ValueError, EOFError, zipfile.BadZipFile, TypeError, AttributeError) as error:
            message = f"{quoted(path.name)} is no readable .npz file: {quoted(str(error))}"
            raise ModelFormatError(f"input {name!r}", message) from None


def _image(path: Path, info: TensorInfo, sizes: Mapping[str, Any], place: Node) -> Array:
    """One image, [1, C, H, W] or [1, H, W, C] as the model has it: 0 to 1 in floating point, 0 to 255 in integers."""
    given = sizes.get(info.name)
    declared: Sequence[Any] = given if isinstance(given, (list, tuple)) else info.sizes or ()
    if len(declared) != 4:
        place.fail(f"{info!r} is no image of four dimensions")
    known = [sizes.get(size, size) if isinstance(size, str) else size for size in declared]
    is_last = known[3] in (1, 3, 4) and known[1] not in (1, 3, 4)
    channels, height, width = (known[3], *known[1:3]) if is_last else known[1:]
    usual = image_size(path, place)
    wanted = [
        one if isinstance(one, int) else other for one, other in zip((channels, height, width), usual, strict=True)
    ]
    if wanted[0] not in (1, 3, 4) or min(wanted) < 1:
        place.fail(f"{wanted[0]} channels are those of no image")
    pixels = read_image(path, place, *wanted)[None]
    pixels = pixels.transpose(0, 2, 3, 1) if is_last else pixels
    kind = known_type(info.element_type) or np.dtype(np.float32)
    return np.ascontiguousarray(pixels / np.float32(255) if kind.kind == "f" else pixels).astype(kind)
