"""``opendml run`` of an ONNX model: arrays for its inputs, its outputs printed or written."""

from __future__ import annotations

import io
import statistics
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from opendml.command_line.models import feature_level, onnx_choices
from opendml.command_line.output import fail, print_json, print_line, progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable

    from opendml.formats.onnx.choices import OnnxChoices
    from opendml.formats.onnx.model import OnnxModel
    from opendml.formats.onnx.program import OnnxProgram
    from opendml.formats.onnx.staging import StagedProgram
    from opendml.programs.device import Device

T = TypeVar("T")

__all__ = ["is_onnx", "run", "whole_or_in_parts"]

SHOWN: Final = 1000
"""Elements of an output that are printed in full, at most."""


def is_onnx(path: Path) -> bool:
    """Whether a file is an ONNX model."""
    from opendml.formats.recognition import first_bytes, onnx_format

    return onnx_format(first_bytes(path)) is not None


def run(values: Namespace, path: Path) -> None:
    """Run the model on what the command line gives its inputs; others are read from ``x.npy`` beside it, or zeros."""
    from opendml.formats.dxdispatch import adapters
    from opendml.formats.loading import load
    from opendml.formats.onnx.model import OnnxModel
    from opendml.programs.device import Device

    if values.output is not None and values.output.suffix.lower() != ".npz":
        fail(f"--output: expected a file such as results.npz, got {values.output.name}")
    device_name = adapters.select(values.adapter, values.device).device
    device = Device(device_name, feature_level=feature_level(values.feature_level), thread_count=values.threads)
    model = load(path)
    if not isinstance(model, OnnxModel):
        fail(f"{path}: it is no ONNX model any more")
    choices = onnx_choices(values)
    arrays = _arrays(model, choices, values.input or {}, values.input_path or path.parent)
    with progress_bar() as report:
        progress = None if report is None else lambda share: report(f"compiling {model.name}", share)
        program = model.program_for(
            arrays,
            device=device,
            narrow_float64=choices.narrow_float64,
            fuse_quantization=choices.fuse_quantization,
            progress=progress,
        )
    if values.print_onnx_bindings and not values.json:
        _print_bindings(model, program)
    _check_memory(program, arrays, values.memory_limit << 20)
    results, times = _measured(values, program, arrays)
    _report(values, results, times)


def _measured(values: Namespace, program: OnnxProgram, arrays: dict[str, Any]) -> tuple[dict[str, Any], list[float]]:
    """The outputs, and the milliseconds of a run in every iteration: so many, or as long as ``-t`` says."""
    results: dict[str, Any] = {}
    times: list[float] = []
    began = time.perf_counter()
    seconds = None if values.milliseconds_to_run is None else values.milliseconds_to_run / 1000
    while not times or (
        len(times) < values.dispatch_iterations if seconds is None else time.perf_counter() - began < seconds
    ):
        start = time.perf_counter()
        for _ in range(values.dispatch_repeat):
            results = program.run(arrays)
        taken = time.perf_counter() - start
        times.append(1e3 * taken / values.dispatch_repeat)
        time.sleep(max(0.0, values.dispatch_interval / 1000 - taken))
    return results, times


def _arrays(model: OnnxModel, choices: OnnxChoices, files: dict[str, str], folder: Path) -> dict[str, Any]:
    """The arrays of all inputs: of files, of ``x.npy`` in a folder, of the command line's values, zeros."""
    from opendml.formats.onnx.feeding import arrays_from, filled

    sizes = choices.sizes_for(model)
    outputs = {info.name for info in model.outputs} - {info.name for info in model.inputs}
    sizes = {name: size for name, size in sizes.items() if name not in outputs or isinstance(size, int)}
    arrays = arrays_from(model, _beside(model, files, folder) | files, sizes)
    arrays |= model.values_of(choices.values)
    _check_sizes(model, sizes, arrays)
    known = sizes | {name: list(array.shape) for name, array in arrays.items()}
    missing = [info for info in model.inputs if info.name not in arrays]
    arrays |= filled(missing, model.sizes_of(known), files)
    return arrays


def _check_sizes(model: OnnxModel, sizes: dict[str, Any], arrays: dict[str, Any]) -> None:
    """What the command line says of sizes is what the arrays have."""
    for info in model.inputs:
        if info.name not in arrays or info.sizes is None or len(info.sizes) != arrays[info.name].ndim:
            continue
        have = list(arrays[info.name].shape)
        own = sizes.get(info.name)
        pairs = zip(info.sizes, have, strict=True)
        wanted = [sizes.get(name, size) if isinstance(name, str) else size for name, size in pairs]
        if own is not None and info.name not in info.sizes:
            wanted = [own] if isinstance(own, int) else list(own)
        if wanted != have:
            fail(f"--size: the input {info.name!r} would be {wanted}, but what it is read from is {have}")


