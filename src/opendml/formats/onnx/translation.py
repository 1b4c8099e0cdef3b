"""The nodes of a model become nodes of a graph, one after another; what has no expression is gathered."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from opendml.building.graph_building import Graph
from opendml.building.places import Place
from opendml.description.descriptors import Operator
from opendml.description.errors import FormatProblem, InvalidDescriptorError, ModelFormatError
from opendml.description.quoting import cut, listed, printable, quoted
from opendml.formats.onnx.attributes import attributes_of, with_attributes
from opendml.formats.onnx.bodies import Functions, body_of, usual_attributes
from opendml.formats.onnx.folding import fold
from opendml.formats.onnx.nodes import Node
from opendml.formats.onnx.operators.control import CONTROL, MOST_NODES
from opendml.formats.onnx.operators.interface import Function
from opendml.formats.onnx.operators.table import OPERATORS, REASONS
from opendml.formats.onnx.ordering import in_order
from opendml.formats.onnx.quantized_nodes import express_by_integers
from opendml.formats.onnx.stand_ins import stand_ins
from opendml.formats.onnx.tensors import array_of
from opendml.formats.onnx.values import (
    NO_DOUBLE,
    STAND_IN,
    HostDrivenError,
    NotExpressibleError,
    UnknownValuesError,
    Value,
    known,
    reason_of,
)
from opendml.formats.onnx.weights import Weights

__all__ = ["FAILED", "ModelGraph", "Scope", "Translation"]


class ModelGraph(Graph):
    """A graph whose nodes have the names of the model's, not those of lines of a program."""

    def _node_name(self, operator: Operator, place: Place) -> str:
        return "/".join(self._scopes) or operator.type.name.lower()


class _Failed:
    """Stands for what a node would have given that has no expression; the node itself is reported."""


FAILED: Final = _Failed()
Scope = MutableMapping[str, "Value | _Failed"]
"""What names stand for, inner graphs before outer ones."""

DOUBLE: Final = np.dtype(np.float64)
SINGLE: Final = np.dtype(np.float32)

NO_WEIGHTS: Final[Weights] = MappingProxyType({})

DEEPEST: Final = 64
"""Functions and graphs inside of one another, at most."""

_ERRORS: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError),
)
"""What operators raise of attributes and sizes that make no sense."""


