"""Runs onnx's own tests of operators through the importer, and says what has passed, what is refused and why.

    python tools/onnx_node_tests.py                     # all of them
    python tools/onnx_node_tests.py --only Resize Pad   # those whose names contain one of these
    python tools/onnx_node_tests.py --list docs/reference/onnx_tests.md   # writes the page of what is refused

A test passes if all outputs have the expected type, sizes and values within the tolerances that the test states. A
refusal is a ModelFormatError before anything runs, also with ``narrow_float64``. Anything else has failed, and then
the exit code is 1.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import opendml as dml
from opendml.formats import onnx as onnx_format

PASSED, REFUSED, FAILED = "passed", "refused", "failed"


@dataclass
class Outcome:
    """What became of a test."""

    name: str
    state: str
    reasons: list[str] = field(default_factory=list)
    narrowed: bool = False


def load_tests(only: list[str]) -> list[Any]:
    """onnx's tests of single operators, those whose names contain one of the words."""
    from onnx.backend.test.loader import load_node_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = load_node_model_tests()
    words = [word.lower() for word in only]
    return [test for test in tests if not words or any(word in test.name for word in words)]


def outcome_of(test: Any, device: dml.Device) -> Outcome:
    """Runs a test; what is refused for FLOAT64 is run in FLOAT32."""
    found = _outcome(test, device, narrows=False)
    if found.state != REFUSED:
        return found
    narrowed = _outcome(test, device, narrows=True)
    return found if narrowed.state == REFUSED else replace(narrowed, narrowed=True)


def _outcome(test: Any, device: dml.Device, narrows: bool) -> Outcome:
    try:
        model = onnx_format.read_bytes(test.model.SerializeToString())
        names = [info.name for info in model.inputs]
        for inputs, expected in test.data_sets:
            given = {name: _as_array(value) for name, value in zip(names, inputs, strict=True)}
            results = model.run(given, device=device, narrow_float64=narrows)
            problems = [
                problem
                for (name, result), value in zip(results.items(), expected, strict=True)
                if (problem := _difference(name, result, _as_array(value), test))
            ]
            if problems:
                return Outcome(test.name, FAILED, problems)
    except dml.ModelFormatError as error:
        return Outcome(test.name, REFUSED, [str(problem) for problem in error.problems])
    except Exception as error:  # whatever it is, it is a failure
        return Outcome(test.name, FAILED, [f"{type(error).__name__}: {error}".split("\n")[0]])
    return Outcome(test.name, PASSED)


def _as_array(value: Any) -> Any:
    import onnx

    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def _difference(name: str, result: Any, expected: Any, test: Any) -> str:
    """How an output differs from the expected one; nothing if it does not."""
    if not isinstance(expected, np.ndarray):
        return f"{name}: expected a {type(expected).__name__}"
    if result.dtype != expected.dtype or result.shape != expected.shape:
        return f"{name}: {result.dtype} {list(result.shape)}, expected {expected.dtype} {list(expected.shape)}"
    try:
        # Sums of float32 whose exact value is 0, which are noise in what is expected.
        noise = float(np.abs(expected).max()) * float(np.finfo(np.float32).eps) if "_dft" in test.name else 0.0
        # Two roundings of float16 are more than the tests' usual tolerance of a thousandth.
        rtol = max(test.rtol, 2 * float(np.finfo(np.float16).eps)) if expected.dtype == np.float16 else test.rtol
        np.testing.assert_allclose(result, expected, rtol=rtol, atol=max(test.atol, noise))
    except AssertionError as error:
        return f"{name}: " + " ".join(str(error).split())[:160]
    return ""


def table_of(outcomes: list[Outcome]) -> str:
    """What is refused and why, as a page in Markdown: the first reason of each test, and how many tests have it."""
    import onnx

    counts = collections.Counter(outcome.state for outcome in outcomes)
    narrowed = sum(outcome.narrowed for outcome in outcomes)
    tests: dict[str, list[str]] = collections.defaultdict(list)
    for outcome in outcomes:
        if outcome.state == REFUSED:
            reason = re.sub(r"^(as )?([\w.:]+) '[^']*'", r"\2", outcome.reasons[0])
            tests[re.sub(r"'[^']*'(?=:)", "", reason).replace("|", "\\|")].append(outcome.name.removeprefix("test_"))
    lines = [
        "# ONNX's tests of operators",
        "",
        "<!-- Written by tools/onnx_node_tests.py --list. -->",
        "",
        f"Of the {len(outcomes)} tests of single operators of onnx {onnx.__version__}, {counts[PASSED]} pass and "
        f"{counts[REFUSED]} are refused before anything runs; {counts[FAILED]} fail. {narrowed} of those that pass are "
        "on float64 and computed in float32 with `narrow_float64=True`. These are the first reasons of the others:",
        "",
        "| reason | tests | for example |",
        "| --- | ---: | --- |",
        *(
            f"| {reason} | {len(names)} | {names[0]} |"
            for reason, names in sorted(tests.items(), key=lambda item: (-len(item[1]), item[0]))
        ),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], help="words, one of which a test's name contains")
    parser.add_argument(
        "--device", default="reference", help="reference, the interpreter, which needs no compiling, or cpu"
    )
    parser.add_argument("--list", type=Path, help="write the page of what is refused here")
    options = parser.parse_args()
    device = dml.Device(options.device)
    outcomes = []
    for test in load_tests(options.only):
        outcomes.append(outcome_of(test, device))
        if outcomes[-1].state == FAILED:
            print(f"{test.name}: {'; '.join(outcomes[-1].reasons)}", flush=True)
    counts = collections.Counter(outcome.state for outcome in outcomes)
    kinds = collections.Counter(
        re.sub(r"'[^']*'|\d+", "*", reason)[:150]
        for one in outcomes
        if one.state == REFUSED
        for reason in one.reasons[:1]
    )
    for kind, count in kinds.most_common():
        print(f"{count:5}  {kind}")
    print(", ".join(f"{counts[state]} {state}" for state in (PASSED, REFUSED, FAILED)))
    if options.list is not None:
        options.list.write_text(table_of(outcomes), encoding="utf-8")
    return 1 if counts[FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
