"""What becomes of an operator: its descriptor, expressions, kernels and code, as text."""

from __future__ import annotations

import json
import re

from opendml.descriptors import Operator
from opendml.expression.printer import format_definition
from opendml.kernels.description import describe_kernel
from opendml.program import generate
from opendml.runtime.host import host_target


def explain_operator(desc: Operator, *, llvm: bool = False, assembly: bool = False) -> str:
    """The stages of a valid descriptor, one after another; ``llvm`` and ``assembly`` add the code for this machine."""
    from opendml.runtime import native

    definition, host = desc.define(), host_target()
    code = generate(definition, host, in_place=desc.in_place)
    sections = {
        "Descriptor": _json(desc),
        "Expressions": format_definition(definition),
        "Kernels": "\n".join(describe_kernel(kernel) for kernel in code.kernels),
    }
    if llvm:
        sections["LLVM IR"] = code.text
    if assembly:
        sections["Assembly"] = native.assembly(code.text, host)
    return "\n\n".join(f"{title}\n{'-' * len(title)}\n{text.rstrip()}" for title, text in sections.items()) + "\n"


def _json(desc: Operator) -> str:
    """The descriptor as indented JSON with lists of numbers on one line."""
    text = json.dumps(desc.to_json(), indent=2)
    return re.sub(
        r"\[[\s\d,.eE+-]*\]", lambda match: re.sub(r"\s+", " ", match[0]).replace("[ ", "[").replace(" ]", "]"), text
    )
