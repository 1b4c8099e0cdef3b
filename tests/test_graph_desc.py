"""Graph descriptions: their rules, all violations at once, and finding one's way in them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from random_graphs import graphs

import opendml as dml
from opendml.description.descriptors import Operator
from opendml.description.errors import InvalidDescriptorError
from opendml.description.graph_desc import (
    ConstantNode,
    GraphDesc,
    InputEdge,
    IntermediateEdge,
    OperatorNode,
    OutputEdge,
)
from opendml.description.graph_paths import (
    GraphInput,
    NodeInput,
    NodeOutput,
    graph_input_tensors,
    graph_output_tensors,
    sources,
    topological_order,
    uses,
)
from opendml.description.graph_validation import validate_graph, validate_graph_or_raise
from opendml.graph.joining import join

T = dml.TensorDesc("FLOAT32", [2, 3])


def add(a: dml.TensorDesc = T, b: dml.TensorDesc = T, output: dml.TensorDesc = T) -> Any:
    return dml.operators.ElementWiseAdd(a_tensor=a, b_tensor=b, output_tensor=output)


def graph(**changes: Any) -> GraphDesc:
    """(x + constant) + x: input 0 feeds nodes 1 and 2, node 0 is the constant."""
    values: dict[str, Any] = {
        "input_count": 1,
        "output_count": 1,
        "nodes": [ConstantNode(bytes(24), "c"), OperatorNode(add(), "first"), OperatorNode(add(), "second")],
        "input_edges": [InputEdge(0, 1, 0), InputEdge(0, 2, 1)],
        "intermediate_edges": [IntermediateEdge(0, 0, 1, 1), IntermediateEdge(1, 0, 2, 0)],
        "output_edges": [OutputEdge(2, 0, 0)],
    }
    return GraphDesc(**(values | changes))


def messages(changed: GraphDesc, level: str = "6_4") -> list[str]:
    return [str(violation) for violation in validate_graph(changed, level)]


def test_a_graph_is_a_value() -> None:
    assert graph() == graph()
    assert hash(graph()) == hash(graph())
    assert graph() != graph(input_names=["x"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph().input_count = 2  # type: ignore[misc]
    assert isinstance(graph().nodes, tuple)


def test_a_constant_copies_any_buffer() -> None:
    array = np.arange(6, dtype=np.float32)
    node = ConstantNode(array)
    array[:] = 0
    assert node.data == np.arange(6, dtype=np.float32).tobytes()
    assert "24 bytes" in repr(node)
    with pytest.raises(InvalidDescriptorError):
        ConstantNode("text")  # type: ignore[arg-type]


def test_arrays_must_be_sequences() -> None:
    with pytest.raises(InvalidDescriptorError, match="InputEdges"):
        graph(input_edges=3)


def test_valid() -> None:
    assert messages(graph()) == []
    validate_graph_or_raise(graph(), "6_2")


def test_feature_levels() -> None:
    assert messages(graph(), "6_1") == [
        "Nodes[0] 'c': must not be a constant at feature level 6_1 (allowed from feature level 6_2 on)"
    ]
    rank_4 = dml.TensorDesc("FLOAT32", [1, 1, 2, 3])
    identity = dml.operators.ElementWiseIdentity(input_tensor=rank_4, output_tensor=rank_4)
    single = GraphDesc(
        input_count=1,
        output_count=1,
        nodes=[OperatorNode(identity)],
        input_edges=[InputEdge(0, 0, 0)],
        output_edges=[OutputEdge(0, 0, 0)],
    )
    assert messages(single, "2_1") == []
    assert messages(single, "2_0") == [
        "DML_GRAPH_DESC does not exist at feature level 2_0 (allowed from feature level 2_1 on)"
    ]
    in_a_file = graph(nodes=[ConstantNode(bytes(24), "c", source="c"), *graph().nodes[1:]])
    assert messages(in_a_file, "5_0") == []


def test_violations_of_operators_carry_the_node() -> None:
    wrong = add(b=dml.TensorDesc("FLOAT16", [2, 6]))
    found = messages(graph(nodes=[graph().nodes[0], OperatorNode(wrong, "first"), OperatorNode(wrong)]))
    assert any(text.startswith("Nodes[1] 'first'.BTensor: ") for text in found)
    assert any(text.startswith("Nodes[2].BTensor") for text in found)
    violation = validate_graph(graph(nodes=[graph().nodes[0], OperatorNode(wrong), graph().nodes[2]]))[0]
    assert violation.operator == "DML_OPERATOR_ELEMENT_WISE_ADD"


BIG = dml.TensorDesc("FLOAT32", [2, 3], total_size_in_bytes=64)
OWNED = T.replace(flags="OWNED_BY_DML")
TWO = OperatorNode(add(), "first"), OperatorNode(add(), "second")

BROKEN: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no nodes": ({"nodes": []}, ["Nodes: must have at least one node, got none"]),
    "not a node": (
        {"nodes": ["constant", *TWO]},
        ["Nodes[0]: must be an operator or a constant, got constant"],
    ),
    "empty constant": (
        {"nodes": [ConstantNode(b""), *TWO]},
        ["Nodes[0].Data: must not be empty", "Nodes[0].DataSize: must have the size of Nodes[1] 'first'.BTensor, "
         "24 bytes, got 0"],
    ),
    "constant of another size": (
        {"nodes": [ConstantNode(bytes(28)), *TWO]},
        ["Nodes[0].DataSize: must have the size of Nodes[1] 'first'.BTensor, 24 bytes, got 28"],
    ),
    "node index": (
        {"output_edges": [OutputEdge(3, 0, 0)]},
        [
            "OutputEdges[0].FromNodeIndex: must be an integer less than 3, got 3",
            "Nodes[2] 'second'.OutputTensor: must be connected",
        ],
    ),
    "negative index": (
        {"input_edges": [InputEdge(-1, 1, 0), InputEdge(0, 2, 1)]},
        ["InputEdges[0].GraphInputIndex: must be an integer less than 1, got -1"],
    ),
    "input index": (
        {"input_edges": [InputEdge(0, 1, 2), InputEdge(0, 2, 1)]},
        [
            "InputEdges[0].ToNodeInputIndex: must be an integer less than 2, the number of inputs of Nodes[1] 'first', "
            "got 2",
            "Nodes[1] 'first'.ATensor: must be connected",
        ],
    ),
    "input of a constant": (
        {"input_edges": [InputEdge(0, 1, 0), InputEdge(0, 2, 1), InputEdge(0, 0, 0)]},
        ["InputEdges[2].ToNodeInputIndex: must lead to an input: Nodes[0] 'c' has none, got 0"],
    ),
    "input connected twice": (
        {"input_edges": [InputEdge(0, 1, 0), InputEdge(0, 2, 1), InputEdge(0, 1, 0)]},
        ["InputEdges[2]: must not lead where InputEdges[0] leads already, to Nodes[1] 'first'.ATensor"],
    ),
    "graph output written twice": (
        {"output_count": 2, "output_edges": [OutputEdge(2, 0, 0), OutputEdge(1, 0, 0)]},
        [
            "OutputEdges[1].GraphOutputIndex: must not be the output of the graph to which OutputEdges[0] leads, got 0",
            "Outputs[1]: must be connected to the output of a node",
        ],
    ),
    "no outputs": (
        {"output_count": 0, "output_edges": []},
        ["Nodes[2] 'second'.OutputTensor: must be connected", "OutputCount: must be at least 1, got 0"],
    ),
    "more outputs than edges": (
        {"output_count": 2**32 - 1},
        ["OutputCount: must not be more than the number of OutputEdges, 1, got 4294967295"],
    ),
    "too many inputs": ({"input_count": 10**9}, ["InputCount: must be an integer from 0 to 1000000, got 1000000000"]),
    "names": ({"input_names": ["a", "b"]}, ["InputNames: must have 1 elements, got 2"]),
    "constant to an output": (
        {"output_count": 2, "output_edges": [OutputEdge(2, 0, 0), OutputEdge(0, 0, 1)]},
        ["OutputEdges[1].FromNodeIndex: must not lead from Nodes[0] 'c', a constant, straight to an output of the "
         "graph"],
    ),
    "sizes across an edge": (
        {"nodes": [ConstantNode(bytes(24), "c"), TWO[0], OperatorNode(add(a=BIG), "second")]},
        ["Nodes[2] 'second'.ATensor.TotalTensorSizeInBytes: must have the total size of Nodes[1] 'first'.OutputTensor, "
         "24 bytes, got 64"],
    ),
    "sizes of one graph input": (
        {"nodes": [ConstantNode(bytes(24), "c"), TWO[0], OperatorNode(add(b=BIG), "second")]},
        ["Nodes[2] 'second'.BTensor.TotalTensorSizeInBytes: must have the total size of Nodes[1] 'first'.ATensor, "
         "24 bytes, got 64"],
    ),
    "owned from a node and from a constant": (
        {"nodes": [ConstantNode(bytes(24), "c"), OperatorNode(add(b=OWNED)), OperatorNode(add(a=OWNED))]},
        [
            "Nodes[1].BTensor.Flags: must not be OWNED_BY_DML, as it does not read an input of the graph",
            "Nodes[2].ATensor.Flags: must not be OWNED_BY_DML, as it does not read an input of the graph",
        ],
    ),
    "owned by some": (
        {"nodes": [ConstantNode(bytes(24), "c"), OperatorNode(add(a=OWNED)), TWO[1]]},
        ["Nodes[2] 'second'.BTensor.Flags: must be OWNED_BY_DML if and only if Nodes[1].ATensor is, which reads the "
         "same input of the graph"],
    ),
    "cycle": (
        {"intermediate_edges": [IntermediateEdge(2, 0, 1, 1), IntermediateEdge(1, 0, 2, 0)]},
        [
            "Nodes[0] 'c'.Data: must be connected",
            "IntermediateEdges: must not form a cycle, got Nodes[1] 'first' -> Nodes[2] 'second' -> Nodes[1] 'first'",
        ],
    ),
    "node reading itself": (
        {"intermediate_edges": [IntermediateEdge(0, 0, 1, 1), IntermediateEdge(2, 0, 2, 0)]},
        [
            "Nodes[1] 'first'.OutputTensor: must be connected",
            "IntermediateEdges: must not form a cycle, got Nodes[2] 'second' -> Nodes[2] 'second'",
        ],
    ),
    "not an edge": (
        {"intermediate_edges": [InputEdge(0, 1, 1), IntermediateEdge(1, 0, 2, 0)]},
        [
            "IntermediateEdges[0]: must be an IntermediateEdge, got InputEdge",
            "Nodes[1] 'first'.BTensor: must be connected",
            "Nodes[0] 'c'.Data: must be connected",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_each_rule(name: str) -> None:
    changes, expected = BROKEN[name]
    if "nodes" in changes and not changes["nodes"]:
        assert expected[0] in messages(graph(**changes))
    else:
        assert messages(graph(**changes)) == expected


def test_a_list_of_violations_is_raised() -> None:
    with pytest.raises(InvalidDescriptorError, match="DML_GRAPH_DESC is invalid at feature level 6_4") as caught:
        validate_graph_or_raise(graph(**BROKEN["cycle"][0]))
    assert len(caught.value.violations) == 2


def test_absent_optional_tensors_are_not_connected() -> None:
    a = dml.TensorDesc("FLOAT32", [1, 1, 2, 2])
    tensors: dict[str, Any] = {"a_tensor": a, "b_tensor": a, "output_tensor": a}
    gemm = OperatorNode(dml.operators.Gemm(**tensors, trans_a="NONE", trans_b="NONE", alpha=1, beta=0), "gemm")
    edges = [InputEdge(0, 0, 0), InputEdge(0, 0, 1)]
    valid = graph(nodes=[gemm], input_edges=edges, intermediate_edges=[], output_edges=[OutputEdge(0, 0, 0)])
    assert messages(valid) == []
    connected = dataclasses.replace(valid, input_edges=(*edges, InputEdge(0, 0, 2)))
    assert messages(connected) == [
        "InputEdges[2].ToNodeInputIndex: must not lead to Nodes[0] 'gemm'.CTensor, which is absent, got 2"
    ]


def test_tensors_may_be_reinterpreted_across_edges() -> None:
    other = dml.TensorDesc("INT32", [6], [1])
    assert messages(graph(nodes=[ConstantNode(bytes(24)), TWO[0], OperatorNode(add(other, other, other))])) == []


def test_constants_need_no_padding() -> None:
    odd = dml.TensorDesc("UINT8", [5])
    node = OperatorNode(add(odd, odd, odd))
    for size in range(4, 10):
        found = messages(graph(nodes=[ConstantNode(bytes(size)), node, node]))
        assert bool(found) == (not 5 <= size <= 8)


def test_lookups() -> None:
    given_graph = graph(input_names=["x"])
    assert sources(given_graph) == {
        NodeInput(1, 0): GraphInput(0),
        NodeInput(2, 1): GraphInput(0),
        NodeInput(1, 1): NodeOutput(0, 0),
        NodeInput(2, 0): NodeOutput(1, 0),
    }
    assert uses(given_graph)[GraphInput(0)] == [NodeInput(1, 0), NodeInput(2, 1)]
    assert graph_input_tensors(graph(input_count=2)) == [T, None]
    assert graph_output_tensors(given_graph) == [T]
    assert given_graph.input_name(0) == "x"
    assert given_graph.output_name(0) == "Outputs[0]"
    json = given_graph.to_json()
    assert json["Nodes"][0] == {"Type": "DML_GRAPH_NODE_TYPE_CONSTANT", "Desc": {"DataSize": 24, "Name": "c"}}
    assert json["IntermediateEdges"][1] == {
        "FromNodeIndex": 1, "FromNodeOutputIndex": 0, "ToNodeIndex": 2, "ToNodeInputIndex": 0
    }  # fmt: skip


def test_topological_order() -> None:
    assert topological_order(graph()) == [0, 1, 2]
    with pytest.raises(InvalidDescriptorError, match="cycle"):
        topological_order(graph(**BROKEN["cycle"][0]))


def test_a_long_chain_is_no_recursion() -> None:
    count = 5000
    unary = OperatorNode(dml.operators.ElementWiseIdentity(input_tensor=T, output_tensor=T))
    chain = [IntermediateEdge(i, 0, i + 1, 0) for i in range(count - 1)]
    last = IntermediateEdge(count - 1, 0, 0, 0)
    output_edges = [OutputEdge(0, 0, 0)]
    ring = graph(nodes=[unary] * count, input_edges=[], intermediate_edges=[*chain, last], output_edges=output_edges)
    text = messages(dataclasses.replace(ring, input_count=0))
    assert len(text) == 1 and "4992 more" in text[0]
    assert topological_order(dataclasses.replace(ring, intermediate_edges=tuple(chain))) == list(range(count))


@examples(40)
@given(graphs())
def test_random_graphs_are_valid_and_ordered(random_graph: GraphDesc) -> None:
    assert messages(random_graph) == []
    order = topological_order(random_graph)
    assert sorted(order) == list(range(len(random_graph.nodes)))
    place = {node: position for position, node in enumerate(order)}
    for edge in random_graph.intermediate_edges:
        assert place[edge.from_node_index] < place[edge.to_node_index]


HOSTILE = st.one_of(st.integers(-2, 4), st.sampled_from([2**63, -(2**70), True, 1.0, None, "0", [0]]))


@examples(200)
@given(graphs(most=3), st.data())
def test_edges_of_any_kind_are_judged_without_failing(random_graph: GraphDesc, data: st.DataObject) -> None:
    """Any nonsense in the edges is a violation, never an exception."""
    field = data.draw(st.sampled_from(["input_edges", "output_edges", "intermediate_edges"]))
    edges: list[Any] = list(getattr(random_graph, field))
    if not edges:
        return
    position = data.draw(st.integers(0, len(edges) - 1))
    names = [f.name for f in dataclasses.fields(edges[position]) if f.name != "name"]
    edges[position] = dataclasses.replace(edges[position], **{data.draw(st.sampled_from(names)): data.draw(HOSTILE)})
    change: dict[str, Any] = {field: tuple(edges)}
    changed = dataclasses.replace(random_graph, **change)
    found = messages(changed)
    if not found:
        topological_order(changed)
        graph_output_tensors(changed)
        graph_input_tensors(changed)


def test_operators_of_many_inputs_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for every one of their inputs: models have some with thousands."""
    asked: list[Operator] = []
    given = Operator.inputs

    def inputs(self: Operator) -> Any:
        asked.append(self)
        return given(self)

    monkeypatch.setattr(Operator, "inputs", inputs)
    graph = dml.Graph(device=dml.Device("reference"))
    x = graph.input("float32", [2], name="x")
    counts = []
    for count in (10, 100):
        desc = graph.describe(dml.join([x] * count, axis=0))
        del asked[:]
        assert graph_input_tensors(desc) == [x.desc]
        join(desc)
        counts.append(len(asked))
    assert counts[0] == counts[1]
