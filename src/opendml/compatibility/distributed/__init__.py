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
    from opendml.compatibility.distributed.cluster import is_wanted
    from opendml.compatibility.distributed.mapper import Images, Plan
    from opendml.compatibility.distributed.sinks import FORMATS, check_free

    if format is not None and format not in FORMATS:
        raise ConfigurationError(f"{argument('format', format)}: expected {' or '.join(FORMATS)}")
    for name, number in (("workers", workers), ("threads", threads), ("batch_size", batch_size)):
        if number is not None and (not isinstance(number, int) or number < 1):
            raise ConfigurationError(f"{argument(name, number)}: expected a number from 1 on")
    images = Images(image_size, tuple(image_mean), tuple(image_deviation))
    plan = Plan(
        _portable(model),
        device,
        batch_size,
        dict(columns or {}),
        dict(values or {}),
        tuple(keep),
        images,
        narrow_float64,
        fuse_quantization,
    )
    folder = None if output is None else Path(output)
    if folder is not None:
        check_free(folder)
    if _is_of_ray(dataset):
        return _over_ray(dataset, plan, folder, format, workers, threads, gpus, None)
    from opendml.compatibility.distributed.sources import source_of

    source = source_of(dataset)
    if source.rows == 0:
        raise ConfigurationError("the data set has no rows")
    if is_wanted(cluster):
        return _read_by_ray(source, dataset, plan, folder, format, workers, threads, gpus, cluster, progress)
    return _here(source, plan, folder, format, workers, progress)


def _portable(model: Any) -> Any:
    return os.fspath(model) if isinstance(model, os.PathLike) else model


def _is_of_ray(dataset: Any) -> bool:
    return type(dataset).__module__.startswith("ray.data") and hasattr(dataset, "map_batches")


def _is_parquet(source: Any, format: str | None) -> bool:
    from opendml.compatibility.distributed.sources import ParquetSource

    return format == "parquet" or (format is None and isinstance(source, ParquetSource))


def _here(
    source: Any,
    plan: Any,
    folder: Path | None,
    format: str | None,
    workers: int | None,
    progress: Callable[[float], None] | None,
) -> Any:
    from opendml.compatibility.distributed.here import map_here
    from opendml.compatibility.distributed.sinks import ArraysSink, NumpySink, ParquetSink, whole_folder

    if folder is None:
        arrays = ArraysSink()
        map_here(source, plan, arrays, workers, progress)
        return arrays.arrays
    with whole_folder(folder) as unfinished:
        sink = ParquetSink(unfinished) if _is_parquet(source, format) else NumpySink(unfinished, source.rows)
        map_here(source, plan, sink, workers, progress)
    return source.rows


def _read_by_ray(
    source: Any,
    path: Any,
    plan: Any,
    folder: Path | None,
    format: str | None,
    workers: int | None,
    threads: int,
    gpus: float,
    cluster: str | None,
    progress: Callable[[float], None] | None,
) -> Any:
    from opendml.compatibility.distributed.cluster import connected, dataset_of, mapped
    from opendml.compatibility.distributed.columns import array_of_column
    from opendml.compatibility.distributed.mapper import Mapper
    from opendml.compatibility.distributed.sinks import ArraysSink, NumpySink, whole_folder
    from opendml.compatibility.distributed.sources import ImageSource

    mapper = Mapper(plan, threads)
    mapper.columns(source.columns)  # said here rather than by a worker
    connected(cluster)
    dataset = dataset_of(source, path, mapper.batch_size)
    dataset.context.execution_options.preserve_order = True
    images = source.folder.resolve() if isinstance(source, ImageSource) else None
    results = mapped(dataset, plan, workers=workers, threads=threads, gpus=gpus, folder=images)
    if folder is not None and _is_parquet(source, format):
        with whole_folder(folder) as unfinished:
            results.write_parquet(os.fspath(unfinished.resolve()))
        return source.rows

    def gather(sink: Any) -> None:
        done = 0
        for table in results.iter_batches(batch_size=None, batch_format="pyarrow"):
            if table.num_rows:
                sink.write({name: array_of_column(table.column(name), name) for name in table.column_names})
            done += table.num_rows
            if progress is not None:
                progress(done / source.rows)
        sink.close()

    if folder is None:
        arrays = ArraysSink()
        gather(arrays)
        return arrays.arrays
    with whole_folder(folder) as unfinished:
        gather(NumpySink(unfinished, source.rows))
    return source.rows


def _over_ray(
    dataset: Any,
    plan: Any,
    folder: Path | None,
    format: str | None,
    workers: int | None,
    threads: int,
    gpus: float,
    cluster: str | None,
) -> Any:
    from opendml.compatibility.distributed.cluster import connected, mapped
    from opendml.compatibility.distributed.sinks import whole_folder

    connected(cluster)
    results = mapped(dataset, plan, workers=workers, threads=threads, gpus=gpus)
    if folder is None:
        return results
    if format == "npy":
        raise ConfigurationError(
            f"{argument('format', 'npy')}: the results of a data set of Ray are written as Parquet files"
        )
    results = results.materialize()
    with whole_folder(folder) as unfinished:
        results.write_parquet(os.fspath(unfinished.resolve()))
    return results.count()
