"""Models over data sets, ``opendml.distributed``: on this machine with all of its processors, or on a cluster of Ray.

outputs = dml.distributed.map("model.onnx", {"image": images})
dml.distributed.map("model.onnx", "images/", output="results/", format="parquet")
results = dml.distributed.map("model.onnx", ray.data.read_parquet("s3://..."))
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opendml.description.errors import ConfigurationError
from opendml.description.quoting import argument

if TYPE_CHECKING:
    from opendml.formats.onnx.model import OnnxModel

__all__ = ["map"]


def map(
    model: str | os.PathLike[str] | bytes | OnnxModel,
    dataset: Any,
    *,
    output: str | os.PathLike[str] | None = None,
    format: str | None = None,
    batch_size: int | None = None,
    columns: Mapping[str, str] | None = None,
    values: Mapping[str, Any] | None = None,
    narrow_float64: bool = False,
    fuse_quantization: bool = True,
    keep: Sequence[str] = (),
    image_size: tuple[int, int] | None = None,
    image_mean: Sequence[float] = (0.0,),
    image_deviation: Sequence[float] = (1.0,),
    device: str = "cpu",
    workers: int | None = None,
    threads: int = 1,
    gpus: float = 0,
    cluster: str | None = None,
    progress: Callable[[float], None] | None = None,
) -> Any:
    """The outputs of an ONNX model for every row of a data set; the first dimension of its inputs is the batch.

    ``dataset``: a path (a Parquet, ``.npy`` or ``.npz`` file, or a folder of Parquet files, of ``.npy`` files, or of
    images), arrays by name, an Arrow table, or a data set of Ray. An input is the column of its name, or that which
    ``columns`` says, or the only one; ``values`` are those of inputs without rows; ``narrow_float64`` and
    ``fuse_quantization`` are those of ``OnnxModel.compile``. Rows are converted to the input's type within its kind,
    and have its sizes if they have as many elements. Results are a column for each output, in the order of the rows,
    and those of ``keep``; paths of images are kept.

    Images are scaled to ``image_size`` (height and width; by default the model's), three channels; for inputs of
    floating point they are ``(pixel / 255 - image_mean) / image_deviation``.

    ``output``: a new folder, which appears whole or not at all, of files in a ``format``, ``parquet`` (the default for
    Parquet) or ``npy``; the number of rows is returned. Without it the results are: arrays by name, or for a data set
    of Ray another one, which runs when somebody asks for its rows.

    Here ``workers`` batches run side by side, by default on all processors. With ``cluster``, Ray's address, ``auto``
    or ``local``, or where the program is connected to Ray already, Ray's workers do the same, each with a program of
    ``threads`` threads and ``gpus`` GPUs; workers that die are started anew and lose nothing. ``progress`` is told
    which part is done, from 0 to 1.

    Raises BindingError for columns that do not fit, ModelFormatError for a model or data that cannot be read or run,
    ConfigurationError for options, packages that are missing, and an output that is there already.
    """
    from opendml.compatibility.distributed.mapper import Images, Plan
    from opendml.compatibility.distributed.running import Run, map_rows
    from opendml.compatibility.distributed.sinks import FORMATS, check_free

    if format is not None and format not in FORMATS:
        raise ConfigurationError(f"{argument('format', format)}: expected {' or '.join(FORMATS)}")
    for name, number in (("workers", workers), ("threads", threads), ("batch_size", batch_size)):
        if number is not None and (not isinstance(number, int) or number < 1):
            raise ConfigurationError(f"{argument(name, number)}: expected a number from 1 on")
    folder = None if output is None else Path(output)
    if folder is not None:
        check_free(folder)
    plan = Plan(
        os.fspath(model) if isinstance(model, os.PathLike) else model,
        device,
        batch_size,
        dict(columns or {}),
        dict(values or {}),
        tuple(keep),
        Images(image_size, tuple(image_mean), tuple(image_deviation)),
        narrow_float64,
        fuse_quantization,
    )
    return map_rows(dataset, plan, Run(folder, format, workers, threads, gpus, cluster, progress))
