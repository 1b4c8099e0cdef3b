"""The command line: ``opendml run``, ``check``, ``ops``, ``explain`` and ``profile``.

Exit status: 0 success; 1 the model was read and is invalid (``check``); 2 the input cannot be used. Results go to
standard output, errors and progress to standard error.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from opendml.description.errors import OpendmlError

# Everything else is imported by the command that needs it: `opendml --help` must answer at once.
if TYPE_CHECKING:
    from rich.table import Table

    from opendml.description.descriptors import TensorSupport
    from opendml.formats.dxdispatch import Model
    from opendml.formats.dxdispatch.executor import Progress
    from opendml.operators.catalogue import CatalogueEntry, SupportByLevel

__all__ = ["app", "main"]


def _option(*names: str, metavar: str | None = None, help: str, minimum: int | None = None) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, min=minimum)


_MODEL_HELP = "A model in DxDispatch's format, or a serialised graph, *.bin."
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL.json", help=_MODEL_HELP)]
FeatureLevelName = Annotated[
    str, _option("--feature-level", "--dml_feature_level", metavar="LEVEL", help="Feature level, such as 3_0.")
]
InputPath = Annotated[
    Path | None,
    _option("--input_path", metavar="FOLDER", help="Folder of the files the model reads; by default its own."),
]
OutputPath = Annotated[
    Path | None,
    _option("--output_path", metavar="FOLDER", help="Folder of the files it writes; by default the current one."),
]
MemoryLimit = Annotated[
    int, _option("--memory_limit", metavar="MIB", minimum=1, help="The most its resources may take together, in MiB.")
]

app = typer.Typer(
    name="opendml",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def main() -> None:
    """The entry point of the program ``opendml``."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Names in a model may hold what the terminal's encoding does not.
            stream.reconfigure(errors="backslashreplace")
    app()


@app.callback(invoke_without_command=True)
def _program(
    context: typer.Context,
    version: Annotated[bool, _option("--version", help="Print the version.")] = False,
) -> None:
    """DirectML's operators on every machine: checked precisely, compiled, run at hardware speed.

    \b
    Examples:
      opendml run examples/slice1.json
      opendml check model.json --feature-level 3_0
      opendml ops MAX_POOLING1
    """
    if version:
        from opendml._version import __version__

        typer.echo(f"opendml {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise typer.Exit


@app.command()
def run(
    model: Annotated[Path | None, typer.Argument(metavar="MODEL.json", help=_MODEL_HELP)] = None,
    input_path: InputPath = None,
    output_path: OutputPath = None,
    adapter: Annotated[
        str, _option("--adapter", "-a", metavar="TEXT", help="Part of the name of the adapter to run on.")
    ] = "",
    show_adapters: Annotated[bool, _option("--show_adapters", "-s", help="Show all adapters.")] = False,
    feature_level: FeatureLevelName = "6_4",
    threads: Annotated[
        int | None,
        _option("--threads", metavar="N", minimum=1, help="Threads; by default OPENDML_NUM_THREADS, else all."),
    ] = None,
    memory_limit: MemoryLimit = 8192,
    dispatch_iterations: Annotated[
        int,
        _option("--dispatch_iterations", "-i", metavar="N", minimum=1, help="Iterations of binding and dispatching."),
    ] = 1,
    dispatch_repeat: Annotated[
        int, _option("--dispatch_repeat", "-r", metavar="N", minimum=1, help="Dispatches within each iteration.")
    ] = 1,
    milliseconds_to_run: Annotated[
        int | None,
        _option("--milliseconds_to_run", "-t", metavar="MS", minimum=0, help="Iterate for this long instead of -i."),
    ] = None,
    dispatch_interval: Annotated[
        int, _option("--dispatch_interval", "-I", metavar="MS", minimum=0, help="Least time between iterations.")
    ] = 0,
    warmup_samples: Annotated[
        int, _option("--warmup_samples", "-w", metavar="N", minimum=0, help="Iterations left out of hot timings.")
    ] = 1,
    timing_verbosity: Annotated[
        int,
        typer.Option(
            "--timing_verbosity", "-v", metavar="N", min=0, max=2, help="0 hot median; 1 init, cold, hot; 2 everything."
        ),
    ] = 0,
    print_commands: Annotated[bool, _option("--print_commands", help="Announce every command and its end.")] = False,
) -> None:
    """Run a DxDispatch model or a serialised graph.

    Its resources are filled, its operators compiled, its commands executed in order; the whole model is checked
    before anything runs. A graph alone is run once and its outputs are printed; its inputs are read from files such
    as x.npy for an input x, by default beside it, and are zero where there is no file.

    \b
    Examples:
      opendml run model.json                       run once
      opendml run Partition_0.bin                  run a graph that ONNX Runtime has serialised
      opendml run model.json -t 2000 -r 100 -v 1   measure for two seconds, 100 dispatches an iteration
      opendml run -s                               show where models can run
    """
    with _readable_errors(model):
        from opendml.formats.dxdispatch import adapters

        if show_adapters:
            typer.echo("\n\n".join(found.detailed_description for found in adapters.available()))
        if model is None:
            if show_adapters:
                return
            _fail("a model is missing: opendml run MODEL.json")
        selected = adapters.select(adapter)
        level = _feature_level(feature_level)

        from opendml.formats.dxdispatch import Executor, RunOptions, read_model
        from opendml.programs.device import Device

        parsed = read_model(model, input_path=input_path, output_path=output_path, memory_limit=memory_limit << 20)
        typer.echo(f"Running on '{selected.description}'")
        options = RunOptions(
            dispatch_iterations,
            dispatch_repeat,
            milliseconds_to_run,
            dispatch_interval,
            warmup_samples,
            timing_verbosity,
            print_commands,
        )
        with _progress_bar() as progress:
            device = Device(selected.device, feature_level=level, thread_count=threads)
            Executor(parsed, device, options, sys.stdout, progress).run()


@app.command()
def check(model: ModelPath, feature_level: FeatureLevelName = "6_4", input_path: InputPath = None) -> None:
    """List all that is wrong with a model.

    Every violation of every operator at a feature level is listed, each with its path in the file; nothing runs.
    Exit status: 0 valid, 1 invalid operators, 2 anything else that is wrong.

    \b
    Example:
      opendml check model.json --feature-level 3_0
    """
    with _readable_errors(model):
        from opendml.formats.dxdispatch import check_model
        from opendml.formats.dxdispatch.checking import violation_line
        from opendml.formats.dxdispatch.printing import printable

        level = _feature_level(feature_level)
        parsed = _read(model, input_path)
        report = check_model(parsed, level)
        for name, violations in report.violations.items():
            for violation in violations:
                typer.echo(printable(violation_line(parsed.dispatchables[name], violation)))
        for problem in report.binding_problems:
            typer.echo(printable(str(problem)))
        count = sum(map(len, report.violations.values())) + len(report.binding_problems)
        operators = sum(entry.operator_count for entry in parsed.dispatchables.values())
        if not count:
            typer.echo(f"valid at feature level {level}: {_plural(operators, 'operator')}")
            return
        typer.echo(f"{_plural(count, 'violation')} at feature level {level}", err=True)
        raise typer.Exit(2 if report.binding_problems else 1)


@app.command()
def ops(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="An operator, such as SLICE1.")] = None,
) -> None:
    """Show the operators, or all about one of them.

    \b
    Examples:
      opendml ops          all operators
      opendml ops SLICE1   its fields, and the ranks and data types that each feature level supports
    """
    with _readable_errors(None):
        from opendml.operators.catalogue import catalogue

        if name is None:
            _show_catalogue(list(catalogue.values()))
        else:
            _show_operator(catalogue[name])


