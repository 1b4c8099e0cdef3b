"""DirectML's enumerations and flag sets, with DirectML's numbers.

Members are written without their prefix (``TensorDataType.FLOAT32``); ``member.dml_name`` is the full spelling
(``DML_TENSOR_DATA_TYPE_FLOAT32``) and ``Enumeration.parse`` reads either, in any letter case. ``member.since`` is the
feature level that introduced a member. Source: DirectML.h of DirectML 1.15. The file is long because it is their table.
"""

from __future__ import annotations

import enum
import functools
import re
from typing import TYPE_CHECKING, Any, Final, Self

from opendml.description.errors import UnknownMemberError
from opendml.description.foreign_types import instead_of
from opendml.description.names import did_you_mean
from opendml.description.quoting import listed, quoted

if TYPE_CHECKING:
    import numpy


def _prefix(enumeration: type[enum.Enum]) -> str:
    """The C prefix of an enumeration's members: ``DML_PADDING_MODE_`` for ``PaddingMode``."""
    return _PREFIXES.get(enumeration.__name__) or dml_type_name(enumeration) + "_"


def dml_type_name(enumeration: type[enum.Enum]) -> str:
    """DirectML's name of an enumeration: ``DML_PADDING_MODE`` for ``PaddingMode``."""
    return "DML_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", enumeration.__name__).upper()


# Prefixes that are not the name of the enumeration.
_PREFIXES = {
    "OperatorType": "DML_OPERATOR_",
    "FeatureLevel": "DML_FEATURE_",
    "TensorFlags": "DML_TENSOR_FLAG_",
    "ExecutionFlags": "DML_EXECUTION_FLAG_",
    "CreateDeviceFlags": "DML_CREATE_DEVICE_FLAG_",
}


def _lookup(enumeration: Any, name: str) -> Any:
    """The member of a full or abbreviated name, in any letter case; UnknownMemberError if there is none."""
    member = enumeration.__members__.get(name)
    if member is None:
        member = _members_by_spelling(enumeration).get(name.upper())
    if member is None:
        raise _unknown(enumeration, name)
    return member


@functools.cache
def _members_by_spelling(enumeration: Any) -> dict[str, Any]:
    """The members by all the names that are understood, in capitals."""
    return {
        spelling.upper(): member
        for name, member in enumeration.__members__.items()
        for spelling in enumeration._spellings(name)
    }


def _unknown(enumeration: Any, value: object) -> UnknownMemberError:
    return UnknownMemberError(
        f"{quoted(value)} is not a {dml_type_name(enumeration)}: {enumeration.alternatives(value)}"
    )


LISTED_MEMBERS: Final = 16
"""Members that a message lists, at most: all feature levels."""


def _alternatives(enumeration: Any, value: object) -> str:
    """``one of A, B, C``, and which of them a misspelt name may be."""
    names = [str(member) if enumeration is FeatureLevel else name for name, member in enumeration.__members__.items()]
    meant = did_you_mean(_without_prefix(enumeration, value), names) if isinstance(value, str) else ""
    return f"one of {listed(names, limit=LISTED_MEMBERS)}{meant}"


def _without_prefix(enumeration: Any, name: str) -> str:
    """A name, which need not exist, without what stands before all names."""
    prefix = _prefix(enumeration)
    return name[len(prefix) :] if name[: len(prefix)].upper() == prefix else name


