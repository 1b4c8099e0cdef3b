"""One valid descriptor of every activation and every element-wise operator."""

from __future__ import annotations

from typing import Any

from sample_tensors import f32, u32

from opendml import operators as op
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc


def activations() -> list[Operator]:
    parameters: dict[type[Operator], dict[str, Any]] = {
        op.ActivationCelu: {"alpha": 1},
        op.ActivationElu: {"alpha": 0.5},
        op.ActivationGelu: {},
        op.ActivationHardSigmoid: {"alpha": 0.2, "beta": 0.5},
        op.ActivationHardSwish: {"alpha": 0.125, "beta": 0.5},
        op.ActivationHardmax: {},
        op.ActivationHardmax1: {"axes": [1, 3]},
        op.ActivationIdentity: {},
        op.ActivationLeakyRelu: {"alpha": 0.01},
        op.ActivationLinear: {"alpha": 2, "beta": -1},
        op.ActivationLogSoftmax: {},
        op.ActivationLogSoftmax1: {"axes": [1, 3]},
        op.ActivationParametricSoftplus: {"alpha": 1, "beta": 2},
        op.ActivationRelu: {},
        op.ActivationScaledElu: {"alpha": 1.6732, "gamma": 1.0507},
        op.ActivationScaledTanh: {"alpha": 1, "beta": 0.5},
        op.ActivationShrink: {"bias": 0, "threshold": 0.5},
        op.ActivationSigmoid: {},
        op.ActivationSoftmax: {},
        op.ActivationSoftmax1: {"axes": [1, 3]},
        op.ActivationSoftplus: {"steepness": 1},
        op.ActivationSoftsign: {},
        op.ActivationSwish: {"sigmoid_input_scale": 1.5},
        op.ActivationTanh: {},
        op.ActivationThresholdedRelu: {"alpha": 1},
    }
    tensors = {"input_tensor": f32(1, 1, 3, 4), "output_tensor": f32(1, 1, 3, 4)}
    return [cls(**tensors, **values) for cls, values in parameters.items()]


def element_wise() -> list[Operator]:
    """Operators on one and on two tensors, and those with tensors of other names and types."""
    one = {"input_tensor": f32(1, 2, 3, 4), "output_tensor": f32(1, 2, 3, 4)}
    two = {"a_tensor": f32(1, 2, 3, 4), "b_tensor": f32(1, 2, 3, 4), "output_tensor": f32(1, 2, 3, 4)}
    truth = {"output_tensor": u32(1, 2, 3, 4)}
    unsigned_one, unsigned_two = dict.fromkeys(one, u32(1, 2, 3, 4)), dict.fromkeys(two, u32(1, 2, 3, 4))
    byte, bytes_ = TensorDesc("uint8", [1, 1, 1, 1]), TensorDesc("uint8", [1, 2, 3, 4])
    gradient = {
        "input_tensor": f32(1, 2, 3, 4),
        "input_gradient_tensor": f32(1, 2, 3, 4),
        "output_gradient_tensor": f32(1, 2, 3, 4),
    }
    half = TensorDesc("float16", [1, 2, 3, 4])
    fields: dict[type[Operator], dict[str, Any]] = {
        op.ElementWiseAbs: {**one, "scale_bias": (-1, 0.5)},
        op.ElementWiseCeil: one,
        op.ElementWiseFloor: one,
        op.ElementWiseRecip: {**one, "scale_bias": (2, 1)},
        op.ElementWiseSqrt: one,
        op.ElementWiseNegate: one,
        op.ElementWiseSign: one,
        op.ElementWiseRound: {**one, "rounding_mode": "TOWARD_INFINITY"},
        op.ElementWiseThreshold: {**one, "scale_bias": (2, 1), "min": 0.5},
        op.ElementWiseSubtract: two,
        op.ElementWiseMultiply: two,
        op.ElementWiseDivide: two,
        op.ElementWiseModulusTruncate: two,
        op.ElementWiseModulusFloor: two,
        op.ElementWiseMax: two,
        op.ElementWiseMin: two,
        op.ElementWiseMean: two,
        op.ElementWiseDifferenceSquare: two,
        op.ElementWiseExp: one,
        op.ElementWiseLog: one,
        op.ElementWiseSin: one,
        op.ElementWiseCos: one,
        op.ElementWiseTan: one,
        op.ElementWiseAsin: one,
        op.ElementWiseAcos: one,
        op.ElementWiseAtan: one,
        op.ElementWiseSinh: one,
        op.ElementWiseCosh: one,
        op.ElementWiseTanh: one,
        op.ElementWiseAsinh: one,
        op.ElementWiseAcosh: one,
        op.ElementWiseAtanh: one,
        op.ElementWiseErf: {**one, "scale_bias": (0.5, 1)},
        op.ElementWiseAtanYx: two,
        op.ElementWisePow: {**one, "exponent_tensor": f32(1, 2, 3, 4), "scale_bias": (2, 1)},
        op.ElementWiseConstantPow: {**one, "exponent": 1.5},
        op.ElementWiseLogicalAnd: unsigned_two,
        op.ElementWiseLogicalOr: unsigned_two,
        op.ElementWiseLogicalXor: unsigned_two,
        op.ElementWiseLogicalNot: unsigned_one,
        op.ElementWiseLogicalEquals: two | truth,
        op.ElementWiseLogicalGreaterThan: two | truth,
        op.ElementWiseLogicalGreaterThanOrEqual: two | truth,
        op.ElementWiseLogicalLessThan: two | truth,
        op.ElementWiseLogicalLessThanOrEqual: two | truth,
        op.ElementWiseIsNan: one | truth,
        op.ElementWiseIsInfinity: {**one, "output_tensor": bytes_, "infinity_mode": "NEGATIVE"},
        op.ElementWiseIf: {"condition_tensor": bytes_, "a_tensor": half, "b_tensor": half, "output_tensor": half},
        op.ElementWiseBitAnd: unsigned_two,
        op.ElementWiseBitOr: unsigned_two,
        op.ElementWiseBitXor: unsigned_two,
        op.ElementWiseBitNot: unsigned_one,
        op.ElementWiseBitCount: unsigned_one,
        op.ElementWiseBitShiftLeft: unsigned_two,
        op.ElementWiseBitShiftRight: unsigned_two,
        op.ElementWiseClipGrad: {**gradient, "min": -1, "max": 0.1},
        op.ElementWiseClipGrad1: {**gradient, "min_max_data_type": "FLOAT32", "min": -1, "max": 0.1},
        op.ElementWiseQuantizeLinear: {
            "input_tensor": f32(1, 2, 3, 4),
            "scale_tensor": f32(1, 2, 3, 4, strides=[0, 1, 0, 0]),
            "zero_point_tensor": bytes_,
            "output_tensor": bytes_,
        },
        op.ElementWiseDequantizeLinear: {
            "input_tensor": bytes_,
            "scale_tensor": f32(1, 2, 3, 4, strides=[0, 1, 0, 0]),
            "zero_point_tensor": bytes_,
            "output_tensor": f32(1, 2, 3, 4),
        },
        op.ElementWiseQuantizedLinearAdd: {
            "a_tensor": bytes_,
            "a_scale_tensor": f32(1, 1, 1, 1),
            "a_zero_point_tensor": byte,
            "b_tensor": bytes_,
            "b_scale_tensor": f32(1, 1, 1, 1),
            "output_scale_tensor": f32(1, 1, 1, 1),
            "output_zero_point_tensor": byte,
            "output_tensor": bytes_,
        },
    }
    return [cls(**values) for cls, values in fields.items()]
