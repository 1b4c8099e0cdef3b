"""What is left of a graph, or of an operator, when it is compiled: tensors that are kept, and object files. Plans are
stored on disk, so that what was compiled before needs no stage of the compiler again."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from opendml._loading import LOADED_AT
from opendml.expression.element_types import ELEMENT_TYPES
from opendml.llvm.native import DEFAULT_OPTIONS, compiler_version
from opendml.llvm.object_cache import default_cache, get_or_make
from opendml.targets.target import Requirements, Target

if TYPE_CHECKING:
    from opendml.description.descriptors import Operator
    from opendml.description.graph_desc import GraphDesc
    from opendml.expression.ir import Tensor
    from opendml.graph.compilation import GraphDefinitions
    from opendml.graph.joining import JoinedGraph

PACKAGE: Final = Path(__file__).parent.parent

RECENT: Final = 3 * 10**9
"""Nanoseconds: what has changed within them before it was read may have changed again with the same times."""


class KeptTensor(NamedTuple):
    """A tensor that has a buffer as long as the graph is there: an input OWNED_BY_DML or a constant node, by their
    ``number``, or one that is computed at initialisation.

    ``extent`` is the number of its elements, ``reach`` the bytes that views of it reach, which may be more.
    """

    origin: Literal["input", "constant", "computed"]
    number: int
    type: str
    extent: int
    reach: int

    @property
    def size(self) -> int:
        """The bytes of its elements."""
        return self.extent * ELEMENT_TYPES[self.type].bits // 8


class StoredProgram(NamedTuple):
    """A program whose objects are in the cache under ``keys``."""

    requirements: Requirements
    keys: tuple[bytes, ...]

    def to_fields(self) -> list[Any]:
        """What JSON can hold of it."""
        return [self.requirements, [key.hex() for key in self.keys]]

    @classmethod
    def from_fields(cls, fields: Sequence[Any]) -> StoredProgram:
        """The program that ``to_fields`` was asked for."""
        requirements, keys = fields
        return cls(Requirements(*requirements), tuple(map(bytes.fromhex, keys)))


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """How a graph is initialised and run.

    Of the ``kept`` tensors, ``persistent`` are those that the program reads behind the graph's own inputs, ``sources``
    those that the initialisation reads, and ``computed`` those that it writes, by their positions. ``bounds``: what no
    number of some inputs may exceed, whatever its sign.
    """

    kept: tuple[KeptTensor, ...]
    persistent: tuple[int, ...]
    sources: tuple[int, ...]
    computed: tuple[int, ...]
    execution: StoredProgram
    initialisation: StoredProgram | None
    bounds: Mapping[int, float]

    def to_bytes(self) -> bytes:
        """The plan as JSON."""
        programs = [p and p.to_fields() for p in (self.execution, self.initialisation)]
        bounds = list(self.bounds.items())
        return json.dumps([self.kept, self.persistent, self.sources, self.computed, *programs, bounds]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> GraphPlan:
        """The plan that ``to_bytes`` was asked for."""
        kept, persistent, sources, computed, execution, initialisation, bounds = json.loads(data)
        return cls(
            tuple(KeptTensor(*tensor) for tensor in kept),
            tuple(persistent),
            tuple(sources),
            tuple(computed),
            StoredProgram.from_fields(execution),
            None if initialisation is None else StoredProgram.from_fields(initialisation),
            dict(bounds),
        )


def plan_of(
    joined: JoinedGraph,
    parts: GraphDefinitions,
    execution: StoredProgram,
    initialisation: StoredProgram | None,
    bounds: Mapping[int, float],
) -> GraphPlan:
    """The plan of a graph whose two parts are compiled."""
    computed = [] if parts.initialisation is None else [t for t in parts.initialisation.outputs if t is not None]
    tensors = list(dict.fromkeys((*parts.persistent, *parts.sources, *computed)))
    inputs = {t: i for i, t in enumerate(joined.inputs) if t is not None}
    reach: dict[Tensor, int] = {}
    for view, root in joined.views.items():
        reach[root] = max(reach.get(root, 0), view.extent * view.type.bits // 8)

    def kept(tensor: Tensor) -> KeptTensor:
        facts = tensor.type.name, tensor.extent, reach.get(tensor, 0)
        if tensor in inputs:
            return KeptTensor("input", inputs[tensor], *facts)
        if tensor in joined.constants:
            return KeptTensor("constant", joined.constants[tensor], *facts)
        return KeptTensor("computed", 0, *facts)

    persistent, sources, written = (
        tuple(map(tensors.index, some)) for some in (parts.persistent, parts.sources, computed)
    )
    return GraphPlan(tuple(map(kept, tensors)), persistent, sources, written, execution, initialisation, bounds)


# ---- the cache


def stored_plan(key: bytes | None) -> GraphPlan | None:
    """The plan that is stored under a key."""
    stored = _stored(key)
    return None if stored is None else GraphPlan.from_bytes(stored)


def store_plan(key: bytes | None, plan: GraphPlan) -> None:
    """Keep a plan, if there is a cache."""
    _store(key, plan.to_bytes())


def stored_program(key: bytes | None) -> StoredProgram | None:
    """The program of an operator that is stored under a key."""
    stored = _stored(key)
    return None if stored is None else StoredProgram.from_fields(json.loads(stored))


def store_program(key: bytes | None, program: StoredProgram) -> None:
    """Keep an operator's program, if there is a cache."""
    _store(key, json.dumps(program.to_fields()).encode())


