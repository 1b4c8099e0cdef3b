"""How a mapping runs: here or by Ray, and where its results go."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opendml.compatibility.distributed.cluster import connected, dataset_of, is_wanted, mapped
from opendml.compatibility.distributed.columns import array_of_column
from opendml.compatibility.distributed.here import map_here
from opendml.compatibility.distributed.mapper import Mapper, Plan
from opendml.compatibility.distributed.sinks import ArraysSink, NumpySink, ParquetSink, Sink, whole_folder
from opendml.compatibility.distributed.sources import ImageSource, ParquetSource, Source, source_of
from opendml.description.errors import ConfigurationError
from opendml.description.quoting import argument

__all__ = ["Run", "map_rows"]


@dataclass(frozen=True, slots=True)
class Run:
    """Who does the work of a mapping, and where its results go, as the arguments of ``map`` say."""

    folder: Path | None
    format: str | None
    workers: int | None
    threads: int
    gpus: float
    cluster: str | None
    progress: Callable[[float], None] | None

    def is_of_parquet(self, source: Source) -> bool:
        """Whether results are written as Parquet files: that is asked for, or they were read from such."""
        return self.format == "parquet" or (self.format is None and isinstance(source, ParquetSource))


def map_rows(dataset: Any, plan: Plan, run: Run) -> Any:
    """The results of a plan's model for every row of a data set, or their number. Errors as for ``map``."""
    if _is_of_ray(dataset):
        return _over_ray(dataset, plan, run)
    by_ray = is_wanted(run.cluster)
    # The model comes first in what the user wrote, so that it is the first to be complained of.
    mapper = Mapper(plan, run.threads if by_ray else 1)
    source = source_of(dataset)
    if source.rows == 0:
        raise ConfigurationError("the data set has no rows")
    return _read_by_ray(source, dataset, mapper, run) if by_ray else _here(source, mapper, run)


def _is_of_ray(dataset: Any) -> bool:
    return type(dataset).__module__.startswith("ray.data") and hasattr(dataset, "map_batches")


def _here(source: Source, mapper: Mapper, run: Run) -> Any:
    if run.folder is None:
        arrays = ArraysSink()
        map_here(source, mapper, arrays, run.workers, run.progress)
        return arrays.arrays
    with whole_folder(run.folder) as unfinished:
        sink = ParquetSink(unfinished) if run.is_of_parquet(source) else NumpySink(unfinished, source.rows)
        map_here(source, mapper, sink, run.workers, run.progress)
    return source.rows


def _read_by_ray(source: Source, path: Any, mapper: Mapper, run: Run) -> Any:
    mapper.columns(source.columns)  # said here rather than by a worker
    connected(run.cluster)
    dataset = dataset_of(source, path, mapper.batch_size)
    dataset.context.execution_options.preserve_order = True
    images = source.folder.resolve() if isinstance(source, ImageSource) else None
    results = mapped(dataset, mapper, workers=run.workers, threads=run.threads, gpus=run.gpus, folder=images)
    if run.folder is None:
        arrays = ArraysSink()
        _gather(results, arrays, source.rows, run.progress)
        return arrays.arrays
    with whole_folder(run.folder) as unfinished:
        if run.is_of_parquet(source):
            results.write_parquet(os.fspath(unfinished.resolve()))
        else:
            _gather(results, NumpySink(unfinished, source.rows), source.rows, run.progress)
    return source.rows


def _gather(results: Any, sink: Sink, rows: int, progress: Callable[[float], None] | None) -> None:
    """Gives the tables of a data set of Ray to ``sink``, as they come."""
    done = 0
    for table in results.iter_batches(batch_size=None, batch_format="pyarrow"):
        if table.num_rows:
            sink.write({name: array_of_column(table.column(name), name) for name in table.column_names})
        done += table.num_rows
        if progress is not None:
            progress(done / rows)
    sink.close()


def _over_ray(dataset: Any, plan: Plan, run: Run) -> Any:
    connected(run.cluster)
    results = mapped(dataset, Mapper(plan, run.threads), workers=run.workers, threads=run.threads, gpus=run.gpus)
    if run.folder is None:
        return results
    if run.format == "npy":
        raise ConfigurationError(
            f"{argument('format', 'npy')}: the results of a data set of Ray are written as Parquet files"
        )
    results = results.materialize()
    with whole_folder(run.folder) as unfinished:
        results.write_parquet(os.fspath(unfinished.resolve()))
    return results.count()
