"""``opendml explain``: how the operators of a model are computed."""

from __future__ import annotations

from argparse import Namespace

from opendml.command_line.models import device_with_kernels, read_unlimited
from opendml.command_line.output import print_json, print_line, readable_errors

__all__ = ["execute"]


def execute(values: Namespace) -> int:
    """Explain every dispatchable of the model."""
    with readable_errors(values.model, values.json):
        from opendml.formats.dxdispatch.checking import check_operator
        from opendml.inspection.explanation import explanation

        device = device_with_kernels(values.device, "explain")
        explained = []
        read = read_unlimited(
            values.model,
            values.input_path,
            sizes=values.size,
            values=values.value,
            narrow_float64=values.narrow_float64,
        )
        for name, dispatchable in read.dispatchables.items():
            check_operator(dispatchable)
            text = explanation(dispatchable.desc, device=device, llvm=values.llvm, assembly=values.asm)
            if values.json:
                explained.append({"dispatchable": name, "explanation": text})
            else:
                print_line(f"# {name}")
                print_line(text)
        if values.json:
            print_json(explained)
    return 0
