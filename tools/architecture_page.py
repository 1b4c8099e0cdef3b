"""Max pooling followed through every stage, for docs/architecture.md: what each stage really makes of it.

    python tools/architecture_page.py [--check]

Writes the part of the page between its two marks anew; with ``--check`` it only says whether the page is current.
The processor is a fixed one (x86-64-v3), so the text does not depend on where this runs.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

import opendml as dml
from opendml.description.graph_desc import GraphDesc
from opendml.expression.printer import format_definition
from opendml.expression.statements import Definition
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.llvm.host import machine_of
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.kernel_description import describe_kernel
from opendml.targets.cpu.refine.refining import refined_definition, refining
from opendml.targets.cpu.target import CpuTarget

PAGE: Final = Path(__file__).parent.parent / "docs" / "architecture.md"
BEGINNING: Final = "<!-- Written by tools/architecture_page.py. -->\n"
END: Final = "<!-- End of what is written by tools/architecture_page.py. -->\n"

PROCESSOR: Final = CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx2"))


def pooling(output_sizes: list[int]) -> dml.operators.MaxPooling:
    """Max pooling of windows of 2x2, one apart."""
    return dml.operators.MaxPooling(
        input_tensor=dml.TensorDesc("float32", [1, 64, 33, 65]),
        output_tensor=dml.TensorDesc("float32", output_sizes),
        dimension_count=2,
        strides=[1, 1],
        window_size=[2, 2],
        start_padding=[0, 0],
        end_padding=[0, 0],
    )


def pooling_and_relu() -> GraphDesc:
    """The graph: its results go through a rectifier."""
    graph = dml.Graph()
    pooled = dml.max_pooling(graph.input("float32", [1, 64, 33, 65], name="x"), window_size=[2, 2])
    return graph.describe({"y": dml.activation_relu(pooled.values)})


def convolution() -> dml.operators.Convolution:
    """Windows of 3x3 over a padded input."""
    ones: dict[str, Any] = {"strides": [1, 1], "dilations": [1, 1], "start_padding": [1, 1], "end_padding": [1, 1]}
    return dml.operators.Convolution(
        input_tensor=dml.TensorDesc("float32", [1, 3, 14, 14]),
        filter_tensor=dml.TensorDesc("float32", [64, 3, 3, 3]),
        output_tensor=dml.TensorDesc("float32", [1, 64, 14, 14]),
        mode="CROSS_CORRELATION",
        direction="FORWARD",
        output_padding=[0, 0],
        group_count=1,
        **ones,
    )


def violations(operator: dml.operators.MaxPooling) -> str:
    """What is wrong with a descriptor."""
    try:
        dml.Device().compile(operator)
    except dml.InvalidDescriptorError as error:
        return str(error)
    raise AssertionError("the example of a wrong descriptor is a right one")


def inner_loop(text: str) -> str:
    """The innermost loop of a module's first kernel."""
    lines = text.partition("@kernel0(")[2].partition("\n}\n")[0].splitlines()
    labels = [number for number, line in enumerate(lines) if line.endswith(":")]
    bodies = [number for number in labels if lines[number].startswith("body")]
    end = next((number for number in labels if number > bodies[-1]), len(lines))
    return "\n".join(lines[bodies[-1] : end])


