"""The commands: their arguments, options, help and examples."""

from __future__ import annotations

from typing import Final

from opendml.command_line.parsing import (
    Command,
    Option,
    dimension,
    entry,
    files,
    names,
    number,
    numbers,
    path,
    several,
    shape,
    sizes,
)

__all__ = ["COMMANDS", "SHELLS", "overview"]

SHELLS: Final = ("bash", "zsh", "fish")

MODEL_HELP = "A model in DxDispatch's format, a serialised graph, *.bin, or an ONNX model, *.onnx or its texts."
MODEL = Option(("model",), MODEL_HELP, "MODEL", path, required=True, completes="files")
FEATURE_LEVEL = Option(
    ("--feature-level", "--dml_feature_level"),
    "Feature level, such as 3_0; by default 6_4.",
    "LEVEL",
    default="6_4",
    completes="feature levels",
)
INPUT_PATH = Option(
    ("--input_path",), "Folder of the files the model reads; by default its own.", "FOLDER", path, completes="folders"
)
OUTPUT_PATH = Option(
    ("--output_path",),
    "Folder of the files it writes; by default the current one.",
    "FOLDER",
    path,
    completes="folders",
)
MEMORY_LIMIT = Option(
    ("--memory_limit",),
    "The most that its resources and the temporaries of its operators may take together, in MiB; by default 8192.",
    "MIB",
    number(1),
    8192,
)
DEVICES: Final = ("cpu", "reference", "opencl")
DEVICE = Option(
    ("--device",),
    "cpu; reference: the interpreter, for a second opinion; opencl, opencl:1 ... as --show_adapters lists them.",
    "NAME",
    completes=DEVICES,
)
COMPILED_DEVICE = Option(
    ("--device",),
    "cpu, or opencl:0; the reference device has no kernels.",
    "NAME",
    default="cpu",
    completes=("cpu", "opencl"),
)
SIZE = Option(
    ("--size",),
    "Sizes that an ONNX model leaves open: of dimensions and of inputs, such as batch=1,image=1x3x480x640.",
    "NAME=SIZE",
    sizes,
    merges=True,
)
VALUE = Option(
    ("--value",),
    "Values of an ONNX model's inputs that decide sizes or branches, such as sr=16000 or shape=2x3.",
    "NAME=NUMBER",
    numbers,
    merges=True,
)
INPUT = Option(
    ("--input",),
    "What an input of an ONNX model is read from: x=x.npy, x=all.npz, x=cat.png, x=random, or all.npz for all.",
    "NAME=FILE",
    files,
    merges=True,
)
OUTPUT = Option(
    ("--output",),
    "Where the outputs of an ONNX model are written, such as results.npz.",
    "FILE",
    path,
    completes="files",
)
NARROW = Option(("--narrow-float64",), "Compute in float32 what has no float64, in an ONNX model.")
PLAIN = Option(
    ("--no-fuse-quantization",),
    "Compute between DequantizeLinear and QuantizeLinear in float32, as an ONNX model's file says.",
)
THREADS = Option(("--threads",), "Threads; by default OPENDML_NUM_THREADS, else all.", "N", number(1, 1 << 20))


def _json(what: str) -> Option:
    return Option(("--json",), f"Print {what} as one JSON document.")


_DIRECTX = "There is no Direct3D underneath."
_HLSL = "HLSL dispatchables are not supported."
_ONNX = "It is an option of ONNX Runtime, which is not underneath."

