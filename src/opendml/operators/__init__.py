"""The operators: ``opendml.operators.Slice1``, one class an operator, the versions and relatives of one in one file.

A family is imported when one of its operators is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from opendml.description.enums import OperatorType
from opendml.description.errors import UnknownNameError, UnknownOperatorError
from opendml.description.names import did_you_mean

if TYPE_CHECKING:
    # isort: off
    from opendml.operators.activation import (
        ActivationCelu as ActivationCelu,
        ActivationElu as ActivationElu,
        ActivationGelu as ActivationGelu,
        ActivationHardSigmoid as ActivationHardSigmoid,
        ActivationHardSwish as ActivationHardSwish,
        ActivationHardmax as ActivationHardmax,
        ActivationHardmax1 as ActivationHardmax1,
        ActivationIdentity as ActivationIdentity,
        ActivationLeakyRelu as ActivationLeakyRelu,
        ActivationLinear as ActivationLinear,
        ActivationLogSoftmax as ActivationLogSoftmax,
        ActivationLogSoftmax1 as ActivationLogSoftmax1,
        ActivationParameterizedRelu as ActivationParameterizedRelu,
        ActivationParametricSoftplus as ActivationParametricSoftplus,
        ActivationRelu as ActivationRelu,
        ActivationReluGrad as ActivationReluGrad,
        ActivationScaledElu as ActivationScaledElu,
        ActivationScaledTanh as ActivationScaledTanh,
        ActivationShrink as ActivationShrink,
        ActivationSigmoid as ActivationSigmoid,
        ActivationSoftmax as ActivationSoftmax,
        ActivationSoftmax1 as ActivationSoftmax1,
        ActivationSoftplus as ActivationSoftplus,
        ActivationSoftsign as ActivationSoftsign,
        ActivationSwish as ActivationSwish,
        ActivationTanh as ActivationTanh,
        ActivationThresholdedRelu as ActivationThresholdedRelu,
    )
    from opendml.operators.attention import (
        MultiheadAttention as MultiheadAttention,
        MultiheadAttention1 as MultiheadAttention1,
    )
    from opendml.operators.convolution import (
        Convolution as Convolution,
    )
    from opendml.operators.convolution_integer import (
        ConvolutionInteger as ConvolutionInteger,
        QuantizedLinearConvolution as QuantizedLinearConvolution,
    )
    from opendml.operators.cumulative import (
        CumulativeProduct as CumulativeProduct,
        CumulativeSummation as CumulativeSummation,
    )
    from opendml.operators.diagonal import (
        DiagonalMatrix as DiagonalMatrix,
        DiagonalMatrix1 as DiagonalMatrix1,
    )
    from opendml.operators.element_wise import (
        Cast as Cast,
        ElementWiseAdd as ElementWiseAdd,
        ElementWiseAdd1 as ElementWiseAdd1,
        ElementWiseClip as ElementWiseClip,
        ElementWiseClip1 as ElementWiseClip1,
        ElementWiseIdentity as ElementWiseIdentity,
    )
    from opendml.operators.element_wise_arithmetic import (
        ElementWiseAbs as ElementWiseAbs,
        ElementWiseCeil as ElementWiseCeil,
        ElementWiseDifferenceSquare as ElementWiseDifferenceSquare,
        ElementWiseDivide as ElementWiseDivide,
        ElementWiseFloor as ElementWiseFloor,
        ElementWiseMax as ElementWiseMax,
        ElementWiseMean as ElementWiseMean,
        ElementWiseMin as ElementWiseMin,
        ElementWiseModulusFloor as ElementWiseModulusFloor,
        ElementWiseModulusTruncate as ElementWiseModulusTruncate,
        ElementWiseMultiply as ElementWiseMultiply,
        ElementWiseNegate as ElementWiseNegate,
        ElementWiseRecip as ElementWiseRecip,
        ElementWiseRound as ElementWiseRound,
        ElementWiseSign as ElementWiseSign,
        ElementWiseSqrt as ElementWiseSqrt,
        ElementWiseSubtract as ElementWiseSubtract,
    )
    from opendml.operators.element_wise_functions import (
        ElementWiseAcos as ElementWiseAcos,
        ElementWiseAcosh as ElementWiseAcosh,
        ElementWiseAsin as ElementWiseAsin,
        ElementWiseAsinh as ElementWiseAsinh,
        ElementWiseAtan as ElementWiseAtan,
        ElementWiseAtanYx as ElementWiseAtanYx,
        ElementWiseAtanh as ElementWiseAtanh,
        ElementWiseConstantPow as ElementWiseConstantPow,
        ElementWiseCos as ElementWiseCos,
        ElementWiseCosh as ElementWiseCosh,
        ElementWiseErf as ElementWiseErf,
        ElementWiseExp as ElementWiseExp,
        ElementWiseLog as ElementWiseLog,
        ElementWisePow as ElementWisePow,
        ElementWiseSin as ElementWiseSin,
        ElementWiseSinh as ElementWiseSinh,
        ElementWiseTan as ElementWiseTan,
        ElementWiseTanh as ElementWiseTanh,
    )
    from opendml.operators.element_wise_limits import (
        ElementWiseClipGrad as ElementWiseClipGrad,
        ElementWiseClipGrad1 as ElementWiseClipGrad1,
        ElementWiseThreshold as ElementWiseThreshold,
    )
    from opendml.operators.element_wise_logic import (
        ElementWiseBitAnd as ElementWiseBitAnd,
        ElementWiseBitCount as ElementWiseBitCount,
        ElementWiseBitNot as ElementWiseBitNot,
        ElementWiseBitOr as ElementWiseBitOr,
        ElementWiseBitShiftLeft as ElementWiseBitShiftLeft,
        ElementWiseBitShiftRight as ElementWiseBitShiftRight,
        ElementWiseBitXor as ElementWiseBitXor,
        ElementWiseIf as ElementWiseIf,
        ElementWiseIsInfinity as ElementWiseIsInfinity,
        ElementWiseIsNan as ElementWiseIsNan,
        ElementWiseLogicalAnd as ElementWiseLogicalAnd,
        ElementWiseLogicalEquals as ElementWiseLogicalEquals,
        ElementWiseLogicalGreaterThan as ElementWiseLogicalGreaterThan,
        ElementWiseLogicalGreaterThanOrEqual as ElementWiseLogicalGreaterThanOrEqual,
        ElementWiseLogicalLessThan as ElementWiseLogicalLessThan,
        ElementWiseLogicalLessThanOrEqual as ElementWiseLogicalLessThanOrEqual,
        ElementWiseLogicalNot as ElementWiseLogicalNot,
        ElementWiseLogicalOr as ElementWiseLogicalOr,
        ElementWiseLogicalXor as ElementWiseLogicalXor,
    )
    from opendml.operators.element_wise_quantization import (
        ElementWiseDequantizeLinear as ElementWiseDequantizeLinear,
        ElementWiseQuantizeLinear as ElementWiseQuantizeLinear,
        ElementWiseQuantizedLinearAdd as ElementWiseQuantizedLinearAdd,
    )
    from opendml.operators.gathering import (
        Gather as Gather,
        GatherElements as GatherElements,
        GatherNd as GatherNd,
        GatherNd1 as GatherNd1,
    )
    from opendml.operators.generation import (
        FillValueConstant as FillValueConstant,
        FillValueSequence as FillValueSequence,
    )
    from opendml.operators.joining import (
        Join as Join,
        Split as Split,
    )
    from opendml.operators.matrix import (
        Gemm as Gemm,
    )
    from opendml.operators.matrix_integer import (
        MatrixMultiplyInteger as MatrixMultiplyInteger,
        MatrixMultiplyIntegerToFloat as MatrixMultiplyIntegerToFloat,
        QuantizedLinearMatrixMultiply as QuantizedLinearMatrixMultiply,
    )
    from opendml.operators.nonzero import (
        NonzeroCoordinates as NonzeroCoordinates,
    )
    from opendml.operators.normalization import (
        BatchNormalization as BatchNormalization,
        LocalResponseNormalization as LocalResponseNormalization,
        LpNormalization as LpNormalization,
        MeanVarianceNormalization as MeanVarianceNormalization,
        MeanVarianceNormalization1 as MeanVarianceNormalization1,
        MeanVarianceNormalization2 as MeanVarianceNormalization2,
        ValueScale2D as ValueScale2D,
    )
    from opendml.operators.normalization_training import (
        BatchNormalizationGrad as BatchNormalizationGrad,
        BatchNormalizationTraining as BatchNormalizationTraining,
        BatchNormalizationTrainingGrad as BatchNormalizationTrainingGrad,
        LocalResponseNormalizationGrad as LocalResponseNormalizationGrad,
    )
    from opendml.operators.optimizers import (
        AdamOptimizer as AdamOptimizer,
    )
    from opendml.operators.padding import (
        Padding as Padding,
        Padding1 as Padding1,
        Tile as Tile,
    )
    from opendml.operators.pooling import (
        AveragePooling as AveragePooling,
        AveragePooling1 as AveragePooling1,
        LpPooling as LpPooling,
        LpPooling1 as LpPooling1,
        MaxPooling as MaxPooling,
        MaxPooling1 as MaxPooling1,
        MaxPooling2 as MaxPooling2,
        MaxUnpooling as MaxUnpooling,
    )
    from opendml.operators.pooling_gradients import (
        AveragePoolingGrad as AveragePoolingGrad,
        MaxPoolingGrad as MaxPoolingGrad,
    )
    from opendml.operators.pooling_quantized import (
        QuantizedLinearAveragePooling as QuantizedLinearAveragePooling,
    )
    from opendml.operators.quantization import (
        Dequantize as Dequantize,
        DynamicQuantizeLinear as DynamicQuantizeLinear,
        Quantize as Quantize,
    )
    from opendml.operators.random_numbers import (
        RandomGenerator as RandomGenerator,
    )
    from opendml.operators.rearrangement import (
        DepthToSpace as DepthToSpace,
        DepthToSpace1 as DepthToSpace1,
        SpaceToDepth as SpaceToDepth,
        SpaceToDepth1 as SpaceToDepth1,
    )
    from opendml.operators.recurrent import (
        Gru as Gru,
        Lstm as Lstm,
        Rnn as Rnn,
    )
    from opendml.operators.reduction import (
        Argmax as Argmax,
        Argmin as Argmin,
        Reduce as Reduce,
    )
    from opendml.operators.region_gradients import (
        RoiAlignGrad as RoiAlignGrad,
    )
    from opendml.operators.regions import (
        RoiAlign as RoiAlign,
        RoiAlign1 as RoiAlign1,
        RoiPooling as RoiPooling,
    )
    from opendml.operators.resample import (
        Resample as Resample,
        Resample1 as Resample1,
        Resample2 as Resample2,
        Resample3 as Resample3,
        ResampleGrad as ResampleGrad,
        ResampleGrad1 as ResampleGrad1,
    )
    from opendml.operators.resampling import (
        Upsample2D as Upsample2D,
    )
    from opendml.operators.reversal import (
        ReverseSubsequences as ReverseSubsequences,
    )
    from opendml.operators.scattering import (
        OneHot as OneHot,
        ScatterElements as ScatterElements,
        ScatterNd as ScatterNd,
    )
    from opendml.operators.selection import (
        TopK as TopK,
        TopK1 as TopK1,
    )
    from opendml.operators.slicing import (
        Slice as Slice,
        Slice1 as Slice1,
        SliceGrad as SliceGrad,
    )
    from opendml.operators.sliding_blocks import (
        Fold as Fold,
        Unfold as Unfold,
    )
    # isort: on

# The operators of each file, in DirectML's names.
_FAMILIES = {
    "activation": """
        ACTIVATION_CELU ACTIVATION_ELU ACTIVATION_GELU ACTIVATION_HARD_SIGMOID ACTIVATION_HARD_SWISH ACTIVATION_HARDMAX
        ACTIVATION_HARDMAX1 ACTIVATION_IDENTITY ACTIVATION_LEAKY_RELU ACTIVATION_LINEAR ACTIVATION_LOG_SOFTMAX
        ACTIVATION_LOG_SOFTMAX1 ACTIVATION_PARAMETERIZED_RELU ACTIVATION_PARAMETRIC_SOFTPLUS ACTIVATION_RELU
        ACTIVATION_RELU_GRAD ACTIVATION_SCALED_ELU ACTIVATION_SCALED_TANH ACTIVATION_SHRINK ACTIVATION_SIGMOID
        ACTIVATION_SOFTMAX ACTIVATION_SOFTMAX1 ACTIVATION_SOFTPLUS ACTIVATION_SOFTSIGN ACTIVATION_SWISH ACTIVATION_TANH
        ACTIVATION_THRESHOLDED_RELU
    """,
    "attention": "MULTIHEAD_ATTENTION MULTIHEAD_ATTENTION1",
    "convolution": "CONVOLUTION",
    "convolution_integer": "CONVOLUTION_INTEGER QUANTIZED_LINEAR_CONVOLUTION",
    "cumulative": "CUMULATIVE_PRODUCT CUMULATIVE_SUMMATION",
    "diagonal": "DIAGONAL_MATRIX DIAGONAL_MATRIX1",
    "element_wise": """
        CAST ELEMENT_WISE_ADD ELEMENT_WISE_ADD1 ELEMENT_WISE_CLIP ELEMENT_WISE_CLIP1 ELEMENT_WISE_IDENTITY
    """,
    "element_wise_arithmetic": """
        ELEMENT_WISE_ABS ELEMENT_WISE_CEIL ELEMENT_WISE_DIFFERENCE_SQUARE ELEMENT_WISE_DIVIDE ELEMENT_WISE_FLOOR
        ELEMENT_WISE_MAX ELEMENT_WISE_MEAN ELEMENT_WISE_MIN ELEMENT_WISE_MODULUS_FLOOR ELEMENT_WISE_MODULUS_TRUNCATE
        ELEMENT_WISE_MULTIPLY ELEMENT_WISE_NEGATE ELEMENT_WISE_RECIP ELEMENT_WISE_ROUND ELEMENT_WISE_SIGN
        ELEMENT_WISE_SQRT ELEMENT_WISE_SUBTRACT
    """,
    "element_wise_functions": """
        ELEMENT_WISE_ACOS ELEMENT_WISE_ACOSH ELEMENT_WISE_ASIN ELEMENT_WISE_ASINH ELEMENT_WISE_ATAN ELEMENT_WISE_ATAN_YX
        ELEMENT_WISE_ATANH ELEMENT_WISE_CONSTANT_POW ELEMENT_WISE_COS ELEMENT_WISE_COSH ELEMENT_WISE_ERF
        ELEMENT_WISE_EXP ELEMENT_WISE_LOG ELEMENT_WISE_POW ELEMENT_WISE_SIN ELEMENT_WISE_SINH ELEMENT_WISE_TAN
        ELEMENT_WISE_TANH
    """,
    "element_wise_limits": "ELEMENT_WISE_CLIP_GRAD ELEMENT_WISE_CLIP_GRAD1 ELEMENT_WISE_THRESHOLD",
    "element_wise_logic": """
        ELEMENT_WISE_BIT_AND ELEMENT_WISE_BIT_COUNT ELEMENT_WISE_BIT_NOT ELEMENT_WISE_BIT_OR ELEMENT_WISE_BIT_SHIFT_LEFT
        ELEMENT_WISE_BIT_SHIFT_RIGHT ELEMENT_WISE_BIT_XOR ELEMENT_WISE_IF ELEMENT_WISE_IS_INFINITY ELEMENT_WISE_IS_NAN
        ELEMENT_WISE_LOGICAL_AND ELEMENT_WISE_LOGICAL_EQUALS ELEMENT_WISE_LOGICAL_GREATER_THAN
        ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL ELEMENT_WISE_LOGICAL_LESS_THAN
        ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL ELEMENT_WISE_LOGICAL_NOT ELEMENT_WISE_LOGICAL_OR
        ELEMENT_WISE_LOGICAL_XOR
    """,
    "element_wise_quantization": """
        ELEMENT_WISE_DEQUANTIZE_LINEAR ELEMENT_WISE_QUANTIZE_LINEAR ELEMENT_WISE_QUANTIZED_LINEAR_ADD
    """,
    "gathering": "GATHER GATHER_ELEMENTS GATHER_ND GATHER_ND1",
    "generation": "FILL_VALUE_CONSTANT FILL_VALUE_SEQUENCE",
    "joining": "JOIN SPLIT",
    "matrix": "GEMM",
    "matrix_integer": "MATRIX_MULTIPLY_INTEGER MATRIX_MULTIPLY_INTEGER_TO_FLOAT QUANTIZED_LINEAR_MATRIX_MULTIPLY",
    "nonzero": "NONZERO_COORDINATES",
    "normalization": """
        BATCH_NORMALIZATION LOCAL_RESPONSE_NORMALIZATION LP_NORMALIZATION MEAN_VARIANCE_NORMALIZATION
        MEAN_VARIANCE_NORMALIZATION1 MEAN_VARIANCE_NORMALIZATION2 VALUE_SCALE_2D
    """,
    "normalization_training": """
        BATCH_NORMALIZATION_GRAD BATCH_NORMALIZATION_TRAINING BATCH_NORMALIZATION_TRAINING_GRAD
        LOCAL_RESPONSE_NORMALIZATION_GRAD
    """,
    "optimizers": "ADAM_OPTIMIZER",
    "padding": "PADDING PADDING1 TILE",
    "pooling": """
        AVERAGE_POOLING AVERAGE_POOLING1 LP_POOLING LP_POOLING1 MAX_POOLING MAX_POOLING1 MAX_POOLING2 MAX_UNPOOLING
    """,
    "pooling_gradients": "AVERAGE_POOLING_GRAD MAX_POOLING_GRAD",
    "pooling_quantized": "QUANTIZED_LINEAR_AVERAGE_POOLING",
    "quantization": "DEQUANTIZE DYNAMIC_QUANTIZE_LINEAR QUANTIZE",
    "random_numbers": "RANDOM_GENERATOR",
    "rearrangement": "DEPTH_TO_SPACE DEPTH_TO_SPACE1 SPACE_TO_DEPTH SPACE_TO_DEPTH1",
    "recurrent": "GRU LSTM RNN",
    "reduction": "ARGMAX ARGMIN REDUCE",
    "region_gradients": "ROI_ALIGN_GRAD",
    "regions": "ROI_ALIGN ROI_ALIGN1 ROI_POOLING",
    "resample": "RESAMPLE RESAMPLE1 RESAMPLE2 RESAMPLE3 RESAMPLE_GRAD RESAMPLE_GRAD1",
    "resampling": "UPSAMPLE_2D",
    "reversal": "REVERSE_SUBSEQUENCES",
    "scattering": "ONE_HOT SCATTER_ELEMENTS SCATTER_ND",
    "selection": "TOP_K TOP_K1",
    "slicing": "SLICE SLICE1 SLICE_GRAD",
    "sliding_blocks": "FOLD UNFOLD",
}


def class_name(operator_type: OperatorType) -> str:
    """The name of an operator's class: ``MaxPooling1`` for MAX_POOLING1."""
    return "".join(part.capitalize() for part in operator_type.name.split("_")).replace("2d", "2D")