class DirectMLEnum(enum.IntEnum):
    """Base of the enumerations."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise _unknown(cls, value)

    @classmethod
    def _spellings(cls, name: str) -> tuple[str, ...]:
        """The names that a member is read by."""
        return name, _prefix(cls) + name

    @property
    def dml_name(self) -> str:
        """The full spelling, as in DirectML.h."""
        return _prefix(type(self)) + self.name

    @property
    def since(self) -> FeatureLevel:
        """The feature level that introduced this member."""
        return _since_table(type(self).__name__).get(self.name, FeatureLevel.LEVEL_1_0)

    @classmethod
    def parse(cls, value: object) -> Self:
        """The member given by a member, a number or a full or abbreviated name in any letter case.

        Raises UnknownMemberError, a ValueError that lists the members, for anything else.
        """
        if isinstance(value, str):
            return _lookup(cls, value)  # type: ignore[no-any-return]
        if isinstance(value, cls) or (isinstance(value, int) and not isinstance(value, (bool, enum.Enum))):
            if value not in cls._value2member_map_:  # Python's own error would write any number of digits.
                raise _unknown(cls, value)
            return cls(value)
        raise _unknown(cls, value)

    @classmethod
    def alternatives(cls, value: object) -> str:
        """For a message about a value that is no member: ``one of A, B, C``, and which of them a name may be."""
        return _alternatives(cls, value)


class DirectMLFlags(enum.IntFlag):
    """Base of the flag sets."""

    @classmethod
    def _spellings(cls, name: str) -> tuple[str, ...]:
        """The names that a flag is read by."""
        return name, _prefix(cls) + name

    @property
    def dml_names(self) -> list[str]:
        """The full spellings of the flags that are set."""
        return [_prefix(type(self)) + str(flag.name) for flag in type(self) if flag in self]

    @property
    def unknown_bits(self) -> int:
        """The bits that are no known flag."""
        return int(self) & ~functools.reduce(int.__or__, (int(flag) for flag in type(self)), 0)

    @classmethod
    def parse(cls, value: object) -> Self:
        """The flags given by a flag set, a number, a full or abbreviated name or a list of names.

        Raises UnknownMemberError, a ValueError that lists the flags, for anything else.
        """
        if isinstance(value, (list, tuple)):
            return functools.reduce(cls.__or__, (cls.parse(item) for item in value), cls(0))
        if isinstance(value, str):
            return _lookup(cls, value)  # type: ignore[no-any-return]
        if isinstance(value, cls) or (isinstance(value, int) and not isinstance(value, (bool, enum.Enum))):
            return cls(value)
        raise _unknown(cls, value)

    @classmethod
    def alternatives(cls, value: object) -> str:
        """As for enumerations."""
        return _alternatives(cls, value)


class FeatureLevel(DirectMLEnum):
    """``DML_FEATURE_LEVEL``: every level is a superset of the lower ones. ``str(level)`` is short: ``6_4``."""

    LEVEL_1_0 = 0x1000
    LEVEL_2_0 = 0x2000
    LEVEL_2_1 = 0x2100
    LEVEL_3_0 = 0x3000
    LEVEL_3_1 = 0x3100
    LEVEL_4_0 = 0x4000
    LEVEL_4_1 = 0x4100
    LEVEL_5_0 = 0x5000
    LEVEL_5_1 = 0x5100
    LEVEL_5_2 = 0x5200
    LEVEL_6_0 = 0x6000
    LEVEL_6_1 = 0x6100
    LEVEL_6_2 = 0x6200
    LEVEL_6_3 = 0x6300
    LEVEL_6_4 = 0x6400

    def __str__(self) -> str:
        return self.name.removeprefix("LEVEL_")

    @property
    def since(self) -> FeatureLevel:
        """Feature levels can be asked for since 2_0."""
        return FeatureLevel.LEVEL_2_0

    @classmethod
    def _spellings(cls, name: str) -> tuple[str, ...]:
        """``6_4``, ``6.4``, ``LEVEL_6_4`` and ``DML_FEATURE_LEVEL_6_4``."""
        number = name.removeprefix("LEVEL_")
        return number, number.replace("_", "."), *super()._spellings(name)


class TensorDataType(DirectMLEnum):
    """``DML_TENSOR_DATA_TYPE``: the type of a tensor's elements; UNKNOWN is never valid."""

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    UINT4 = 12
    INT4 = 13

    @classmethod
    def parse(cls, value: object) -> TensorDataType:
        """As for every enumeration; NumPy's types and dtypes are understood as well."""
        if isinstance(value, type):
            value = value.__name__
        elif not isinstance(value, (str, int)):
            value = getattr(value, "name", value)
        try:
            return super().parse(value)
        except UnknownMemberError:
            instead = instead_of(value) if isinstance(value, str) else ""
            if instead:
                raise UnknownMemberError(f"{quoted(value)}: {instead}") from None
            raise

    @property
    def bits(self) -> int:
        """Bits of one element; 0 for UNKNOWN."""
        return _BITS[self]

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return self.name.startswith("FLOAT")

    @property
    def is_integer(self) -> bool:
        """Whether this is an integer type, signed or not."""
        return self.is_signed_integer or self.is_unsigned_integer

    @property
    def is_signed_integer(self) -> bool:
        """Whether this is a signed integer type."""
        return self.name.startswith("INT")

    @property
    def is_unsigned_integer(self) -> bool:
        """Whether this is an unsigned integer type."""
        return self.name.startswith("UINT")

    @property
    def is_signed(self) -> bool:
        """Whether values below zero exist: floating-point and signed integer types."""
        return self.is_float or self.is_signed_integer

    @property
    def integer_range(self) -> tuple[int, int]:
        """The smallest and the largest value of an integer type."""
        low = -(1 << self.bits - 1) if self.is_signed_integer else 0
        return low, low + (1 << self.bits) - 1

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """The NumPy type of an element; for the 4-bit types that of the bytes which hold two elements each."""
        import numpy  # not needed to describe and check tensors, and slow to import

        return numpy.dtype("uint8" if self.bits == 4 else self.name.lower())


