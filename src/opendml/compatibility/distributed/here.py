"""Data sets on this machine: batches side by side, each with a thread, one program for all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any

from opendml.compatibility.distributed.mapper import Mapper, Plan
from opendml.compatibility.distributed.sinks import Sink
from opendml.compatibility.distributed.sources import ImageSource, Source
from opendml.llvm.host import default_thread_count

__all__ = ["map_here", "workers_for"]

Progress = Callable[[float], None]

AHEAD = 2
"""Batches for each worker that are read before their results are written."""


def workers_for(plan: Plan, workers: int | None, batches: int) -> tuple[int, int]:
    """How many batches run side by side, and the threads of each: all processors, but no worker without a batch."""
    threads = default_thread_count()
    count = max(1, min(workers or threads, batches))
    return count, 1 if workers else max(1, threads // count)


def map_here(source: Source, mapper: Mapper, sink: Sink, workers: int | None, progress: Progress | None) -> None:
    """Runs a model over all rows, and gives the results to ``sink`` in order."""
    plan = mapper.plan
    batches = -(-source.rows // mapper.batch_size)
    count, threads = workers_for(plan, workers, batches)
    if threads > 1:
        mapper = Mapper(replace(plan, model=mapper.model), threads)
    if isinstance(source, ImageSource):
        source.size = mapper.image_size
    columns = mapper.columns(source.columns)
    wanted = list(dict.fromkeys([*columns.values(), *mapper.kept(source.columns)]))
    done = 0

    def finish(result: Future[Any]) -> None:
        nonlocal done
        results = result.result()
        sink.write(results)
        done += len(next(iter(results.values())))
        if progress is not None:
            progress(done / source.rows)

    with ThreadPoolExecutor(count, "opendml map") as pool:
        waiting: deque[Future[Any]] = deque()
        try:
            for loader in source.batches(mapper.batch_size, wanted):
                work = partial(lambda loader: mapper(loader(), columns), loader)
                waiting.append(pool.submit(copy_context().run, work))  # messages are worded there as here
                while len(waiting) > AHEAD * count:
                    finish(waiting.popleft())
            while waiting:
                finish(waiting.popleft())
        finally:
            for one in waiting:
                one.cancel()
    sink.close()