def stages() -> list[tuple[str, str, str, str]]:
    """Of every stage: its heading (none: that of the one before), what is to be said, the language of the text, and
    the text."""
    operator, graph = pooling([1, 64, 32, 64]), pooling_and_relu()
    joined = join(graph, refining(PROCESSOR))
    apart = format_definition(divide_and_fuse(joined, fusion=False, costs=PROCESSOR.costs).execution)
    fused = divide_and_fuse(joined, costs=PROCESSOR.costs).execution
    code = generate(fused, PROCESSOR, in_place=False)
    row = np.array([[[[1, -3, -2, 0], [-1, -4, -5, 2]]]], np.float32)
    result = dml.activation_relu(dml.max_pooling(row, window_size=[2, 2]).values)
    return [
        (
            "1. Descriptor",
            "`description/`: an immutable value, field for field DirectML's struct, and its JSON.",
            "json",
            _json(operator),
        ),
        (
            "2. Rules",
            "`description/validation.py` and the operator's own `check`: all that is wrong, at once. Of the same"
            " descriptor with an output of `[1, 65, 32, 63]`:",
            "text",
            violations(pooling([1, 65, 32, 63])),
        ),
        (
            "3. Definition",
            "`operators/pooling.py`, in the grammar of `expression/ir.py`: what each element of the output is. The"
            " interpreter evaluates this with NumPy, and is the oracle of all that follows.",
            "text",
            format_definition(operator.define()),
        ),
        (
            "4. Refinement",
            "`targets/cpu/refine/`: a target may make other statements of a definition's: copies that lie better in"
            " memory, and the same arithmetic in the same order. Max pooling stays as it is; a convolution of 3x3 with"
            " padding,",
            "text",
            statements_text(convolution().define()),
        ),
        (
            "",
            "becomes sums without questions, which read weights that lie side by side. What is made of weights alone is"
            " made once, when a graph is initialised:",
            "text",
            statements_text(refined_definition(convolution(), PROCESSOR)),
        ),
        (
            "5. Graph",
            "`graph/joining.py`: max pooling and a rectifier behind it, as statements over shared tensors.",
            "text",
            apart,
        ),
        (
            "6. Fusion",
            "`graph/fusion.py`: the rectifier moves into the statement that computes its input. Same operations, same"
            " bits, one pass over memory.",
            "text",
            statements_text(fused),
        ),
        (
            "7. Loop nest",
            "`targets/cpu/schedule.py` chooses: addresses become sums of the axes, axes are merged, one of them becomes"
            " the vectors (here of a processor with AVX2), others are shared out among threads. `targets/cpu/nests/`"
            " makes a value of it, in the grammar of `loops/nest.py`, which NumPy can run too, and plans how every"
            " Select and fold in it is computed (`loops/plans.py`): here all steps of the window are written out.",
            "text",
            "\n".join(describe_kernel(kernel, code.target) for kernel in code.kernels),
        ),
        (
            "8. LLVM",
            "`targets/cpu/code/` writes text of LLVM IR; `llvm/` compiles it. This is the innermost loop:",
            "llvm",
            inner_loop("\n".join(code.modules)),
        ),
        (
            "9. Program",
            "`programs/` binds arrays and calls the entry function; `targets/cpu/runtime/` runs it with all threads."
            f" `{json.dumps(row.astype(int)[0, 0].tolist())}` becomes",
            "text",
            json.dumps(result.astype(int)[0, 0].tolist()),
        ),
    ]


def statements_text(definition: Definition) -> str:
    """A definition without the lines of its inputs and outputs, which are those of the stage before."""
    lines = format_definition(definition).splitlines()
    return "\n".join(line for line in lines if not line.startswith(("input ", "output ")))


def _json(operator: dml.operators.MaxPooling) -> str:
    """A descriptor's JSON with one line a field."""
    value = operator.to_json()
    lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(entry)}" for name, entry in value["Desc"].items())
    return f'{{"Type": {json.dumps(value["Type"])}, "Desc": {{\n{lines}}}}}'


def written_part() -> str:
    """What stands between the marks."""
    return "\n".join(
        f"{_title(heading)}{words}\n\n```{language}\n{_without_places(text).rstrip()}\n```\n"
        for heading, words, language, text in stages()
    )


def _title(heading: str) -> str:
    return f"### {heading}\n\n" if heading else ""


def _without_places(text: str) -> str:
    """Nodes are named after the lines of this file that made them, which are of no interest."""
    return re.sub(r" \(architecture_page\.py:\d+\)", "", text)


def with_part(page: str, part: str) -> str:
    """The page with another part between its marks."""
    before, _, rest = page.partition(BEGINNING)
    _, _, after = rest.partition(END)
    return f"{before}{BEGINNING}\n{part}\n{END}{after}"


def main() -> int:
    """Status 1 if the page was to be checked and is not current."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; say whether the page is current")
    check = parser.parse_args().check
    page = PAGE.read_text(encoding="utf-8")
    current = with_part(page, written_part())
    if page == current:
        return 0
    if check:
        print(f"{PAGE.name} is not current: python tools/architecture_page.py writes it")
        return 1
    PAGE.write_text(current, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