# By number; asked for often enough that it is not worked out from the name each time.
_BITS = tuple(int("".join(filter(str.isdigit, data_type.name)) or 0) for data_type in TensorDataType)


class TensorType(DirectMLEnum):
    """``DML_TENSOR_TYPE``: Kind of a tensor description; only BUFFER is valid."""

    INVALID = 0
    BUFFER = 1


class TensorFlags(DirectMLFlags):
    """``DML_TENSOR_FLAGS``: Options of a tensor; OWNED_BY_DML is for constant inputs only."""

    NONE = 0
    OWNED_BY_DML = 1


class ReduceFunction(DirectMLEnum):
    """``DML_REDUCE_FUNCTION``: The function of REDUCE."""

    ARGMAX = 0
    ARGMIN = 1
    AVERAGE = 2
    L1 = 3
    L2 = 4
    LOG_SUM = 5
    LOG_SUM_EXP = 6
    MAX = 7
    MIN = 8
    MULTIPLY = 9
    SUM = 10
    SUM_SQUARE = 11


class MatrixTransform(DirectMLEnum):
    """``DML_MATRIX_TRANSFORM``: Transformation of a matrix operand, applied to its last two dimensions."""

    NONE = 0
    TRANSPOSE = 1


class ConvolutionMode(DirectMLEnum):
    """``DML_CONVOLUTION_MODE``: Whether the filter is reversed along the spatial axes (CONVOLUTION) or not."""

    CONVOLUTION = 0
    CROSS_CORRELATION = 1


class ConvolutionDirection(DirectMLEnum):
    """``DML_CONVOLUTION_DIRECTION``: Ordinary (FORWARD) or transposed (BACKWARD) convolution."""

    FORWARD = 0
    BACKWARD = 1


class PaddingMode(DirectMLEnum):
    """``DML_PADDING_MODE``: What elements outside the input are filled with."""

    CONSTANT = 0
    EDGE = 1
    REFLECTION = 2
    SYMMETRIC = 3
    WRAP = 4


class InterpolationMode(DirectMLEnum):
    """``DML_INTERPOLATION_MODE``: How samples between elements are computed."""

    NEAREST_NEIGHBOR = 0
    LINEAR = 1


