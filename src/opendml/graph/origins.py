"""Where tensors of a graph come from that are known, in less memory than they take."""

from __future__ import annotations

from collections.abc import Sequence

from opendml.description.descriptors import Operator
from opendml.description.enums import TensorDataType
from opendml.expression.ir import Expression, Tensor, index
from opendml.expression.rewriting import substitute
from opendml.expression.statements import Compute, Definition, Origin
from opendml.graph.layouts import coordinate_digits, moved_digits, quotient, remainder
from opendml.operators.quantization import Dequantize


def origin_of(own: Tensor, operator: Operator) -> Origin | None:
    """The integers of 4 bits that a tensor is dequantised from, as ``own`` reads it."""
    if not isinstance(operator, Dequantize) or operator.input_tensor.data_type is not TensorDataType.UINT4:
        return None
    definition = operator.define()
    (output,), last = definition.outputs, definition.statements[-1]
    digits = None if output is None else coordinate_digits(own, output)
    if digits is None or not isinstance(last, Compute):
        return None
    # Along each dimension there are two axes: blocks, and elements of a block.
    pairs = list(zip(last.axes[::2], last.axes[1::2], strict=True))
    (store,) = last.stores

    def element(coordinates: Sequence[Expression]) -> Expression:
        there = dict[Expression, Expression]()
        for (block, inner), place in zip(pairs, moved_digits(coordinates, digits), strict=True):
            there |= {index(block): quotient(place, inner.size)} if block.size > 1 else {}
            there |= {index(inner): remainder(place, inner.size)} if inner.size > 1 else {}
        return substitute(there)(store.value)

    before = Definition(definition.inputs, definition.outputs, definition.statements[:-1], definition.temporaries)
    return Origin(before, definition.temporaries[0], element)