def stored_objects(*programs: StoredProgram | None) -> dict[bytes, bytes] | None:
    """The object files of programs by their keys; None if one of them is no longer in the cache."""
    cache = default_cache()
    keys = [key for program in programs if program is not None for key in program.keys]
    objects = {key: cache.read(key) for key in keys} if cache is not None else {}
    found = {key: data for key, data in objects.items() if data is not None}
    return found if found and len(found) == len(objects) else None


def _stored(key: bytes | None) -> bytes | None:
    cache = default_cache()
    return None if cache is None or key is None else cache.read(key)


def _store(key: bytes | None, data: bytes) -> None:
    cache = default_cache()
    if cache is not None and key is not None:
        cache.write(key, data)


def operator_key(desc: Operator, target: Target) -> bytes | None:
    """As ``graph_key``, of a program for one operator."""
    facts = code_facts(target)
    return None if facts is None else hashlib.sha256(f"operator\n{facts}\n{desc!r}".encode()).digest()


def graph_key(
    graph: GraphDesc, target: Target | None, fusion: bool, bounds: Mapping[int, float] | None = None
) -> bytes | None:
    """The 32 bytes that name a plan: a hash over all that it depends on, but for the names in a valid graph. None where
    that is not known, because it includes the package's own code."""
    facts = code_facts(target)
    if facts is None:
        return None
    description = "\n".join((facts, repr((fusion, sorted((bounds or {}).items()))), *_description(graph, bounds or {})))
    return hashlib.sha256(description.encode()).digest()


def code_facts(target: Target | None) -> str | None:
    """What compiled code depends on beside its graph: this package, the compiler, the target. None where that is not
    known."""
    digest = package_digest()
    text = None if target is None else target.identity
    return None if digest is None else f"{digest}\n{(compiler_version(), text, DEFAULT_OPTIONS)!r}"


def _description(graph: GraphDesc, known: Mapping[int, float]) -> Iterator[str]:
    """Lines that are the same for two valid graphs, of whose inputs this is ``known``, only if their code is."""
    from opendml.description.graph_desc import OperatorNode
    from opendml.graph.constant_bounds import bounds_of_constants
    from opendml.graph.denormal_numbers import denormal_nodes
    from opendml.graph.joining import SEEN_BYTES

    bounds = bounds_of_constants(graph)
    yield repr((graph.input_count, graph.output_count))
    yield repr(sorted(denormal_nodes(graph, known)))
    for number, node in enumerate(graph.nodes):
        if isinstance(node, OperatorNode):
            yield repr(node.operator)
        else:
            yield repr((len(node.data), node.data[:SEEN_BYTES], bounds.get(number)))
    for edges in (graph.input_edges, graph.output_edges, graph.intermediate_edges):
        yield repr([tuple(getattr(e, f) for f in e.__dataclass_fields__ if f != "name") for e in edges])


@functools.cache
def package_digest() -> str | None:
    """A hash of the package's source: what any of its versions would do is not what another one does.

    None where there are no files, or where they have changed since this process loaded the package, although tools that
    keep times, as rsync does, may have put others there that are older. To read hundreds of files takes longer than all
    else that a program from the cache needs of them, so the hash is kept there, under the places, sizes and times of
    the files.
    """
    files = sorted(_files_below(str(PACKAGE))) if PACKAGE.is_dir() else []
    if not files or any(max(s.st_mtime, s.st_ctime) >= LOADED_AT for _, s in files):
        return None
    stamps = [(path, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for path, s in files]
    if os.name != "posix" or max(time for *_, time in stamps) + RECENT > LOADED_AT * 1e9:
        return _hash_of_files(files).hex()
    key = hashlib.sha256(repr(("package", stamps)).encode()).digest()
    return get_or_make(key, lambda: _hash_of_files(files))[0].hex()


def _files_below(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """The files of Python's in a folder and those in it."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path, entry.stat()
            elif entry.is_dir(follow_symlinks=False):
                yield from _files_below(entry.path)


def _hash_of_files(files: Sequence[tuple[str, os.stat_result]]) -> bytes:
    digest = hashlib.sha256()
    for path, _ in files:
        content = Path(path).read_bytes()
        digest.update(f"{Path(path).relative_to(PACKAGE).as_posix()} {len(content)}\n".encode() + content)
    return digest.digest()