DXDISPATCH_OPTIONS: Final = (
    Option(
        ("--debug", "-d"), means_nothing="Every descriptor and binding is always checked as the debug layers would."
    ),
    Option(("--queue_type", "-q"), metavar="TYPE", means_nothing=_DIRECTX),
    Option(("--clear_shader_caches",), means_nothing="OPENDML_CACHE=0 compiles anew."),
    Option(("--disable_gpu_timeout",), means_nothing=_DIRECTX),
    Option(("--disable_background_processing",), means_nothing=_DIRECTX),
    Option(("--set_stable_power_state",), means_nothing=_DIRECTX),
    Option(("--disable_agility_sdk",), means_nothing=_DIRECTX),
    Option(("--post_dispatch_barriers",), metavar="TYPES", means_nothing="A dispatch is over when it returns."),
    Option(("--max_gpu_time_measurements",), metavar="N", means_nothing="Times are those of the processor."),
    Option(("--pix_capture_type", "-c"), metavar="TYPE", means_nothing="opendml profile shows where time goes."),
    Option(("--pix_capture_name", "-o"), metavar="NAME", means_nothing="opendml profile shows where time goes."),
    Option(("--print_hlsl_disassembly",), means_nothing=_HLSL),
    Option(("--xbox_allow_precompile",), means_nothing=_HLSL),
    Option(("--onnx_logging_level", "-L"), metavar="LEVEL", means_nothing=_ONNX),
    Option(("--enable_ort_extensions", "-x"), means_nothing=_ONNX),
    Option(("--enable_onnx_profiling",), means_nothing=_ONNX),
)
"""Options of DxDispatch that change nothing in what is computed here."""

ONNX_OPTIONS: Final = (
    Option(
        ("--onnx_free_dim_name_override", "-f"),
        "As --size, as DxDispatch writes it: the size of dimensions of a name, N:2.",
        "NAME:SIZE",
        dimension,
        merges=True,
    ),
    Option(
        ("--onnx_free_dim_denotation_override", "-F"),
        "The size of dimensions of a denotation, such as DATA_BATCH:8.",
        "NAME:SIZE",
        dimension,
        merges=True,
    ),
    Option(
        ("--binding_shape", "-b"),
        "As --size, as DxDispatch writes it: the sizes of an input, image:1,3,480,640.",
        "NAME:SIZES",
        shape,
        merges=True,
    ),
    Option(
        ("--onnx_session_config_entry", "-e"),
        "An entry of ONNX Runtime's configuration: session.disable_quant_qdq:1 is --no-fuse-quantization, others "
        "change nothing.",
        "KEY:VALUE",
        entry,
        merges=True,
    ),
    Option(
        ("--onnx_graph_optimization_level", "-l"),
        "ONNX Runtime's level: 0 and 1 are --no-fuse-quantization, 2 and 99 change nothing.",
        "LEVEL",
        number(0),
        99,
    ),
    Option(("--print_onnx_bindings", "-p"), "Show types and sizes of the inputs and outputs of an ONNX model."),
)
"""Options of DxDispatch for ONNX models."""

RUN = Command(
    "run",
    "opendml.command_line.run",
    "Run a DxDispatch model, a serialised graph or an ONNX model.",
    """Run a DxDispatch model, a serialised graph or an ONNX model.

Its resources are filled, its operators compiled, its commands executed in order; the whole model is checked
before anything runs. A graph alone is run once and its outputs are printed; its inputs are read from files such
as x.npy for an input x, by default beside it, and are zero where there is no file. Options are DxDispatch's.""",
    (
        ("opendml run model.json", "run once"),
        ("opendml run Partition_0.bin", "run a graph that ONNX Runtime has serialised"),
        ("opendml run model.onnx --size batch=1", "run an ONNX model on x.npy for each input x"),
        ("opendml run model.json -t 2000 -r 100 -v 1", "measure for two seconds, 100 dispatches an iteration"),
        ("opendml run model.json --device reference", "what the operators' definitions give, interpreted"),
        ("opendml run model.json --json", "timings and printed resources for a program to read"),
        ("opendml run -s", "show where models can run"),
    ),
    (
        Option(("file",), MODEL_HELP, "MODEL", path, completes="files"),
        Option(("--model", "-m"), "The model, as DxDispatch is given it.", "MODEL", path, completes="files"),
        INPUT_PATH,
        INPUT,
        SIZE,
        VALUE,
        OUTPUT,
        NARROW,
        PLAIN,
        OUTPUT_PATH,
        Option(("--adapter", "-a"), "Part of the name of the adapter to run on.", "TEXT", default=""),
        DEVICE,
        Option(("--show_adapters", "-s"), "Show all adapters."),
        Option(("--show_dependencies", "-S"), "Show the versions of what opendml is made of."),
        FEATURE_LEVEL,
        THREADS,
        MEMORY_LIMIT,
        Option(("--dispatch_iterations", "-i"), "Iterations of binding and dispatching.", "N", number(1), 1),
        Option(("--dispatch_repeat", "-r"), "Dispatches within each iteration.", "N", number(1), 1),
        Option(("--milliseconds_to_run", "-t"), "Iterate for this long; overrides -i.", "MS", number(0)),
        Option(("--dispatch_interval", "-I"), "Least time between iterations.", "MS", number(0), 0),
        Option(("--warmup_samples", "-w"), "Iterations left out of hot timings; by default 1.", "N", number(0), 1),
        Option(
            ("--timing_verbosity", "-v"),
            "0 hot median; 1 init, cold, hot; 2 everything.",
            "N",
            number(0, 2),
            0,
            completes=("0", "1", "2"),
        ),
        Option(("--print_commands",), "Announce every command and its end."),
        _json("timings, printed resources and written files"),
        *ONNX_OPTIONS,
        *DXDISPATCH_OPTIONS,
    ),
)

