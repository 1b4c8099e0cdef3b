"""``opendml explain``: how the operators of a model are computed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from opendml.command_line.models import device_with_kernels, onnx_choices, read_unlimited
from opendml.command_line.onnx_models import whole_or_in_parts
from opendml.command_line.output import print_json, print_line, readable_errors

if TYPE_CHECKING:
    from opendml.formats.dxdispatch import Model
    from opendml.formats.onnx.staging import StagedProgram
    from opendml.programs.device import Device

__all__ = ["execute"]


def execute(values: Namespace) -> int:
    """Explain every dispatchable of the model."""
    with readable_errors(values.model, values.json):
        device = device_with_kernels(values.device, "explain")
        explained = []
        for name, text in _explanations(values, device):
            if values.json:
                explained.append({"dispatchable": name, "explanation": text})
            else:
                print_line(f"# {name}")
                print_line(text)
        if values.json:
            print_json(explained)
    return 0


def _explanations(values: Namespace, device: Device) -> Iterable[tuple[str, str]]:
    """Every dispatchable's name, and what becomes of it; of an ONNX model that the host drives the programs that
    run."""
    from opendml.formats.dxdispatch.checking import check_operator
    from opendml.inspection.explanation import explanation

    def of_dispatchables(read: Model) -> Iterator[tuple[str, str]]:
        for name, dispatchable in read.dispatchables.items():
            check_operator(dispatchable)
            yield name, explanation(dispatchable.desc, device=device, llvm=values.llvm, assembly=values.asm)

    def whole() -> Iterable[tuple[str, str]]:
        return of_dispatchables(read_unlimited(values.model, values.input_path, onnx=onnx_choices(values)))

    def in_parts(program: StagedProgram, arrays: dict[str, Any]) -> Iterable[tuple[str, str]]:
        program.run(arrays)
        return [(values.model.stem, explanation(program, device=device, llvm=values.llvm, assembly=values.asm))]

    return whole_or_in_parts(values, device, whole, in_parts)
