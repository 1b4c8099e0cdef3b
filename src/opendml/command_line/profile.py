"""``opendml profile``: where the time of a model goes."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING, Any

from opendml.command_line.models import device_with_kernels, onnx_choices
from opendml.command_line.onnx_models import whole_or_in_parts
from opendml.command_line.output import fail, note, print_json, print_line, print_table, progress_bar, readable_errors

if TYPE_CHECKING:
    from opendml.formats.onnx.staging import StagedProgram
    from opendml.inspection.profiling import Profile
    from opendml.programs.device import Device

__all__ = ["execute"]


def execute(values: Namespace) -> int:
    """Profile every dispatch of the model."""
    with readable_errors(values.model, values.json):
        from opendml.description.file_access import write_bytes
        from opendml.inspection.profile_files import as_json, trace_of
        from opendml.inspection.profile_page import page
        from opendml.inspection.profile_table import clean, profile_table, summary

        device = device_with_kernels(values.device, "profile", values.threads)
        seconds = values.milliseconds_to_run / 1000
        profiles = whole_or_in_parts(
            values,
            device,
            partial(_of_dispatches, values, device, seconds),
            partial(_of_parts, seconds),
        )
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


def _of_dispatches(values: Namespace, device: Device, seconds: float) -> list[Profile]:
    """The profiles of all dispatches of a model."""
    from opendml.formats.dxdispatch import Executor
    from opendml.formats.models import read_model
    from opendml.inspection.profiling import profile_bound

    model = read_model(
        values.model,
        input_path=values.input_path,
        memory_limit=values.memory_limit << 20,
        onnx=onnx_choices(values),
    )
    with progress_bar() as progress:
        executor = Executor(model, device, progress=progress)
    dispatches = [*executor.dispatches()]
    if not dispatches:
        fail(f"{values.model}: there is no dispatch command, so there is nothing to profile")
    return [profile_bound(program, bind, seconds=seconds, title=name) for name, program, bind in dispatches]


def _of_parts(seconds: float, program: StagedProgram, arrays: dict[str, Any]) -> list[Profile]:
    """The profiles of the programs of an ONNX model that the host drives."""
    from opendml.inspection.profiling import StagedProfile, profile_of_model, staged_summary

    found = profile_of_model(program, arrays, seconds)
    assert isinstance(found, StagedProfile)
    note("\n".join(staged_summary(found)))
    return list(found.parts)