CHECK = Command(
    "check",
    "opendml.command_line.check",
    "List all that is wrong with a model.",
    """List all that is wrong with a model.

Every violation of every operator at a feature level is listed, each with its path in the file; nothing runs.
Exit status: 0 valid, 1 invalid operators, 2 anything else that is wrong.""",
    (
        ("opendml check model.json", "at the newest feature level"),
        ("opendml check model.json --feature-level 3_0", "what would an older device refuse?"),
        ("opendml check model.json --json", "the same for a program to read"),
    ),
    (
        MODEL,
        FEATURE_LEVEL,
        INPUT_PATH,
        SIZE,
        VALUE,
        NARROW,
        PLAIN,
        Option(DEVICE.names, metavar="NAME", means_nothing="Every device judges models alike.", completes=DEVICES),
        _json("operators, violations and problems of bindings"),
    ),
)

OPS = Command(
    "ops",
    "opendml.command_line.ops",
    "Show the operators, or all about one of them.",
    "Show the operators, or all about one of them.",
    (
        ("opendml ops", "all operators"),
        ("opendml ops SLICE1", "its fields, and the ranks and data types that each feature level supports"),
        ("opendml ops --json", "the whole catalogue for a program to read"),
    ),
    (
        Option(("name",), "An operator, such as SLICE1.", "NAME", completes="operators"),
        _json("the catalogue"),
    ),
)

EXPLAIN = Command(
    "explain",
    "opendml.command_line.explain",
    "Show how operators are computed.",
    """Show how operators are computed.

For every operator of a model or of a serialised graph: the descriptor, the expressions, the kernels and, on demand,
the code.""",
    (
        ("opendml explain model.json", "descriptors, expressions, kernels"),
        ("opendml explain model.json --llvm", "the LLVM code as well"),
    ),
    (
        MODEL,
        Option(("--llvm",), "Print the LLVM code as well."),
        Option(("--asm",), "Print the machine code as well."),
        INPUT_PATH,
        SIZE,
        VALUE,
        NARROW,
        PLAIN,
        COMPILED_DEVICE,
        _json("the explanation of each operator"),
    ),
)

PROFILE = Command(
    "profile",
    "opendml.command_line.profile",
    "Show where the time of a model or of a serialised graph goes.",
    """Show where the time of a model or of a serialised graph goes.

Every dispatch is repeated. For each kernel there are its time, the bytes that it moves and its floating-point
operations, beside what this machine can do, where that is known: copies of as many bytes, and fused multiply-adds.""",
    (
        ("opendml profile model.json", "a table of kernels"),
        ("opendml profile model.json --html profile.html --trace trace.json", "a page, and a trace for Perfetto"),
        ("opendml profile model.json --json", "the same for a program to read"),
    ),
    (
        MODEL,
        Option(("--html",), "Write a page with the fused graph drawn.", "FILE", path, completes="files"),
        Option(("--trace",), "Write a trace in Chrome's format.", "FILE", path, completes="files"),
        THREADS,
        Option(
            ("--milliseconds_to_run", "-t"), "How long each dispatch repeats; by default 500.", "MS", number(0), 500
        ),
        INPUT_PATH,
        SIZE,
        VALUE,
        NARROW,
        PLAIN,
        COMPILED_DEVICE,
        MEMORY_LIMIT,
        _json("kernels with times, bytes and operations"),
    ),
)