_FILES = {OperatorType[name]: file for file, names in _FAMILIES.items() for name in names.split()}
_TYPES = {class_name(operator_type): operator_type for operator_type in _FILES}

__all__ = list(_TYPES)  # pyright: ignore[reportUnsupportedDunderAll]


def implemented() -> tuple[OperatorType, ...]:
    """The operators that exist here, in DirectML's numbering."""
    return tuple(sorted(_FILES))


def unavailable(operator_type: OperatorType) -> str:
    """What there is to say, wherever it is asked for, about an operator that does not exist here."""
    if operator_type is OperatorType.INVALID:
        return f"{operator_type.dml_name} is no operator"
    since = f"since feature level {operator_type.since}"
    return f"{operator_type.dml_name} is an operator of DirectML ({since}) that opendml does not have yet"


def families() -> dict[str, tuple[str, ...]]:
    """The operators that exist here by the file that has them: ``{"pooling": ("MAX_POOLING", ...)}``."""
    return {file: tuple(names.split()) for file, names in _FAMILIES.items()}


def load(operator_type: OperatorType) -> None:
    """Imports the file of an operator; ``UnknownOperatorError`` if there is none."""
    if operator_type not in _FILES:
        raise UnknownOperatorError(unavailable(operator_type))
    importlib.import_module(f"{__name__}.{_FILES[operator_type]}")


def __getattr__(name: str) -> Any:
    if name not in _TYPES:
        raise UnknownNameError(_missing(name))
    value = getattr(importlib.import_module(f"{__name__}.{_FILES[_TYPES[name]]}"), name)
    globals()[name] = value
    return value


def _missing(name: str) -> str:
    """Why there is no such class: another spelling, an operator that is not here yet, or a name like another one."""
    try:
        operator_type = OperatorType.parse(name)
    except ValueError:
        return f"module {__name__!r} has no attribute {name!r}{did_you_mean(name, _TYPES)}"
    if operator_type not in _FILES:
        return unavailable(operator_type)
    return f"module {__name__!r} has no attribute {name!r}; the class is {class_name(operator_type)}"


def __dir__() -> list[str]:
    return sorted(__all__)