@app.command()
def explain(
    model: ModelPath,
    llvm: Annotated[bool, _option("--llvm", help="Print the LLVM code as well.")] = False,
    assembly: Annotated[bool, _option("--asm", help="Print the machine code as well.")] = False,
    input_path: InputPath = None,
) -> None:
    """Show how operators are computed.

    For every operator of a model or of a serialised graph: the descriptor, the expressions, the kernels and, on demand,
    the code.

    \b
    Example:
      opendml explain model.json --llvm
    """
    with _readable_errors(model):
        from opendml.description.graph_desc import GraphDesc
        from opendml.formats.dxdispatch.checking import check_operator
        from opendml.formats.dxdispatch.printing import printable
        from opendml.inspection.explanation import explain_graph, explain_operator

        for name, dispatchable in _read(model, input_path).dispatchables.items():
            check_operator(dispatchable)
            typer.echo(f"# {printable(name)}")
            desc = dispatchable.desc
            if isinstance(desc, GraphDesc):
                typer.echo(printable(explain_graph(desc, llvm=llvm, assembly=assembly)))
            else:
                typer.echo(explain_operator(desc, llvm=llvm, assembly=assembly))


@app.command()
def profile(
    model: ModelPath,
    page: Annotated[
        Path | None, _option("--html", metavar="FILE", help="Write a page with the fused graph drawn.")
    ] = None,
    trace: Annotated[Path | None, _option("--trace", metavar="FILE", help="Write a trace in Chrome's format.")] = None,
    threads: Annotated[
        int | None,
        _option("--threads", metavar="N", minimum=1, help="Threads; by default OPENDML_NUM_THREADS, else all."),
    ] = None,
    milliseconds_to_run: Annotated[
        int, _option("--milliseconds_to_run", "-t", metavar="MS", minimum=0, help="How long each dispatch repeats.")
    ] = 500,
    input_path: InputPath = None,
    memory_limit: MemoryLimit = 8192,
) -> None:
    """Show where the time of a model or of a serialised graph goes.

    Every dispatch is repeated. For each kernel there are its time, the bytes that it moves and its floating-point
    operations, beside what this machine can do: copies of as many bytes, and fused multiply-adds.

    \b
    Example:
      opendml profile model.json --html profile.html --trace trace.json
    """
    with _readable_errors(model):
        from opendml.formats.dxdispatch import Executor, read_model
        from opendml.formats.files import write_bytes
        from opendml.inspection.profile_page import page as page_of
        from opendml.inspection.profile_table import clean, profile_table, summary
        from opendml.inspection.profiling import profile_bound, trace_of
        from opendml.programs.device import Device

        parsed = read_model(model, input_path=input_path, memory_limit=memory_limit << 20)
        with _progress_bar() as progress:
            executor = Executor(parsed, Device(thread_count=threads), progress=progress)
        profiles = [
            profile_bound(program, bind, seconds=milliseconds_to_run / 1000, title=name)
            for name, program, bind in executor.dispatches()
        ]
        if not profiles:
            _fail(f"{model}: there is no dispatch command, so there is nothing to profile")
        for found in profiles:
            typer.echo("\n".join([f"# {clean(found.title)}", *summary(found)]))
            _print_table(profile_table(found))
        if page is not None:
            write_bytes(page, page_of(profiles).encode())
        if trace is not None:
            write_bytes(trace, trace_of(profiles).encode())