class Translation:
    """A model on its way to a graph.

    ``problems`` are the nodes without an expression and their reasons, ``needed`` the inputs of the model whose values
    nodes ask for, ``loops`` the first outputs of the main graph's nodes that only the host can drive. ``selects``:
    whether nodes with branches compute both where the condition is not known. ``narrows``: whether nodes whose
    operators have no FLOAT64 are computed in FLOAT32; ``narrowed`` are these.
    ``fuses_quantization``: whether nodes between DequantizeLinear and QuantizeLinear become operators on integers.
    """

    def __init__(
        self,
        graph: Graph,
        model: Any,
        folder: Path | None,
        selects: bool = False,
        narrows: bool = False,
        fuses_quantization: bool = True,
    ) -> None:
        self.selects = selects
        self.fuses_quantization = fuses_quantization
        self.narrows = narrows
        self.narrowed: list[str] = []
        self.graph = graph
        self.folder = folder
        self.problems: list[FormatProblem] = []
        self.needed: set[str] = set()
        self.loops: list[str] = []
        self._driven: list[HostDrivenError] = []  # inside of the node of the main graph that is being translated
        self.functions: Functions = {(one.domain, one.name): one for one in model.functions}
        self.versions = _versions(model.opset_import)
        self._depth = 0
        self.count = 0

    def graph_of(self, graph: Any, scope: Scope, weights: Weights = NO_WEIGHTS) -> None:
        """Translates a GraphProto: its initialisers, then its nodes. ``scope`` takes what they give. ``weights``:
        contents of initialisers that are not in these."""
        for number, tensor in enumerate(graph.initializer):
            scope[tensor.name] = self._initializer(tensor, weights.get(number))
        for sparse in graph.sparse_initializer:
            self._report(f"initializer {sparse.values.name!r}", "sparse tensors are not read")
            scope[sparse.values.name] = FAILED
        names = (one.name for one in (*graph.input, *graph.initializer, *(s.values for s in graph.sparse_initializer)))
        self.nodes_of(graph.node, scope, self.versions, names)

    def nodes_of(
        self, nodes: Iterable[Any], scope: Scope, versions: Mapping[str, int], names: Iterable[str] = ()
    ) -> None:
        """Translates NodeProtos, each behind those whose outputs it reads. ``names`` are given already: nothing has
        the same name twice."""
        given = {*names}
        for node in in_order(nodes):
            for name in filter(None, node.output):
                if name in given:
                    self._report(_place(node), f"its output {quoted(name)} is given by something else, too")
                given.add(name)
            self._translate(node, scope, versions)

    def inner(self, graph: Any, scope: Scope, inputs: Sequence[Value]) -> list[Value]:
        """The outputs of a graph inside of a node, which sees the names around it."""
        names = [given.name for given in graph.input]
        if len(names) != len(inputs):
            raise NotExpressibleError(f"its graph has {len(names)} inputs where it gives {len(inputs)}")
        inside: Scope = ChainMap(dict(zip(names, inputs, strict=True)), scope)
        with _Deeper(self):
            self.graph_of(graph, inside)
        return self._taken([output.name for output in graph.output], inside)

    # ---- one node

    def _translate(self, node: Any, scope: Scope, versions: Mapping[str, int]) -> None:
        given = [scope.get(name, FAILED) if name else None for name in node.input]
        outputs: Sequence[Value | _Failed | None] = [FAILED] * len(node.output)
        self.count += 1
        driven = len(self._driven)
        try:
            if self.count > MOST_NODES:
                raise NotExpressibleError(f"with functions and loops the model has more than {MOST_NODES} nodes")
            unknown = [name for name in node.input if name and name not in scope]
            if unknown:
                raise NotExpressibleError(f"it reads {listed(map(quoted, unknown))}, which nothing before it gives")
            if any(value is FAILED for value in given):
                self._check_known(node, scope)
            else:
                with self.graph.scope(node.name or node.op_type):
                    outputs = self._outputs(node, given, scope, versions)  # type: ignore[arg-type]
        except HostDrivenError as error:
            self._drive(node, error, scope)
        except UnknownValuesError as error:
            if STAND_IN not in error.inputs:
                self.needed |= error.inputs
                self._report(_place(node), _with_inputs(error))
        except NotExpressibleError as error:
            if len(self._driven) > driven:
                self._drive(node, self._driven[-1], scope)
            else:
                self._report(_place(node), str(error))
                outputs = self._stand_ins(node, given, versions) or outputs
        except _ERRORS as error:
            self._report(_place(node), reason_of(error))
            outputs = self._stand_ins(node, given, versions) or outputs
        for name, value in zip(node.output, outputs, strict=False):
            if name:
                scope[name] = FAILED if value is None else value

    def _stand_ins(
        self, node: Any, inputs: Sequence[Value | _Failed | None], versions: Mapping[str, int]
    ) -> Sequence[Value | None] | None:
        """What the nodes behind one without an expression are judged with; nothing inside of others."""
        if self._depth or any(value is FAILED for value in inputs):
            return None
        version = versions.get("" if node.domain == "ai.onnx" else node.domain, 0)
        return stand_ins(self.graph, node, inputs, version)  # type: ignore[arg-type]

    def _drive(self, node: Any, error: HostDrivenError, scope: Scope) -> None:
        """A node that is left to the host: with the node of the main graph that it is in."""
        if STAND_IN in error.inputs:
            return
        self.needed |= error.inputs
        if node.op_type in ("Loop", "Scan"):
            self._check_inside(node, scope)
        if self._depth:
            inside = "" if str(error).startswith(_INSIDE) else f"{_INSIDE} {_place(node)}: "
            self._driven.append(HostDrivenError(f"{inside}{error}", error.inputs))
            return
        self._driven.clear()
        self.loops.append(next(filter(None, node.output), ""))
        self._report(_place(node), _with_inputs(error))

    def _outputs(
        self, node: Any, inputs: list[Value | None], scope: Scope, versions: Mapping[str, int]
    ) -> Sequence[Value | None]:
        domain = "" if node.domain == "ai.onnx" else node.domain
        version = versions.get(domain, 0)
        if (domain, node.op_type) in self.functions:
            return self._expanded(self.functions[domain, node.op_type], node, inputs)
        folded = fold(node, inputs, version)
        if folded is not None:
            return folded
        seen = Node(self.graph, node.op_type, version, inputs, attributes_of(node, self.folder), list(node.output))
        if not domain and node.op_type in CONTROL:
            return seen.values(CONTROL[node.op_type](self, seen, scope))
        if self.fuses_quantization and domain in _QUANTIZED_DOMAINS:
            by_integers = express_by_integers(seen)
            if by_integers is not None:
                return by_integers
        function = OPERATORS.get((domain, node.op_type))
        if function is not None:
            found = self._by_function(function, seen, node)
            if found is not None:
                return found
        body = body_of(node, inputs, version) if domain in _ONNX_DOMAINS else None
        if body is None:
            raise NotExpressibleError(_no_expression(domain, node.op_type))
        return self._expanded(body, node, inputs, usual_attributes(node, version))

    def _by_function(self, function: Function, node: Node, proto: Any) -> list[Value | None] | None:
        """What an operator's function gives; None where ONNX's definition is to be taken."""
        try:
            found = function(node)
        except InvalidDescriptorError as error:
            if not any(value is not None and value.data_type == DOUBLE for value in node.inputs):
                raise
            if not self.narrows:
                raise NotExpressibleError(f"{NO_DOUBLE}: {reason_of(error)}") from None
            self.narrowed.append(_place(proto))
            found = function(node.narrowed())
            return None if found is None else [self._widened(node, value) for value in node.values(found)]
        return None if found is None else node.values(found)

    def _widened(self, node: Node, value: Value | None) -> Value | None:
        """A result of FLOAT32 as the FLOAT64 that it stands for."""
        if value is None or value.tensor is None or value.data_type != SINGLE:
            return value
        return node.result(value.tensor.astype("float64"), value.sizes)

    def _expanded(
        self, function: Any, node: Any, inputs: list[Value | None], usual: Iterable[Any] = ()
    ) -> list[Value | None]:
        """What a function gives for a node that calls it; ``usual`` are attributes that the node may leave out."""
        attributes = {attribute.name: attribute for attribute in (*usual, *function.attribute_proto)}
        attributes |= {attribute.name: attribute for attribute in node.attribute}
        scope: Scope = {name: value for name, value in zip(function.input, inputs, strict=False) if value is not None}
        absent = {name for name in function.input if name not in scope}
        versions = {**self.versions, **_versions(function.opset_import)}
        bodies = (_without(with_attributes(body, attributes), absent) for body in function.node)
        before, driven = len(self.problems), len(self._driven)
        with _Deeper(self):
            self.nodes_of(bodies, scope, versions)
        if len(self.problems) > before:
            del self._driven[driven:]
            return self._failed_inside(node, before)
        if len(self._driven) > driven:
            raise self._driven.pop()
        wanted = function.output[: len(node.output)]
        return [value if isinstance(value := scope.get(name), Value) else None for name in wanted]

    def _failed_inside(self, node: Any, before: int) -> list[Value | None]:
        """One problem of the node that called a function, in place of those of the nodes of its body."""
        inside = self.problems[before:]
        del self.problems[before:]
        first = inside[0]
        raise NotExpressibleError(first.message if first.message.startswith("as ") else f"as {first}")

    def _taken(self, names: Sequence[str], scope: Scope) -> list[Value]:
        values = [scope.get(name, FAILED) for name in names]
        found = [value for value in values if isinstance(value, Value)]
        if len(found) < len(values):
            raise NotExpressibleError("a node of its graph has no expression")
        return found

    def _check_known(self, node: Any, scope: Scope) -> None:
        """A node behind one that has no expression: it is reported if it has none whatever its inputs are."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (domain, node.op_type) in (*self.functions, *OPERATORS) or (not domain and node.op_type in CONTROL):
            return
        if (domain, node.op_type) in REASONS or domain not in _ONNX_DOMAINS:
            raise NotExpressibleError(_no_expression(domain, node.op_type))

    def _check_inside(self, node: Any, scope: Scope) -> None:
        """Reports the nodes of a loop, and of loops in it, that have no expression whatever their inputs are."""
        for inner in (one for attribute in node.attribute for one in attribute.g.node):
            try:
                self._check_known(inner, scope)
            except NotExpressibleError as error:
                self._report(_place(inner), str(error))
            if inner.op_type in ("Loop", "Scan"):
                self._check_inside(inner, scope)

    # ---- initialisers, problems

    def _initializer(self, tensor: Any, content: memoryview | None) -> Value | _Failed:
        place = f"initializer {tensor.name!r}"
        try:
            return known(array_of(tensor, self.folder, place, content))
        except ModelFormatError as error:
            self._report(place, error.message)
            return FAILED

    def _report(self, place: str, reason: str) -> None:
        self.problems.append(FormatProblem(printable(place), printable(cut(reason, 400))))


_ONNX_DOMAINS: Final = frozenset({"", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "ai.onnx.training"})
_QUANTIZED_DOMAINS: Final = frozenset({"", "com.microsoft"})


class _Deeper:
    """Inside of a function or a graph of a node; files may call in circles."""

    def __init__(self, translation: Translation) -> None:
        self.translation = translation

    def __enter__(self) -> None:
        if self.translation._depth >= DEEPEST:
            raise NotExpressibleError(f"more than {DEEPEST} functions inside of one another")
        self.translation._depth += 1

    def __exit__(self, *_: object) -> None:
        self.translation._depth -= 1


def _versions(imports: Iterable[Any]) -> dict[str, int]:
    return {"" if one.domain == "ai.onnx" else one.domain: int(one.version) for one in imports}


def _without(node: Any, absent: set[str]) -> Any:
    """A node of a body without the inputs that the calling node leaves out."""
    if absent.isdisjoint(node.input):
        return node
    copy = type(node)()
    copy.CopyFrom(node)
    del copy.input[:]
    copy.input.extend("" if name in absent else name for name in node.input)
    return copy


_INSIDE: Final = "inside of it"


def _with_inputs(error: UnknownValuesError) -> str:
    return f"{error} (inputs {', '.join(sorted(error.inputs)) or 'none'})"


def _place(node: Any) -> str:
    operator = f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
    named = node.name or next(filter(None, node.output), "")
    return f"{operator} {named!r}" if named else operator


def _no_expression(domain: str, operator: str) -> str:
    return REASONS.get((domain, operator), "DirectML's operators cannot express it, or opendml does not do it yet")
