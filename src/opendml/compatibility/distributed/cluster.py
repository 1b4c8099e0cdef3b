"""Data sets on many machines: a pool of Ray's actors, each with one compiled program.

An actor that dies is started anew, and what it had not finished is done again: Ray Data's way with actors.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

from opendml.compatibility.distributed.columns import array_of_column, table_of
from opendml.compatibility.distributed.mapper import Mapper, Plan
from opendml.compatibility.distributed.sources import PATH, ImageSource, ParquetSource, Source
from opendml.description.errors import ConfigurationError

__all__ = ["Worker", "connected", "dataset_of", "is_wanted", "mapped", "ray_package"]

CACHE_VARIABLE = "OPENDML_CACHE_DIR"


class Worker:
    """An actor: takes tables of rows and gives tables of results."""

    def __init__(self, plan: Plan, threads: int, folder: Path | None = None, cache: str | None = None) -> None:
        if cache is not None:
            os.environ.setdefault(CACHE_VARIABLE, cache)
        self._mapper = Mapper(plan, threads)
        self._folder = folder

    def __call__(self, table: Any) -> Any:
        """The results of a batch, an Arrow table."""
        names = table.column_names
        if self._folder is not None:
            source = ImageSource(self._folder, array_of_column(table.column(PATH), PATH).tolist())
            source.size = self._mapper.image_size
            batch, names = source.load(source.paths, source.columns), list(source.columns)
        columns = self._mapper.columns(names)
        if self._folder is None:
            wanted = dict.fromkeys([*columns.values(), *self._mapper.kept(names)])
            batch = {name: array_of_column(table.column(name), name) for name in wanted}
        return table_of(self._mapper(batch, columns))


def ray_package() -> ModuleType:
    """The package ray. Raises ConfigurationError where it is not installed."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        message = f"data sets on many machines need the package ray: pip install 'opendml[ray]' ({error})"
        raise ConfigurationError(message) from None
    return ray  # type: ignore[no-any-return]


def is_wanted(cluster: str | None) -> bool:
    """Whether Ray is to be used: it is asked for, this program is connected to it, or runs on one of its machines."""
    import sys

    if cluster is not None or os.environ.get("RAY_ADDRESS"):
        return True
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


def connected(cluster: str | None) -> ModuleType:
    """Ray, connected: to an address, ``auto``, or a cluster of its own, ``local``."""
    ray = ray_package()
    if not ray.is_initialized():
        ray.init(address=cluster, log_to_driver=False, configure_logging=False)
    return ray


def dataset_of(source: Source, path: Any, batch_size: int) -> Any:
    """A source as a data set of Ray. Parquet files are read by its workers; images are, too, behind their paths."""
    ray = ray_package()
    if isinstance(source, ParquetSource):
        return ray.data.read_parquet(os.fspath(path))
    if isinstance(source, ImageSource):
        return ray.data.from_items([{PATH: one} for one in source.paths])
    tables = [table_of(loader()) for loader in source.batches(batch_size, source.columns)]
    return ray.data.from_arrow(tables)


def mapped(
    dataset: Any, mapper: Mapper, *, workers: int | None, threads: int, gpus: float, folder: Path | None = None
) -> Any:
    """The data set of the results: nothing runs before somebody asks for them."""
    ray = connected(None)
    # One processor is left for reading.
    most = workers or max(1, (int(ray.cluster_resources().get("CPU", 1)) - 1) // threads)
    return dataset.map_batches(
        Worker,
        fn_constructor_args=(mapper.plan, threads, folder, os.environ.get(CACHE_VARIABLE)),
        batch_size=mapper.batch_size,
        batch_format="pyarrow",
        zero_copy_batch=True,
        compute=ray.data.ActorPoolStrategy(min_size=workers or 1, max_size=most),
        num_cpus=threads,
        num_gpus=gpus or None,
    )