def _read(path: Path, input_path: Path | None) -> Model:
    from opendml.formats.dxdispatch import read_model

    # Nothing is allocated, so there is nothing to limit.
    return read_model(path, input_path=input_path, memory_limit=sys.maxsize)


def _feature_level(name: str) -> str:
    """A level as the package spells it, ``3_0``; DxDispatch spells it ``3.0``."""
    from opendml.description.enums import FeatureLevel

    try:
        return str(FeatureLevel.parse(name))
    except OpendmlError as error:
        _fail(f"--feature-level: {error}")


@contextlib.contextmanager
def _readable_errors(model: Path | None) -> Iterator[None]:
    """Report the package's errors, and those of the operating system, as one message and exit status 2."""
    try:
        yield
    except OpendmlError as error:
        _fail(f"{model}: {error}" if model is not None else str(error))
    except BrokenPipeError:
        # The reader has gone, `opendml ops | head` for instance: nothing is left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except MemoryError:
        _fail("out of memory")
    except OSError as error:
        _fail(f"{error.filename or model}: {error.strerror or error}")


def _fail(message: str) -> NoReturn:
    from opendml.formats.dxdispatch.printing import printable

    sys.stdout.flush()
    typer.secho("error: ", nl=False, err=True, fg="red", bold=True)
    typer.echo(printable(message), err=True)
    raise typer.Exit(2)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@contextlib.contextmanager
def _progress_bar() -> Iterator[Progress | None]:
    """Something to tell how far a compilation or a dispatch is, drawn on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from opendml.formats.dxdispatch.printing import printable

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
    )
    task = bar.add_task("", total=1.0)

    def report(name: str, share: float) -> None:
        if share >= 1:
            bar.stop()
        else:
            bar.update(task, completed=share, description=printable(name))
            bar.start()

    try:
        yield report
    finally:
        bar.stop()


def _show_catalogue(entries: list[CatalogueEntry]) -> None:
    table = _table("Operator", "Since", "Summary")
    for entry in entries:
        table.add_row(entry.name, str(entry.since), entry.summary)
    _print_table(table)


def _show_operator(entry: CatalogueEntry) -> None:
    in_place = "; can run in place" if entry.in_place else ""
    typer.echo(f"{entry.name} ({entry.struct}), since feature level {entry.since}{in_place}")
    typer.echo(f"{entry.summary}\n")
    table = _table("Field", "Role", "Kind", "In Python")
    for field in entry.fields:
        table.add_row(
            field.name, field.role + (", optional" if field.is_optional else ""), field.kind, field.python_name
        )
    _print_table(table)
    for field in entry.fields:
        if field.fusable:
            fusable = ", ".join(
                operator.name + (f" ({since})" if since > entry.since else "")
                for operator, since in field.fusable.items()
            )
            typer.echo(f"{field.name} may be: {fusable}\n")
    if entry.support_variants:
        for variant, support in entry.support_variants.items():
            typer.echo(f"{variant}:")
            _show_support(support)
    else:
        _show_support(entry.support)


def _show_support(support: SupportByLevel) -> None:
    """A row for each level and each set of tensors that is supported alike."""
    table = _table("Level", "Tensors", "Ranks", "Data types")
    for level, tensors in support.items():
        groups: dict[TensorSupport, list[str]] = {}
        for name, supported in tensors.items():
            groups.setdefault(supported, []).append(name)
        for supported, names in groups.items():
            ranks = sorted({supported.minimum_rank, supported.maximum_rank})
            table.add_row(
                f"{level} on",
                "all" if len(groups) == 1 else ", ".join(names),
                " to ".join(map(str, ranks)),
                ", ".join(data_type.name for data_type in supported.data_types),
            )
    _print_table(table)


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    return Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)


def _print_table(table: Table) -> None:
    from rich.console import Console

    # Where nobody looks, for instance in a pipe, there is no width to keep to.
    Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 200).print(table)
