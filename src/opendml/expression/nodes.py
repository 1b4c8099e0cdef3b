"""Interned nodes: classes stated by their fields, of which there is one object for every value.

A class of the grammar lists its fields; this module makes the constructor. It looks the fields up among the nodes that
are alive, and makes a new one only where there is none. So nodes of equal fields are the same object: ``==`` is ``is``,
a hash is an address, and comparing or finding an expression costs the same however large it is. Tables hold nodes
weakly: what nobody else refers to is forgotten. Several threads may construct nodes at the same time.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, ClassVar, Final, dataclass_transform


class _Place(weakref.ref[Any]):
    """A weak reference to a node, and where the table of its class has it."""

    __slots__ = ("key", "table")
    key: tuple[Any, ...]
    table: _Table


_Table = dict[tuple[Any, ...], _Place]


class _Guard:
    """What keeps places from being taken or left by two threads at once; a forked process has a free one.

    Reentrant, since any allocation may collect garbage, and nodes in it.
    """

    lock: ClassVar = threading.RLock()

    @classmethod
    def renew(cls) -> None:
        cls.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Guard.renew)


def _keep(table: _Table, key: tuple[Any, ...], node: Any) -> Any:
    """The node, from now on the one of its key, or the one that another thread was quicker with."""
    place = _Place(node, _leave)
    place.key, place.table = key, table
    with _Guard.lock:
        before = table.get(key)
        found = None if before is None else before()
        if found is not None:
            return found
        table[key] = place
    return node


def _leave(place: Any) -> None:
    """A node is gone, and its place free, unless an equal one has taken it already."""
    with _Guard.lock:
        if place.table.get(place.key) is place:
            del place.table[place.key]


_CHILDREN: Final = {
    "Expression": "{0}, ",
    "Fold": "{0}, ",
    "Expression | None": "*(() if {0} is None else ({0},)), ",
    "tuple[Expression, ...]": "*{0}, ",
}
"""Types of fields that are children, and how they stand in the tuple of all of them."""

_CONSTRUCTOR: Final = """\
def __new__(cls, {parameters}):
    key = ({fields})
    place = table.get(key)
    if place is not None:
        node = place()
        if node is not None:
            return node
    node = create(cls)
    {targets} = key
    node.children = {children}
    node.type = node._result()
    return {result}
"""


@dataclass_transform(eq_default=False, frozen_default=True)
class Node(type):
    """The class of all classes of nodes. Annotations are fields, in order, those of expressions its ``children``.

    A class may say otherwise what children it has (``_inside``); ``_result`` gives the type of a node's value, and
    refuses fields that do not fit. Those of a class that is not ``interned`` are all different.
    """

    table: _Table
    fields: tuple[str, ...]
    own_fields: tuple[str, ...]
    """Those that are no expressions."""

    def __new__(
        metaclass, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, interned: bool = True
    ) -> Node:
        """A class of nodes, with its constructor unless it is the base of all."""
        annotations: dict[str, str] = namespace.get("__annotations__", {}) if bases else {}
        fields = tuple(annotations)
        defaults = tuple(namespace.pop(field) for field in fields if field in namespace)
        if bases:
            # Those of the base are in every node: ``type`` may be a field, too.
            namespace["__slots__"] = tuple(field for field in fields if field != "type")
            namespace["table"] = {}
            namespace["fields"] = fields
            namespace["own_fields"] = tuple(field for field in fields if annotations[field] not in _CHILDREN)
        made = super().__new__(metaclass, name, bases, namespace)
        if bases:
            made.__new__ = _constructor(made, annotations, defaults, interned)  # type: ignore[method-assign]
        return made


def _constructor(made: Node, annotations: dict[str, str], defaults: tuple[Any, ...], interned: bool) -> Any:
    """The constructor as Python would be written by hand: nodes are made by the ten thousand."""
    fields = made.fields
    inside = "".join(
        _CHILDREN[annotation].format(f) for f, annotation in annotations.items() if annotation in _CHILDREN
    )
    source = _CONSTRUCTOR.format(
        parameters=", ".join(fields),
        fields="".join(f"{field}, " for field in fields),
        targets="".join(f"node.{field}, " for field in fields),
        children="node._inside()" if "_inside" in vars(made) else f"({inside})",
        result="keep(table, key, node)" if interned else "node",
    )
    scope: dict[str, Any] = {"table": made.table, "create": object.__new__, "keep": _keep}
    exec(source, scope)
    constructor = scope["__new__"]
    constructor.__defaults__ = defaults or None
    constructor.__qualname__ = f"{made.__qualname__}.__new__"
    return constructor
