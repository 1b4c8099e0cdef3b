"""Builders that many element-wise functions share: what an operator is, the output packed and like the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opendml.building.operands import ALONE
from opendml.description.descriptors import Operator
from opendml.description.structs import ScaleBias
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Builder, operand_rules
from opendml.functions.element_wise import packed


def of_two(operator: Callable[..., Operator]) -> Builder:
    """The builder of an operator on two tensors whose output is like them."""

    @operand_rules(ALONE)
    def build(a: TensorDesc, b: TensorDesc) -> Operator:
        return operator(a_tensor=a, b_tensor=b, output_tensor=packed(a))

    return build


def of_one(operator: Callable[..., Operator]) -> Builder:
    """The builder of an operator on one tensor whose output is like it."""

    @operand_rules(ALONE)
    def build(input: TensorDesc) -> Operator:
        return operator(input_tensor=input, output_tensor=packed(input))

    return build


def of_one_scaled(operator: Callable[..., Operator]) -> Builder:
    """The builder of an operator on one tensor with scale and bias whose output is like it."""

    @operand_rules(ALONE)
    def build(input: TensorDesc, scale_bias: ScaleBias | None) -> Operator:
        return operator(input_tensor=input, output_tensor=packed(input), scale_bias=scale_bias)

    return build


def of_two_typed(operator: Callable[..., Operator]) -> Builder:
    """The builder of an operator on two tensors whose output has a data type of its own."""

    @operand_rules(ALONE)
    def build(a: TensorDesc, b: TensorDesc, output_data_type: Any) -> Operator:
        return operator(a_tensor=a, b_tensor=b, output_tensor=TensorDesc(output_data_type, a.sizes))

    return build


def of_one_typed(operator: Callable[..., Operator]) -> Builder:
    """The builder of an operator on one tensor whose output has a data type of its own."""

    @operand_rules(ALONE)
    def build(input: TensorDesc, output_data_type: Any) -> Operator:
        return operator(input_tensor=input, output_tensor=TensorDesc(output_data_type, input.sizes))

    return build
