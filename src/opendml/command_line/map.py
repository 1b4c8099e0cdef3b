"""``opendml map``: a model over a data set."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from opendml.command_line.output import fail, print_json, print_line, progress_bar, readable_errors
from opendml.description.quoting import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["execute"]


def execute(values: Namespace) -> int:
    """Run the model that the command line names over all rows."""
    with readable_errors(values.model, values.json):
        from opendml.compatibility import distributed

        started = time.perf_counter()
        with progress_bar() as report:
            rows = distributed.map(
                values.model,
                values.inputs,
                output=values.output,
                format=values.format,
                batch_size=values.batch,
                columns=values.column,
                values=values.value,
                narrow_float64=values.narrow_float64,
                fuse_quantization=not values.no_fuse_quantization,
                keep=list(values.keep or {}),
                image_size=_pair(values.image_size),
                image_mean=values.image_mean or (0.0,),
                image_deviation=values.image_deviation or (1.0,),
                device=values.device,
                workers=values.workers,
                threads=values.threads or 1,
                gpus=values.gpus,
                cluster=values.ray,
                progress=None if report is None else lambda share: report("mapping", share),
            )
        seconds = time.perf_counter() - started
        if values.json:
            print_json({"rows": rows, "seconds": seconds, "output": str(values.output)})
        else:
            print_line(f"{values.output}: {plural(rows, 'row')} in {seconds:.1f} s")
    return 0


def _pair(sizes: Sequence[int] | None) -> Any:
    """Height and width."""
    if sizes is not None and len(sizes) != 2:
        fail("--image-size: expected HEIGHTxWIDTH")
    return None if sizes is None else (int(sizes[0]), int(sizes[1]))