MAP = Command(
    "map",
    "opendml.command_line.map",
    "Run an ONNX model over a data set.",
    """Run an ONNX model over a data set: Parquet files, NumPy arrays or a folder of images.

Batches run side by side on all processors, or on a cluster of Ray. The output is a new folder, which appears whole
or not at all, with the rows in the order of the inputs.""",
    (
        ("opendml map model.onnx photos/ --output results", "all images of a folder, and their paths"),
        ("opendml map model.onnx rows.parquet --output results --keep id", "rows of a table, with a column of it"),
        ("opendml map model.onnx x.npy --output results --format parquet", "rows of an array"),
        ("opendml map model.onnx rows/ --output results --ray auto", "on the cluster of Ray that this machine is in"),
    ),
    (
        Option(
            ("model",),
            "An ONNX model; the first dimension of its inputs is the batch.",
            "MODEL",
            path,
            required=True,
            completes="files",
        ),
        Option(
            ("inputs",),
            "A .parquet, .npy or .npz file, or a folder of these or of images.",
            "INPUTS",
            path,
            required=True,
            completes="files",
        ),
        Option(("--output",), "The folder of the results, a new one.", "DIR", path, required=True, completes="folders"),
        Option(("--format",), "parquet or npy; by default parquet for Parquet.", "NAME", completes=("parquet", "npy")),
        Option(("--batch",), "Rows of a batch; by default the model's, else 32.", "N", number(1)),
        Option(("--column",), "Columns of the inputs, such as x=image.", "INPUT=COLUMN", names, merges=True),
        VALUE,
        NARROW,
        PLAIN,
        Option(("--keep",), "Columns that the results keep, such as id,label.", "COLUMN", names, merges=True),
        Option(("--image-size",), "Sizes of images; by default the model's.", "HEIGHTxWIDTH", several(number(1), "x")),
        Option(
            ("--image-mean",), "What is subtracted from pixels from 0 to 1, by channel.", "NUMBERS", several(float, ",")
        ),
        Option(("--image-deviation",), "What they are then divided by.", "NUMBERS", several(float, ",")),
        Option(DEVICE.names, "Where it runs; by default cpu.", "NAME", default="cpu", completes=DEVICES),
        Option(
            ("--workers",),
            "Batches that run side by side; by default as many as there are processors.",
            "N",
            number(1, 1 << 20),
        ),
        Option(("--threads",), "Threads of each of Ray's workers; by default 1.", "N", number(1, 1 << 20)),
        Option(("--gpus",), "GPUs of each of Ray's workers; by default 0.", "N", number(0, 64), 0),
        Option(("--ray",), "Use Ray: a cluster's address, auto, or local for one of its own.", "ADDRESS"),
        _json("rows and seconds"),
    ),
)

COMPLETION = Command(
    "completion",
    "opendml.command_line.completion",
    "Print what makes a shell complete commands, options and operators.",
    """Print what makes a shell complete commands, options and operators.

Load it from the shell's start-up file.""",
    (
        ('eval "$(opendml completion bash)"', "in ~/.bashrc"),
        ('eval "$(opendml completion zsh)"', "in ~/.zshrc, after compinit"),
        ("opendml completion fish | source", "in ~/.config/fish/config.fish"),
    ),
    (Option(("shell",), "bash, zsh or fish.", "SHELL", required=True, completes=SHELLS),),
)

COMMANDS: Final = {command.name: command for command in (RUN, CHECK, OPS, EXPLAIN, PROFILE, MAP, COMPLETION)}


def overview() -> str:
    """What ``opendml --help`` prints."""
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {command.name.ljust(width)}   {command.summary}" for command in COMMANDS.values())
    return f"""Usage: opendml COMMAND [ARGUMENTS]

DirectML's operators on every machine: checked precisely, compiled, run at hardware speed.

Examples:
  opendml run examples/slice1.json
  opendml check model.json --feature-level 3_0
  opendml ops MAX_POOLING1

Commands:
{commands}

Options:
  --version    Print the version.
  -h, --help   Show this, or with a command all about it.
"""
