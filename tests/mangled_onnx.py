"""ONNX models, mangled, each made from its number: ``mangled(number)``."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

node = helper.make_node


@cache
def originals() -> tuple[bytes, ...]:
    """Valid models with weights, shape arithmetic, branches, loops, functions and data beside the file."""
    info = helper.make_tensor_value_info
    random = np.random.default_rng(1)
    weights = {"w": random.standard_normal((4, 3, 3, 3)).astype("f"), "b": np.arange(4, dtype="f")}
    weights |= {"sizes": np.array([1, -1]), "one": np.ones((), "f"), "axes": np.array([0]), "count": np.array(3)}
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    branches = [
        helper.make_graph([node(name, ["x", "one"], ["r"])], name, [], [info("r", 1, None)]) for name in ("Add", "Mul")
    ]
    body = helper.make_graph(
        [node("Identity", ["go"], ["goes"]), node("Add", ["s", "one"], ["t"]), node("Identity", ["t"], ["u"])],
        "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("s", 1, None)],
        [info("goes", TensorProto.BOOL, []), info("t", 1, None), info("u", 1, None)],
    )
    twice = helper.make_function(
        "of.mine", "Twice", ["x"], ["y"], [node("Add", ["x", "x"], ["y"])], [helper.make_opsetid("", 18)]
    )
    graphs = [
        [
            node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
            node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Reshape", ["p", "sizes"], ["y"]),
        ],
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "axes"], ["n"]),
            node("Concat", ["n", "sizes"], ["s"], axis=0),
            node("ConstantOfShape", ["n"], ["z"], value=numpy_helper.from_array(np.ones(1, "f"))),
            node("Range", ["zero", "count", "step"], ["range"]),
            node("Tile", ["range", "axes"], ["tiled"]),
            node("ReduceSum", ["x", "axes"], ["sum"], keepdims=0),
            node("Twice", ["sum"], ["y"], domain="of.mine"),
        ],
        [
            node("Less", ["one", "one"], ["c"]),
            node("If", ["c"], ["f"], then_branch=branches[0], else_branch=branches[1]),
            node("Loop", ["count", "", "f"], ["y", "all"], body=body),
        ],
        [
            node("LSTM", ["seq", "lw", "lr"], ["y"], hidden_size=2),
            node("TopK", ["x", "axes"], ["v", "i"]),
            node("Resize", ["x", "", "", "four"], ["r"], mode="linear"),
            node("Einsum", ["x", "x"], ["e"], equation="abcd,abcd->ab"),
        ],
    ]
    more = {"zero": np.array(0), "step": np.array(1), "four": np.array([1, 3, 8, 8])}
    more |= {"seq": np.ones((2, 1, 3), "f"), "lw": np.ones((1, 8, 3), "f"), "lr": np.ones((1, 8, 2), "f")}
    initializers += [numpy_helper.from_array(array, name) for name, array in more.items()]
    external = numpy_helper.from_array(np.zeros(4, "f"), "b")
    external.ClearField("raw_data")
    external.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", "16")):
        entry = external.external_data.add()
        entry.key, entry.value = key, value
    models = []
    for number, nodes in enumerate(graphs):
        given = [*initializers[:1], external, *initializers[2:]] if number == 0 else initializers
        graph = helper.make_graph(nodes, "g", [info("x", 1, [1, 3, 4, 4])], [info("y", 1, None)], given)
        imports = [helper.make_opsetid("", 18), helper.make_opsetid("of.mine", 1)]
        models.append(helper.make_model(graph, opset_imports=imports, functions=[twice]).SerializeToString())
    return tuple(models)


INTEGERS = (0, 1, -1, 2, 3, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63), 11, 16, 17)
TEXTS = ("", "x", "y", "w", "one", "count", "Add", "Loop", "If", "Conv", "../w.bin", "/etc/passwd", "of.mine", "Twice")


def mangled(number: int) -> bytes:
    """A model with a few of its fields changed, or of its bytes."""
    random = Random(number)
    data = random.choice(originals())
    if number % 3 == 0:
        return _other_bytes(bytearray(data), random)
    model = onnx.ModelProto()
    model.ParseFromString(data)
    for _ in range(random.randint(1, 3)):
        _change(model, random)
    return bytes(model.SerializeToString())


def _other_bytes(data: bytearray, random: Random) -> bytes:
    for _ in range(random.randint(1, 4)):
        place = random.randrange(len(data))
        if random.random() < 0.3:
            del data[place : place + random.randint(1, 40)]
        else:
            data[place] = random.randrange(256)
        if not data:
            break
    return bytes(data)


def _messages(message: Any) -> list[Any]:
    """A message and all inside of it."""
    found = [message]
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for one in value if field.is_repeated else [value]:
                found += _messages(one)
    return found


def _change(model: Any, random: Random) -> None:
    """One field somewhere: another number or text, one more or less, or none."""
    message = random.choice(_messages(model))
    fields = message.ListFields()
    if not fields:
        return
    field, value = random.choice(fields)
    if field.is_repeated:
        if random.random() < 0.5 or field.type == field.TYPE_MESSAGE:
            del value[random.randrange(len(value))]
        else:
            value[random.randrange(len(value))] = _value(field, random)
    elif field.type == field.TYPE_MESSAGE or random.random() < 0.2:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _value(field, random))


def _value(field: Any, random: Random) -> Any:
    if field.type == field.TYPE_STRING:
        return random.choice(TEXTS)
    if field.type == field.TYPE_BYTES:
        return random.randbytes(random.choice((0, 1, 4, 16, 100)))
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return random.choice((0.0, -1.0, 1e30, float("inf"), float("nan")))
    limit = 31 if field.type in (field.TYPE_INT32, field.TYPE_ENUM) else 63
    number = random.choice(INTEGERS)
    if field.type == field.TYPE_ENUM:
        return random.choice([one.number for one in field.enum_type.values])
    return (
        number
        if field.type not in (field.TYPE_UINT64, field.TYPE_UINT32) and -(1 << limit) <= number < 1 << limit
        else 7
    )
