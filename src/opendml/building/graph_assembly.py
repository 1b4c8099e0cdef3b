"""What a builder of graphs hands over: the descriptor, and what its inputs and outputs are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opendml.description.graph_desc import GraphDesc
    from opendml.description.tensor import TensorDesc


class GraphInterface(NamedTuple):
    """What the inputs and outputs of a graph's descriptor are.

    ``inputs`` and ``outputs``: names and tensors as the builder of the graph sees them; the first ones of the
    descriptor's. ``kept``: the content of the descriptor's further inputs, by their numbers: constants that are no
    nodes, OWNED_BY_DML where the operators that read them allow that. The descriptor's further outputs are those that
    an operator must have and nobody uses. ``name`` is the graph's.
    """

    inputs: tuple[tuple[str, TensorDesc], ...]
    outputs: tuple[tuple[str, TensorDesc], ...]
    kept: dict[int, KeptConstant]
    name: str


class GraphAssembly(NamedTuple):
    """A descriptor of a graph, and what its inputs and outputs are."""

    desc: GraphDesc
    interface: GraphInterface

    def bounds(self) -> dict[int, float]:
        """What ``Device.compile_graph`` is told of the constants that are inputs."""
        from opendml.graph.constant_bounds import bounds_of_inputs

        owned = {number: constant.data for number, constant in self.interface.kept.items() if constant.owned}
        return bounds_of_inputs(self.desc, owned)


class KeptConstant(NamedTuple):
    """The bytes of a whole tensor for an input of a graph; ``owned``: bound when the graph is initialised."""

    data: bytes | memoryview
    owned: bool