def whole_or_in_parts(
    values: Namespace, device: Device, whole: Callable[[], T], in_parts: Callable[[StagedProgram, dict[str, Any]], T]
) -> T:
    """What is found out about a model as a ``whole``, or, if it is an ONNX model that the host drives, about its
    program ``in_parts``, with arrays for inputs as ``opendml run`` has them."""
    from opendml.description.errors import ModelFormatError

    try:
        return whole()
    except ModelFormatError:
        found = _staged_program(values.model, onnx_choices(values), device, values.input_path)
        if found is None:
            raise
        return in_parts(*found)


def _staged_program(
    path: Path, choices: OnnxChoices, device: Device, folder: Path | None
) -> tuple[StagedProgram, dict[str, Any]] | None:
    """The program of an ONNX model in parts, which the host drives, and arrays for it; None for any other file."""
    from opendml.formats.loading import load
    from opendml.formats.onnx.model import OnnxModel
    from opendml.formats.onnx.staging import StagedProgram

    model = load(path) if is_onnx(path) else None
    if not isinstance(model, OnnxModel):
        return None
    arrays = _arrays(model, choices, {}, folder or path.parent)
    sizes = {name: list(array.shape) for name, array in arrays.items()}
    program = model.compile(device, **choices.arguments(model) | {"sizes": sizes})
    return (program, arrays) if isinstance(program, StagedProgram) else None


def _print_bindings(model: OnnxModel, program: OnnxProgram) -> None:
    """Types and sizes of inputs and outputs, as DxDispatch shows them."""
    names = {info.name for info in program.inputs}
    inputs = [*program.inputs, *(info for info in model.inputs if info.name not in names)]
    for kind, infos in (("Input", inputs), ("Output", program.outputs)):
        for info in infos:
            sizes = "any" if info.sizes is None else f"[{','.join('?' if s is None else str(s) for s in info.sizes)}]"
            print_line(f"{kind} Tensor {info.name!r}:\n  Data Type = {info.data_type}\n  Shape     = {sizes}\n")


def _beside(model: Any, files: dict[str, str], folder: Path) -> dict[str, str]:
    """The files that are named like inputs which nothing else is said of."""
    if "*" in files:
        return {}
    names = [info.name for info in model.inputs if info.name not in files and Path(info.name).name == info.name]
    return {name: str(folder / f"{name}.npy") for name in names if (folder / f"{name}.npy").is_file()}


def _check_memory(program: OnnxProgram, arrays: dict[str, Any], limit: int) -> None:
    needed = sum(array.nbytes for array in arrays.values())
    if program.program is not None:
        needed += program.program.binding_properties.temporary_resource_size
    if needed > limit:
        fail(f"its inputs and temporaries need {needed >> 20} MiB, --memory_limit is {limit >> 20} MiB")


def _report(values: Namespace, results: dict[str, Any], times: list[float]) -> None:
    """The outputs, or where they were written to; times of several iterations."""
    hot = times[values.warmup_samples :] or times
    if values.output is not None:
        _write((values.output_path or Path()) / values.output, results)
    if values.json:
        import numpy as np

        described = {
            name: {"data_type": array.dtype.name, "sizes": list(array.shape)}
            | ({} if values.output is not None else {"values": _plain(np.asarray(array))})
            for name, array in results.items()
        }
        print_json({"outputs": described, "milliseconds": statistics.median(hot)})
        return
    for name, array in results.items():
        print_line(f"{name}: {array.dtype.name} {list(array.shape)}")
        if values.output is None:
            print_line(_text(array))
    if values.output is not None:
        print_line(f"written to {(values.output_path or Path()) / values.output}")
    if len(times) > 1:
        print_line(f"{statistics.median(hot):.3f} ms, the median of {len(hot)} iterations")
    if len(times) > 1 and values.timing_verbosity:
        print_line(f"{times[0]:.3f} ms the first one, {min(times):.3f} ms the fastest")
    if values.timing_verbosity > 1:
        print_line(f"all: {', '.join(f'{one:.3f}' for one in times)} ms")


def _text(array: Any) -> str:
    import numpy as np

    return np.array2string(array, threshold=SHOWN, separator=", ")


def _plain(array: Any) -> Any:
    """Lists of numbers; JSON has no NaN and no infinities, which are texts."""
    import numpy as np

    if array.dtype.kind != "f" or np.isfinite(array).all():
        return array.tolist()
    return [value if np.isfinite(value) else str(value) for value in array.reshape(-1).tolist()]


def _write(path: Path, results: dict[str, Any]) -> None:
    import numpy as np

    from opendml.description.file_access import write_bytes

    content = io.BytesIO()
    np.savez(content, **results)
    write_bytes(path, content.getvalue())
