"""A transformer encoder (Vaswani and others, "Attention Is All You Need", 2017), with GELU as in BERT."""

from __future__ import annotations

from layers import Layers, Network, Weights, run

import opendml as dml


def build(
    graph: dml.Graph,
    weights: Weights | None = None,
    batch: int = 1,
    length: int = 128,
    features: int = 256,
    heads: int = 8,
    inner_features: int = 1024,
    count: int = 4,
) -> Network:
    """Sequences of vectors {N, length, features} in, as many out; ``count`` layers, each with ``heads``."""
    layers = Layers(graph, weights)
    sizes = [batch, length, features]
    x = graph.input("float32", sizes, name="sequence").reshape([batch * length, features])
    for number in range(count):
        name = f"layers.{number}"
        attended = attention(layers, f"{name}.self_attn", x, batch, heads)
        x = layers.layer_normalization(f"{name}.norm1", x + attended)
        inner = dml.activation_gelu(layers.linear(f"{name}.linear1", x, inner_features))
        x = layers.layer_normalization(f"{name}.norm2", x + layers.linear(f"{name}.linear2", inner, features))
    return layers.network(x.reshape(sizes))


def attention(layers: Layers, name: str, x: dml.GraphTensor, batch: int, heads: int) -> dml.GraphTensor:
    """Every vector as a mean of all of its sequence, weighted by how well queries and keys match, for each head."""
    rows, features = x.sizes
    length, per_head = rows // batch, features // heads
    projected = layers.product(f"{name}.in_proj_weight", f"{name}.in_proj_bias", name, x, 3 * features)
    with layers.graph.scope(name):
        query, key, value = (
            part.reshape([batch, length, heads, per_head]).transpose([0, 2, 1, 3])
            for part in dml.split(projected, axis=1, output_axis_sizes=[features] * 3)
        )
        scores = dml.gemm(query, key, trans_b="TRANSPOSE", alpha=per_head**-0.5)
        mixed = dml.gemm(dml.activation_softmax(scores, axes=[3]), value)
        joined = mixed.transpose([0, 2, 1, 3]).reshape([batch, length, heads, per_head]).reshape([rows, features])
    return layers.remember(name, layers.linear(f"{name}.out_proj", joined, features))


if __name__ == "__main__":
    run("Transformer encoder", build, batch=1, length=128, features=256, heads=8, inner_features=1024, count=4)