class RecurrentNetworkDirection(DirectMLEnum):
    """``DML_RECURRENT_NETWORK_DIRECTION``: The order in which a recurrent network walks its sequence."""

    FORWARD = 0
    BACKWARD = 1
    BIDIRECTIONAL = 2


class RoundingMode(DirectMLEnum):
    """``DML_ROUNDING_MODE``: Rounding to integers: ties to even, truncation, or ties away from zero."""

    HALVES_TO_NEAREST_EVEN = 0
    TOWARD_ZERO = 1
    TOWARD_INFINITY = 2


class IsInfinityMode(DirectMLEnum):
    """``DML_IS_INFINITY_MODE``: Which infinities count."""

    EITHER = 0
    POSITIVE = 1
    NEGATIVE = 2


class AxisDirection(DirectMLEnum):
    """``DML_AXIS_DIRECTION``: Walking an axis from the low index up, or from the high index down."""

    INCREASING = 0
    DECREASING = 1


class DepthSpaceOrder(DirectMLEnum):
    """``DML_DEPTH_SPACE_ORDER``: How block rows, block columns and channels share the depth dimension."""

    DEPTH_COLUMN_ROW = 0
    COLUMN_ROW_DEPTH = 1


class RandomGeneratorType(DirectMLEnum):
    """``DML_RANDOM_GENERATOR_TYPE``: The algorithm of RANDOM_GENERATOR."""

    PHILOX_4X32_10 = 0


class MultiheadAttentionMaskType(DirectMLEnum):
    """``DML_MULTIHEAD_ATTENTION_MASK_TYPE``: What the mask tensor of MULTIHEAD_ATTENTION holds."""

    NONE = 0
    KEY_SEQUENCE_LENGTH = 1
    KEY_SEQUENCE_END_START = 2
    KEY_QUERY_SEQUENCE_LENGTH_START_END = 3
    BOOLEAN = 4


class QuantizationType(DirectMLEnum):
    """``DML_QUANTIZATION_TYPE``: Which quantization tensors are given."""

    NONE = 0
    SCALE = 1
    SCALE_ZERO_POINT = 2


class Feature(DirectMLEnum):
    """``DML_FEATURE``: Queries of CheckFeatureSupport."""

    TENSOR_DATA_TYPE_SUPPORT = 0
    FEATURE_LEVELS = 1


class ExecutionFlags(DirectMLFlags):
    """``DML_EXECUTION_FLAGS``: Options of compiled operators and graphs."""

    NONE = 0
    ALLOW_HALF_PRECISION_COMPUTATION = 1
    DISABLE_META_COMMANDS = 2
    DESCRIPTORS_VOLATILE = 4


class CreateDeviceFlags(DirectMLFlags):
    """``DML_CREATE_DEVICE_FLAGS``: Options of a device."""

    NONE = 0
    DEBUG = 1


class BindingType(DirectMLEnum):
    """``DML_BINDING_TYPE``: Kind of a binding."""

    NONE = 0
    BUFFER = 1
    BUFFER_ARRAY = 2


class GraphEdgeType(DirectMLEnum):
    """``DML_GRAPH_EDGE_TYPE``: Kind of a graph edge."""

    INVALID = 0
    INPUT = 1
    OUTPUT = 2
    INTERMEDIATE = 3


class GraphNodeType(DirectMLEnum):
    """``DML_GRAPH_NODE_TYPE``: Kind of a graph node."""

    INVALID = 0
    OPERATOR = 1
    CONSTANT = 2


