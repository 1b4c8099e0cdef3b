"""What running a model tells: as the lines that DxDispatch prints, or as one value for programs."""

# What every method is told stands once, in ``Report``.
# ruff: noqa: D102

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from opendml.description.quoting import printable
from opendml.formats.dxdispatch.printing import format_elements, format_elements_verbose

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from opendml.formats.dxdispatch.executor import RunOptions

__all__ = ["JsonReport", "Report", "Statistics", "TextReport"]


class Report(Protocol):
    """Is told what happens while a model runs. Times are in milliseconds."""

    def started(self, adapter: str) -> None:
        """A model is about to run on an adapter."""

    def initialized(self, name: str, milliseconds: float) -> None:
        """A dispatchable was compiled and initialised."""

    def command_started(self, index: int, parameters: str) -> None:
        """A command begins; ``parameters`` is how it stands in the model."""

    def command_ended(self, index: int) -> None:
        """A command is over."""

    def dispatched(self, name: str, samples: array[float]) -> None:
        """A dispatch command has run so often."""

    def printed(self, resource: str, data_type: str, values: NDArray[Any], verbose: bool) -> None:
        """A resource is to be shown."""

    def written(self, resource: str, path: Path) -> None:
        """A resource was written to a file."""


class TextReport:
    """The lines of DxDispatch."""

    def __init__(self, options: RunOptions, output: TextIO) -> None:
        self._options = options
        self._output = output

    def started(self, adapter: str) -> None:
        self._line(f"Running on '{printable(adapter)}'")

    def initialized(self, name: str, milliseconds: float) -> None:
        if self._options.timing_verbosity >= 1:
            self._line(f"Initialize '{printable(name)}': {milliseconds:.4f} ms")

    def command_started(self, index: int, parameters: str) -> None:
        if self._options.print_commands:
            self._line(f"[StartCmd][{index:04}]\t: {parameters}")

    def command_ended(self, index: int) -> None:
        if self._options.print_commands:
            self._line(f"[EndCmd][{index:04}]\t: hr=0x00000000 \n")

    def dispatched(self, name: str, samples: array[float]) -> None:
        for line in _timing_lines(name, samples, self._options):
            self._line(line)

    def printed(self, resource: str, data_type: str, values: NDArray[Any], verbose: bool) -> None:
        write = self._output.write
        write(f"Resource '{printable(resource)}':{chr(10) if verbose else ' '}")
        for piece in (format_elements_verbose if verbose else format_elements)(values):
            write(piece)
        self._line("")

    def written(self, resource: str, path: Path) -> None:
        self._line(f"Resource '{printable(resource)}' written to '{printable(str(path))}'")

    def _line(self, text: str) -> None:
        self._output.write(text + "\n")
        self._output.flush()


class JsonReport:
    """``content``: adapter, initialisations, dispatches, resources and files, in the order in which they came.

    Real numbers that JSON does not have are the texts ``nan``, ``inf`` and ``-inf``, as in models.
    """

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self.content: dict[str, Any] = {
            "adapter": "",
            "initializations": [],
            "dispatches": [],
            "resources": [],
            "files": [],
        }

    def started(self, adapter: str) -> None:
        self.content["adapter"] = adapter

    def initialized(self, name: str, milliseconds: float) -> None:
        self.content["initializations"].append({"dispatchable": name, "milliseconds": milliseconds})

    def command_started(self, index: int, parameters: str) -> None: ...

    def command_ended(self, index: int) -> None: ...

    def dispatched(self, name: str, samples: array[float]) -> None:
        cold = _cold_samples(samples, self._options)
        self.content["dispatches"].append(
            {
                "dispatchable": name,
                "iterations": len(samples),
                "dispatch_repeat": self._options.dispatch_repeat,
                "hot_median_milliseconds": Statistics.of(samples[cold:]).median if samples else None,
                "cold_samples": cold,
                "milliseconds": list(samples) if self._options.timing_verbosity >= 2 else None,
            }
        )

    def printed(self, resource: str, data_type: str, values: NDArray[Any], verbose: bool) -> None:
        elements = values.tolist()
        if values.dtype.kind == "f":
            elements = [value if math.isfinite(value) else str(value) for value in elements]
        self.content["resources"].append({"resource": resource, "data_type": data_type, "values": elements})

    def written(self, resource: str, path: Path) -> None:
        self.content["files"].append({"resource": resource, "path": str(path)})


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of times in milliseconds. The median of an even number of samples is the greater of the middle two."""

    count: int
    average: float
    minimum: float
    median: float
    maximum: float

    @classmethod
    def of(cls, samples: array[float]) -> Statistics:
        """The statistics of at least one sample."""
        ordered = sorted(samples)
        count = len(ordered)
        return cls(count, sum(ordered) / count, ordered[0], ordered[count // 2], ordered[-1])

    def __str__(self) -> str:
        return (
            f"{self.count} samples, {self.average:.4f} ms average, {self.minimum:.4f} ms min, "
            f"{self.median:.4f} ms median, {self.maximum:.4f} ms max"
        )


def _timing_lines(name: str, samples: array[float], options: RunOptions) -> Iterator[str]:
    if not samples:
        return
    name = printable(name)
    cold = _cold_samples(samples, options)
    hot = Statistics.of(samples[cold:])
    if options.timing_verbosity == 0:
        yield f"Dispatch '{name}': {len(samples)} iterations, {hot.median:.4f} ms median (CPU)"
        return
    yield f"Dispatch '{name}': {len(samples)} iterations"
    if cold:
        yield f"CPU Timings (Cold) : {Statistics.of(samples[:cold])}"
    yield f"CPU Timings (Hot)  : {hot}"
    if options.timing_verbosity >= 2:
        yield "The timings of each iteration: "
        for index, sample in enumerate(samples):
            yield f"iteration {index}: {sample:.4f} ms (CPU)"


def _cold_samples(samples: array[float], options: RunOptions) -> int:
    """How many of the first iterations count as cold; one is always hot."""
    return max(0, min(len(samples) - 1, options.warmup_samples))
