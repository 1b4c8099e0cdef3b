"""What type checkers, ``help`` and ``dir`` are told; `.ci/run` checks ``typed_client.py`` with the type checkers."""

from __future__ import annotations

import importlib.util
import inspect
import pydoc
import re
from pathlib import Path
from types import ModuleType

import pytest
import typed_client

import opendml as dml
from opendml import operators
from opendml.description import field_types
from opendml.description.operator_classes import operator_class


def test_the_typed_client_runs() -> None:
    typed_client.main()


@pytest.mark.parametrize("operator_type", operators.implemented())
def test_help_names_every_field(operator_type: dml.OperatorType) -> None:
    operator = operator_class(operator_type)
    signature, documentation = inspect.signature(operator), inspect.getdoc(operator)
    assert list(signature.parameters) == list(operator.fields)
    assert documentation is not None
    lines = documentation.splitlines()
    for name, field in operator.fields.items():
        parameter = signature.parameters[name]
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert (parameter.default is inspect.Parameter.empty) == field.is_required
        assert [line for line in lines if line.startswith(f"    {name}: {field.json_name}, {field.kind}")]


def test_help_shows_signature_and_fields() -> None:
    text = pydoc.plain(pydoc.render_doc(dml.operators.Slice1))
    assert "dimension_count: 'int | None' = None, input_window_offsets: 'Sequence[int]'" in text
    assert "input_window_strides: InputWindowStrides, INT[DimensionCount], any sequence" in text
    assert "output_tensor: OutputTensor, DML_TENSOR_DESC, written" in text


@pytest.mark.parametrize("operator_type", operators.implemented())
def test_fields_are_declared_with_what_they_hold(operator_type: dml.OperatorType) -> None:
    operator = operator_class(operator_type)
    declared = {
        name: text for base in reversed(operator.__mro__) for name, text in inspect.get_annotations(base).items()
    }
    for name in operator.fields:
        assert declared[name].partition("[")[0] in field_types.__all__, name


def test_dir_shows_only_what_is_public() -> None:
    assert set(dir(dml)) == {*dml.__all__, "__version__"}
    assert dir(dml.operators) == sorted(dml.operators.__all__)
    assert all(getattr(dml.operators, name).type in operators.implemented() for name in dir(dml.operators))


def tool(name: str) -> ModuleType:
    """A script of ``tools``, imported."""
    path = Path(__file__).parent.parent / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_written_signatures_are_those_of_the_functions() -> None:
    """``python tools/write_signatures.py && ruff format src`` brings them up to date."""
    module = tool("write_signatures")

    def words(text: str) -> str:
        return re.sub(r"[\s,]+", "", text)

    assert words(module.TARGET.read_text()) == words(module.text())


def test_the_written_indices_are_those_of_the_files() -> None:
    """``python tools/write_index.py`` brings them up to date."""
    module = tool("write_index")
    for path, text in module.texts().items():
        assert path.read_text() == text
    gemm, exports = module.texts()[module.OPERATORS], module.texts()[module.EXPORTS]
    assert module.operators_text(gemm.replace('    "matrix": "GEMM",\n', "").replace("Gemm as Gemm,", "")) == gemm
    assert module.exports_text(exports.replace(" gemm as gemm\n", " hemm as hemm\n")) == exports