class OperatorType(DirectMLEnum):
    """``DML_OPERATOR_TYPE``: Every operator up to feature level 6_4.

    Names are understood as DirectML's pages have them, ``DML_OPERATOR_SLICE1`` and ``DML_SLICE1_OPERATOR_DESC``, and as
    those of the classes here, ``Slice1``; all in any letter case.
    """

    INVALID = 0
    ELEMENT_WISE_IDENTITY = 1
    ELEMENT_WISE_ABS = 2
    ELEMENT_WISE_ACOS = 3
    ELEMENT_WISE_ADD = 4
    ELEMENT_WISE_ASIN = 5
    ELEMENT_WISE_ATAN = 6
    ELEMENT_WISE_CEIL = 7
    ELEMENT_WISE_CLIP = 8
    ELEMENT_WISE_COS = 9
    ELEMENT_WISE_DIVIDE = 10
    ELEMENT_WISE_EXP = 11
    ELEMENT_WISE_FLOOR = 12
    ELEMENT_WISE_LOG = 13
    ELEMENT_WISE_LOGICAL_AND = 14
    ELEMENT_WISE_LOGICAL_EQUALS = 15
    ELEMENT_WISE_LOGICAL_GREATER_THAN = 16
    ELEMENT_WISE_LOGICAL_LESS_THAN = 17
    ELEMENT_WISE_LOGICAL_NOT = 18
    ELEMENT_WISE_LOGICAL_OR = 19
    ELEMENT_WISE_LOGICAL_XOR = 20
    ELEMENT_WISE_MAX = 21
    ELEMENT_WISE_MEAN = 22
    ELEMENT_WISE_MIN = 23
    ELEMENT_WISE_MULTIPLY = 24
    ELEMENT_WISE_POW = 25
    ELEMENT_WISE_CONSTANT_POW = 26
    ELEMENT_WISE_RECIP = 27
    ELEMENT_WISE_SIN = 28
    ELEMENT_WISE_SQRT = 29
    ELEMENT_WISE_SUBTRACT = 30
    ELEMENT_WISE_TAN = 31
    ELEMENT_WISE_THRESHOLD = 32
    ELEMENT_WISE_QUANTIZE_LINEAR = 33
    ELEMENT_WISE_DEQUANTIZE_LINEAR = 34
    ACTIVATION_ELU = 35
    ACTIVATION_HARDMAX = 36
    ACTIVATION_HARD_SIGMOID = 37
    ACTIVATION_IDENTITY = 38
    ACTIVATION_LEAKY_RELU = 39
    ACTIVATION_LINEAR = 40
    ACTIVATION_LOG_SOFTMAX = 41
    ACTIVATION_PARAMETERIZED_RELU = 42
    ACTIVATION_PARAMETRIC_SOFTPLUS = 43
    ACTIVATION_RELU = 44
    ACTIVATION_SCALED_ELU = 45
    ACTIVATION_SCALED_TANH = 46
    ACTIVATION_SIGMOID = 47
    ACTIVATION_SOFTMAX = 48
    ACTIVATION_SOFTPLUS = 49
    ACTIVATION_SOFTSIGN = 50
    ACTIVATION_TANH = 51
    ACTIVATION_THRESHOLDED_RELU = 52
    CONVOLUTION = 53
    GEMM = 54
    REDUCE = 55
    AVERAGE_POOLING = 56
    LP_POOLING = 57
    MAX_POOLING = 58
    ROI_POOLING = 59
    SLICE = 60
    CAST = 61
    SPLIT = 62
    JOIN = 63
    PADDING = 64
    VALUE_SCALE_2D = 65
    UPSAMPLE_2D = 66
    GATHER = 67
    SPACE_TO_DEPTH = 68
    DEPTH_TO_SPACE = 69
    TILE = 70
    TOP_K = 71
    BATCH_NORMALIZATION = 72
    MEAN_VARIANCE_NORMALIZATION = 73
    LOCAL_RESPONSE_NORMALIZATION = 74
    LP_NORMALIZATION = 75
    RNN = 76
    LSTM = 77
    GRU = 78
    ELEMENT_WISE_SIGN = 79
    ELEMENT_WISE_IS_NAN = 80
    ELEMENT_WISE_ERF = 81
    ELEMENT_WISE_SINH = 82
    ELEMENT_WISE_COSH = 83
    ELEMENT_WISE_TANH = 84
    ELEMENT_WISE_ASINH = 85
    ELEMENT_WISE_ACOSH = 86
    ELEMENT_WISE_ATANH = 87
    ELEMENT_WISE_IF = 88
    ELEMENT_WISE_ADD1 = 89
    ACTIVATION_SHRINK = 90
    MAX_POOLING1 = 91
    MAX_UNPOOLING = 92
    DIAGONAL_MATRIX = 93
    SCATTER_ELEMENTS = 94
    SCATTER = 94  # the name of its descriptor, DML_SCATTER_OPERATOR_DESC
    ONE_HOT = 95
    RESAMPLE = 96
    ELEMENT_WISE_BIT_SHIFT_LEFT = 97
    ELEMENT_WISE_BIT_SHIFT_RIGHT = 98
    ELEMENT_WISE_ROUND = 99
    ELEMENT_WISE_IS_INFINITY = 100
    ELEMENT_WISE_MODULUS_TRUNCATE = 101
    ELEMENT_WISE_MODULUS_FLOOR = 102
    FILL_VALUE_CONSTANT = 103
    FILL_VALUE_SEQUENCE = 104
    CUMULATIVE_SUMMATION = 105
    REVERSE_SUBSEQUENCES = 106
    GATHER_ELEMENTS = 107
    GATHER_ND = 108
    SCATTER_ND = 109
    MAX_POOLING2 = 110
    SLICE1 = 111
    TOP_K1 = 112
    DEPTH_TO_SPACE1 = 113
    SPACE_TO_DEPTH1 = 114
    MEAN_VARIANCE_NORMALIZATION1 = 115
    RESAMPLE1 = 116
    MATRIX_MULTIPLY_INTEGER = 117
    QUANTIZED_LINEAR_MATRIX_MULTIPLY = 118
    CONVOLUTION_INTEGER = 119
    QUANTIZED_LINEAR_CONVOLUTION = 120
    ELEMENT_WISE_BIT_AND = 121
    ELEMENT_WISE_BIT_OR = 122
    ELEMENT_WISE_BIT_XOR = 123
    ELEMENT_WISE_BIT_NOT = 124
    ELEMENT_WISE_BIT_COUNT = 125
    ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL = 126
    ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL = 127
    ACTIVATION_CELU = 128
    ACTIVATION_RELU_GRAD = 129
    AVERAGE_POOLING_GRAD = 130
    MAX_POOLING_GRAD = 131
    RANDOM_GENERATOR = 132
    NONZERO_COORDINATES = 133
    RESAMPLE_GRAD = 134
    SLICE_GRAD = 135
    ADAM_OPTIMIZER = 136
    ARGMIN = 137
    ARGMAX = 138
    ROI_ALIGN = 139
    GATHER_ND1 = 140
    ELEMENT_WISE_ATAN_YX = 141
    ELEMENT_WISE_CLIP_GRAD = 142
    ELEMENT_WISE_DIFFERENCE_SQUARE = 143
    LOCAL_RESPONSE_NORMALIZATION_GRAD = 144
    CUMULATIVE_PRODUCT = 145
    BATCH_NORMALIZATION_GRAD = 146
    ELEMENT_WISE_QUANTIZED_LINEAR_ADD = 147
    DYNAMIC_QUANTIZE_LINEAR = 148
    ROI_ALIGN1 = 149
    ROI_ALIGN_GRAD = 150
    BATCH_NORMALIZATION_TRAINING = 151
    BATCH_NORMALIZATION_TRAINING_GRAD = 152
    ELEMENT_WISE_CLIP1 = 153
    ELEMENT_WISE_CLIP_GRAD1 = 154
    PADDING1 = 155
    ELEMENT_WISE_NEGATE = 156
    ACTIVATION_GELU = 157
    ACTIVATION_SOFTMAX1 = 158
    ACTIVATION_LOG_SOFTMAX1 = 159
    ACTIVATION_HARDMAX1 = 160
    RESAMPLE2 = 161
    RESAMPLE_GRAD1 = 162
    DIAGONAL_MATRIX1 = 163
    MULTIHEAD_ATTENTION = 164
    LP_POOLING1 = 165
    AVERAGE_POOLING1 = 166
    ACTIVATION_SWISH = 167
    ACTIVATION_HARD_SWISH = 168
    QUANTIZED_LINEAR_AVERAGE_POOLING = 169
    MATRIX_MULTIPLY_INTEGER_TO_FLOAT = 170
    MEAN_VARIANCE_NORMALIZATION2 = 171
    MULTIHEAD_ATTENTION1 = 172
    QUANTIZE = 173
    DEQUANTIZE = 174
    RESAMPLE3 = 175
    FOLD = 176
    UNFOLD = 177

    @classmethod
    def _spellings(cls, name: str) -> tuple[str, ...]:
        """``SLICE1``, ``DML_OPERATOR_SLICE1``, ``DML_SLICE1_OPERATOR_DESC``, and ``Slice1``."""
        struct = f"{name}_OPERATOR_DESC"
        return *super()._spellings(name), f"DML_{struct}", struct, name.replace("_", "")

    @classmethod
    def alternatives(cls, value: object) -> str:
        """Which operator a misspelt name may be; there are too many for a list."""
        name = _without_prefix(cls, value).upper() if isinstance(value, str) else ""
        meant = did_you_mean(name.removeprefix("DML_").partition("_OPERATOR_")[0], cls.__members__)
        return f"opendml ops and dml.catalogue list them{meant}"


