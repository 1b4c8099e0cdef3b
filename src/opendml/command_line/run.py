"""``opendml run``: a model from beginning to end."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from opendml.command_line.commands import DXDISPATCH_OPTIONS
from opendml.command_line.models import feature_level, note_meaningless, onnx_choices
from opendml.command_line.onnx_models import is_onnx
from opendml.command_line.onnx_models import run as run_onnx
from opendml.command_line.output import fail, print_json, print_line, progress_bar, readable_errors

__all__ = ["execute"]


def execute(values: Namespace) -> int:
    """Run the model that the command line names."""
    if values.file is not None and values.model is not None:
        fail("a model is given twice, by place and by --model")
    model = values.model if values.file is None else values.file
    note_meaningless(DXDISPATCH_OPTIONS, values)
    with readable_errors(model, values.json):
        if values.show_dependencies:
            _show_dependencies()
        if values.show_adapters:
            _show_adapters()
        if model is not None and is_onnx(model):
            run_onnx(values, model)
        elif model is not None:
            _run(values, model)
        elif not values.show_adapters and not values.show_dependencies:
            fail("a model is missing: opendml run MODEL.json")
    return 0


def _run(values: Namespace, model: Path) -> None:
    from opendml.formats.dxdispatch import Executor, RunOptions, adapters
    from opendml.formats.dxdispatch.reports import JsonReport, TextReport
    from opendml.formats.models import read_model
    from opendml.programs.device import Device

    adapter = adapters.select(values.adapter, values.device)
    level = feature_level(values.feature_level)
    limit = values.memory_limit << 20
    parsed = read_model(
        model,
        input_path=values.input_path,
        output_path=values.output_path,
        memory_limit=limit,
        onnx=onnx_choices(values),
        feature_level=level,
    )
    options = RunOptions(
        values.dispatch_iterations,
        values.dispatch_repeat,
        values.milliseconds_to_run,
        values.dispatch_interval,
        values.warmup_samples,
        values.timing_verbosity,
        values.print_commands,
    )
    report = JsonReport(options) if values.json else TextReport(options, sys.stdout)
    report.started(adapter.description)
    with progress_bar() as progress:
        device = Device(adapter.device, feature_level=level, thread_count=values.threads)
        Executor(parsed, device, options, report, progress).run()
    if isinstance(report, JsonReport):
        print_json(report.content)


def _show_adapters() -> None:
    from opendml.formats.dxdispatch import adapters

    print_line("\n\n".join(found.detailed_description for found in adapters.available()))


def _show_dependencies() -> None:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from opendml._version import __version__

    def known(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "not installed"

    packages = {"opendml": __version__, "Python": platform.python_version()}
    packages |= {package: known(package) for package in ("numpy", "llvmlite", "pillow")}
    for name, found in packages.items():
        print_line(f"{name.ljust(8)} : {found}")
