"""``opendml profile``: where the time of a model goes."""

from __future__ import annotations

from argparse import Namespace

from opendml.command_line.models import device_with_kernels
from opendml.command_line.output import fail, print_json, print_line, print_table, progress_bar, readable_errors

__all__ = ["execute"]


def execute(values: Namespace) -> int:
    """Profile every dispatch of the model."""
    with readable_errors(values.model, values.json):
        from opendml.description.file_access import write_bytes
        from opendml.formats.dxdispatch import Executor
        from opendml.formats.models import read_model
        from opendml.inspection.profile_files import as_json, trace_of
        from opendml.inspection.profile_page import page
        from opendml.inspection.profile_table import clean, profile_table, summary
        from opendml.inspection.profiling import profile_bound

        device = device_with_kernels(values.device, "profile", values.threads)
        limit = values.memory_limit << 20
        model = read_model(
            values.model,
            input_path=values.input_path,
            memory_limit=limit,
            sizes=values.size,
            values=values.value,
            narrow_float64=values.narrow_float64,
        )
        with progress_bar() as progress:
            executor = Executor(model, device, progress=progress)
        profiles = [
            profile_bound(program, bind, seconds=values.milliseconds_to_run / 1000, title=name)
            for name, program, bind in executor.dispatches()
        ]
        if not profiles:
            fail(f"{values.model}: there is no dispatch command, so there is nothing to profile")
        if values.json:
            print_json([as_json(found) for found in profiles])
        else:
            for found in profiles:
                print_line("\n".join([f"# {clean(found.title)}", *summary(found)]))
                print_table(profile_table(found))
        if values.html is not None:
            write_bytes(values.html, page(profiles).encode("utf-8", "replace"))
        if values.trace is not None:
            write_bytes(values.trace, trace_of(profiles).encode())
    return 0