# The feature level that introduced a member, where it is not 1_0.
_SINCE: dict[str, dict[str, str]] = {
    "TensorDataType": {
        "6_3": """
            UINT4 INT4
        """,
    },
    "PaddingMode": {
        "3_0": """
            SYMMETRIC
        """,
        "6_4": """
            WRAP
        """,
    },
    "RoundingMode": {
        "2_1": """
            HALVES_TO_NEAREST_EVEN TOWARD_ZERO TOWARD_INFINITY
        """,
    },
    "IsInfinityMode": {
        "2_1": """
            EITHER POSITIVE NEGATIVE
        """,
    },
    "AxisDirection": {
        "2_1": """
            INCREASING DECREASING
        """,
    },
    "DepthSpaceOrder": {
        "2_1": """
            DEPTH_COLUMN_ROW COLUMN_ROW_DEPTH
        """,
    },
    "RandomGeneratorType": {
        "3_0": """
            PHILOX_4X32_10
        """,
    },
    "MultiheadAttentionMaskType": {
        "6_1": """
            NONE KEY_SEQUENCE_LENGTH KEY_SEQUENCE_END_START KEY_QUERY_SEQUENCE_LENGTH_START_END BOOLEAN
        """,
    },
    "QuantizationType": {
        "6_3": """
            NONE SCALE SCALE_ZERO_POINT
        """,
    },
    "Feature": {
        "2_0": """
            FEATURE_LEVELS
        """,
    },
    "GraphEdgeType": {
        "2_1": """
            INVALID INPUT OUTPUT INTERMEDIATE
        """,
    },
    "GraphNodeType": {
        "2_1": """
            INVALID OPERATOR
        """,
        "6_2": """
            CONSTANT
        """,
    },
    "OperatorType": {
        "2_0": """
            ELEMENT_WISE_SIGN ELEMENT_WISE_IS_NAN ELEMENT_WISE_ERF ELEMENT_WISE_SINH ELEMENT_WISE_COSH
            ELEMENT_WISE_TANH ELEMENT_WISE_ASINH ELEMENT_WISE_ACOSH ELEMENT_WISE_ATANH ELEMENT_WISE_IF
            ELEMENT_WISE_ADD1 ACTIVATION_SHRINK MAX_POOLING1 MAX_UNPOOLING DIAGONAL_MATRIX
            SCATTER_ELEMENTS ONE_HOT RESAMPLE
        """,
        "2_1": """
            ELEMENT_WISE_BIT_SHIFT_LEFT ELEMENT_WISE_BIT_SHIFT_RIGHT ELEMENT_WISE_ROUND
            ELEMENT_WISE_IS_INFINITY ELEMENT_WISE_MODULUS_TRUNCATE ELEMENT_WISE_MODULUS_FLOOR
            FILL_VALUE_CONSTANT FILL_VALUE_SEQUENCE CUMULATIVE_SUMMATION REVERSE_SUBSEQUENCES
            GATHER_ELEMENTS GATHER_ND SCATTER_ND MAX_POOLING2 SLICE1 TOP_K1 DEPTH_TO_SPACE1
            SPACE_TO_DEPTH1 MEAN_VARIANCE_NORMALIZATION1 RESAMPLE1 MATRIX_MULTIPLY_INTEGER
            QUANTIZED_LINEAR_MATRIX_MULTIPLY CONVOLUTION_INTEGER QUANTIZED_LINEAR_CONVOLUTION
        """,
        "3_0": """
            ELEMENT_WISE_BIT_AND ELEMENT_WISE_BIT_OR ELEMENT_WISE_BIT_XOR ELEMENT_WISE_BIT_NOT
            ELEMENT_WISE_BIT_COUNT ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL
            ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL ACTIVATION_CELU ACTIVATION_RELU_GRAD
            AVERAGE_POOLING_GRAD MAX_POOLING_GRAD RANDOM_GENERATOR NONZERO_COORDINATES RESAMPLE_GRAD
            SLICE_GRAD ADAM_OPTIMIZER ARGMIN ARGMAX ROI_ALIGN GATHER_ND1
        """,
        "3_1": """
            ELEMENT_WISE_ATAN_YX ELEMENT_WISE_CLIP_GRAD ELEMENT_WISE_DIFFERENCE_SQUARE
            LOCAL_RESPONSE_NORMALIZATION_GRAD CUMULATIVE_PRODUCT BATCH_NORMALIZATION_GRAD
        """,
        "4_0": """
            ELEMENT_WISE_QUANTIZED_LINEAR_ADD DYNAMIC_QUANTIZE_LINEAR ROI_ALIGN1
        """,
        "4_1": """
            ROI_ALIGN_GRAD BATCH_NORMALIZATION_TRAINING BATCH_NORMALIZATION_TRAINING_GRAD
        """,
        "5_0": """
            ELEMENT_WISE_CLIP1 ELEMENT_WISE_CLIP_GRAD1 PADDING1 ELEMENT_WISE_NEGATE
        """,
        "5_1": """
            ACTIVATION_GELU ACTIVATION_SOFTMAX1 ACTIVATION_LOG_SOFTMAX1 ACTIVATION_HARDMAX1 RESAMPLE2
            RESAMPLE_GRAD1 DIAGONAL_MATRIX1
        """,
        "6_1": """
            MULTIHEAD_ATTENTION
        """,
        "6_2": """
            LP_POOLING1 AVERAGE_POOLING1 ACTIVATION_SWISH ACTIVATION_HARD_SWISH
            QUANTIZED_LINEAR_AVERAGE_POOLING MATRIX_MULTIPLY_INTEGER_TO_FLOAT
        """,
        "6_3": """
            MEAN_VARIANCE_NORMALIZATION2 MULTIHEAD_ATTENTION1 QUANTIZE DEQUANTIZE
        """,
        "6_4": """
            RESAMPLE3 FOLD UNFOLD
        """,
    },
}


@functools.cache
def _since_table(enumeration: str) -> dict[str, FeatureLevel]:
    rows = _SINCE.get(enumeration, {})
    return {name: FeatureLevel.parse(level) for level, names in rows.items() for name in names.split()}
