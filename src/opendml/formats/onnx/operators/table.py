"""Every operator that has a function, by domain and name; and why others have none."""

from __future__ import annotations

from typing import Final

from opendml.formats.onnx.operators.classic import CLASSIC
from opendml.formats.onnx.operators.einsum import EINSUM
from opendml.formats.onnx.operators.element_wise import ELEMENT_WISE
from opendml.formats.onnx.operators.gathering import GATHERING
from opendml.formats.onnx.operators.interface import Function
from opendml.formats.onnx.operators.matrices import MATRICES
from opendml.formats.onnx.operators.microsoft import DIRECTML, MICROSOFT
from opendml.formats.onnx.operators.microsoft.normalizations import SIMPLIFIED
from opendml.formats.onnx.operators.normalizations import NORMALIZATIONS
from opendml.formats.onnx.operators.quantization import QUANTIZATION
from opendml.formats.onnx.operators.recurrent import RECURRENT
from opendml.formats.onnx.operators.reductions import REDUCTIONS
from opendml.formats.onnx.operators.resizing import RESIZING
from opendml.formats.onnx.operators.sampling import SAMPLING
from opendml.formats.onnx.operators.shapes import SHAPES
from opendml.formats.onnx.operators.spectra import SPECTRA
from opendml.formats.onnx.operators.training import TRAINING
from opendml.formats.onnx.operators.windows import WINDOWS

__all__ = ["OPERATORS", "REASONS"]

_FAMILIES: Final = (
    EINSUM,
    ELEMENT_WISE,
    GATHERING,
    MATRICES,
    NORMALIZATIONS,
    QUANTIZATION,
    RECURRENT,
    REDUCTIONS,
    RESIZING,
    SAMPLING,
    SHAPES,
    SPECTRA,
    WINDOWS,
)

_DOMAINS: Final = (
    *(("", family) for family in _FAMILIES),
    ("", SIMPLIFIED),
    ("ai.onnx.ml", CLASSIC),
    ("ai.onnx.preview.training", TRAINING),
    ("com.microsoft", MICROSOFT),
    ("com.microsoft.dml", DIRECTML),
)

OPERATORS: Final[dict[tuple[str, str], Function]] = {
    (domain, name): function for domain, family in _DOMAINS for name, function in family.items()
}
"""Functions by domain (of ONNX's own operators it is empty) and name. What is not here and is a function of other
operators by ONNX's definition is translated as that."""

_DYNAMIC: Final = "the sizes of its result depend on values"
_RANDOM: Final = "its random numbers are of no generator in particular, and DirectML's are of one"
_TEXT: Final = "DirectML has no tensors of texts"
_SEQUENCE: Final = "DirectML has no sequences, and none are known while the graph is made"
_EXPERTS: Final = "which experts compute what depends on values"

REASONS: Final[dict[tuple[str, str], str]] = {
    **{("", name): _DYNAMIC for name in ("Compress", "NonMaxSuppression", "NonZero", "Unique")},
    **{
        ("", name): _RANDOM
        for name in (
            *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"),
            *("RandomUniform", "RandomUniformLike"),
        )
    },
    **{("", name): _TEXT for name in ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit")},
    **{
        ("", name): _SEQUENCE
        for name in (
            *("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase"),
            *("SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence"),
            "Optional",
        )
    },
    ("", "Det"): "DirectML has no determinants",
    ("", "ImageDecoder"): "DirectML decodes no images",
    ("", "TfIdfVectorizer"): "DirectML counts no n-grams",
    ("ai.onnx.ml", "LabelEncoder"): "DirectML has no dictionaries",
    ("ai.onnx.ml", "TreeEnsemble"): "DirectML has no decision trees",
    **{("com.microsoft", name): _EXPERTS for name in ("MoE", "QMoE")},
}
"""Why an operator has no expression, where there is more to say than that it has none."""
