"""Models in DxDispatch's JSON format: resources, dispatchables (operators and graphs) and the commands to run.

`read` reads a whole file and checks everything that does not depend on a device; nothing is allocated or run.
Source of the format: DxDispatch's guide, schema and parser in microsoft/DirectML.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from opendml.description.descriptors import Operator
from opendml.description.enums import ExecutionFlags, FeatureLevel, TensorDataType
from opendml.description.errors import DescriptorFormatError, FormatProblem, ModelFormatError
from opendml.description.file_access import read_file
from opendml.description.graph_desc import ConstantNode, GraphDesc
from opendml.description.quoting import quoted
from opendml.formats.dxdispatch.initial_values import InitialValues, parse_initial_values
from opendml.formats.dxdispatch.onnx_dispatchables import OnnxDispatchables
from opendml.formats.files import IMAGE_SUFFIXES, Folders, require_pillow
from opendml.formats.json_text import Node, is_remark, parse, unknown_name
from opendml.formats.onnx.choices import OnnxChoices
from opendml.formats.serialized_graph import read as read_graph

__all__ = [
    "DEFAULT_MEMORY_LIMIT",
    "BindingSource",
    "Bindings",
    "Command",
    "DispatchCommand",
    "Dispatchable",
    "Model",
    "PrintCommand",
    "Resource",
    "WriteFileCommand",
    "check_memory",
    "parse_model",
    "parse_resource",
    "read",
]

#: The most that the resources of a model may take together, in bytes, unless the caller says otherwise.
DEFAULT_MEMORY_LIMIT = 8 << 30
#: The largest model file, in bytes. Large data belong into files of their own.
MODEL_FILE_LIMIT = 256 << 20

T = TypeVar("T")

NO_CHOICES: Final = OnnxChoices()

#: The problems of a model that are listed, at most.
MOST_PROBLEMS = 1000


@dataclass(frozen=True, slots=True)
class Resource:
    """A buffer: `size_in_bytes` long, zero but for the initial values, which lie at an offset (0 by default)."""

    name: str
    path: str
    initial_values: InitialValues
    size_in_bytes: int
    initial_values_offset_in_bytes: int

    @property
    def data_type(self) -> TensorDataType | None:
        """The type by which it is printed and written, or None for a list of mixed types."""
        return self.initial_values.data_type

    @property
    def used_size_in_bytes(self) -> int:
        """Its size up to the last initial value: printing leaves out the padding behind."""
        return self.initial_values_offset_in_bytes + self.initial_values.size_in_bytes


@dataclass(frozen=True, slots=True)
class BindingSource:
    """A resource to bind, from `element_offset` on; None: as given by the resource's own data type."""

    resource: str
    path: str
    element_offset: int = 0
    element_count: int | None = None
    element_size_in_bytes: int | None = None


Bindings = Mapping[str, tuple[BindingSource, ...]]
"""Resources by bind point, the name of a tensor field (``InputTensor``); arrays of tensors take several."""


@dataclass(frozen=True, slots=True)
class Dispatchable:
    """An operator or a graph to compile. `bindings` are those of initialisation, for tensors OWNED_BY_DML.

    `desc_path` is the path of the descriptor's fields; `compile_graph` says that it is to be compiled as a graph, which
    changes nothing in what an operator computes.
    """

    name: str
    path: str
    desc_path: str
    desc: Operator | GraphDesc
    compile_graph: bool
    execution_flags: ExecutionFlags
    bindings: Bindings

    @property
    def operator_count(self) -> int:
        """The number of operators in it."""
        nodes = self.desc.nodes if isinstance(self.desc, GraphDesc) else (self.desc,)
        return sum(not isinstance(node, ConstantNode) for node in nodes)


@dataclass(frozen=True, slots=True)
class DispatchCommand:
    """Run a dispatchable."""

    path: str
    dispatchable: str
    bindings: Bindings


@dataclass(frozen=True, slots=True)
class PrintCommand:
    """Print the elements of a resource, with their bits where `verbose`."""

    path: str
    resource: str
    verbose: bool


@dataclass(frozen=True, slots=True)
class WriteFileCommand:
    """Write a resource to a file: NumPy array, image, text (.csv) or raw bytes, by the suffix of `target_path`.

    `dimensions` are the array's, or the image's [1, channels, height, width]; empty: all elements in one dimension.
    """

    path: str
    resource: str
    target_path: Path
    dimensions: tuple[int, ...]


Command = DispatchCommand | PrintCommand | WriteFileCommand


@dataclass(frozen=True, slots=True)
class Model:
    """A whole model. `parameters` are the commands as they stand in the file.

    `memory_limit` is the most bytes that its resources and the temporaries of its operators may take together.
    `unreadable` is what could not be read, of a model that was read as far as possible to be checked.
    """

    resources: Mapping[str, Resource]
    dispatchables: Mapping[str, Dispatchable]
    commands: tuple[Command, ...]
    parameters: tuple[Any, ...] = field(repr=False)
    memory_limit: int = DEFAULT_MEMORY_LIMIT
    unreadable: tuple[FormatProblem, ...] = ()


def read(
    path: Path,
    *,
    input_path: Path | None = None,
    output_path: Path | None = None,
    memory_limit: int = DEFAULT_MEMORY_LIMIT,
    in_part: bool = False,
    onnx: OnnxChoices = NO_CHOICES,
    feature_level: FeatureLevel | str = FeatureLevel.LEVEL_6_4,
) -> Model:
    """Read a model file.

    Args:
        path: the model.
        input_path: folder of the files it reads; by default the model's own.
        output_path: folder of the files it writes; by default the current directory.
        memory_limit: the most bytes that its resources and the temporaries of its operators may take together.
        in_part: leave out what cannot be read, and say so in the model's `unreadable`: for checking.
        onnx: how ONNX dispatchables are compiled; its sizes come before those of the file.
        feature_level: where the operators that express ONNX dispatchables are taken from.

    Raises:
        ModelFormatError: the file cannot be read, or something in it is wrong.
    """
    from opendml.formats.recognition import EMPTY, first_bytes, other_format

    other = other_format(first_bytes(path), "dxdispatch")
    if other:
        raise ModelFormatError("", f"not a DxDispatch model: {other}")
    try:
        text = read_file(path, MODEL_FILE_LIMIT).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelFormatError("", f"not UTF-8 text: {error.reason} at byte {error.start}") from None
    except MemoryError:
        raise ModelFormatError("", _NO_MEMORY) from None
    except (OSError, ValueError) as error:
        if isinstance(error, ModelFormatError):
            raise
        raise ModelFormatError("", f"cannot read the file: {getattr(error, 'strerror', None) or error}") from None
    if not text.strip():
        raise ModelFormatError("", EMPTY)
    folders = Folders(path.parent if input_path is None else input_path, output_path or Path())
    return parse_model(
        text, folders, memory_limit=memory_limit, in_part=in_part, onnx=onnx, feature_level=feature_level
    )


def parse_model(
    text: str,
    folders: Folders,
    *,
    memory_limit: int = DEFAULT_MEMORY_LIMIT,
    in_part: bool = False,
    onnx: OnnxChoices = NO_CHOICES,
    feature_level: FeatureLevel | str = FeatureLevel.LEVEL_6_4,
) -> Model:
    """A model from JSON text; otherwise as `read`."""
    root, attempt = _parse_in_memory(text), _Attempts(in_part)
    attempt(root.members, ("resources", "dispatchables", "commands"))
    models = attempt(OnnxDispatchables, root, folders, onnx, feature_level)
    models = models or OnnxDispatchables(Node({}, ""), folders, onnx, feature_level)

    def resource(name: str, node: Node) -> Resource:
        return parse_resource(name, models.resource(name, node), folders)

    found = attempt.each(resource, attempt.members(root, "resources") | models.implicit)
    resources = {name: resource for name, resource in found.items() if resource is not None}
    attempt(check_memory, resources.values(), memory_limit)

    def dispatchable(name: str, node: Node) -> Dispatchable:
        return _parse_dispatchable(name, node, found, folders)

    nodes = attempt.members(root, "dispatchables")
    read = attempt.each(dispatchable, {name: node for name, node in nodes.items() if name not in models.names})
    dispatchables = {name: dispatchable for name, dispatchable in read.items() if dispatchable is not None}
    dispatchables |= _graph_dispatchables(models)
    missing = (found.keys() - resources.keys()) | (read.keys() - dispatchables.keys())
    known = _Known(resources, dispatchables, folders, models)
    commands = [
        (attempt(_parse_command, node, known), node.value)
        for node in attempt(lambda: root.member("commands").elements()) or []
        if not missing.intersection(_names_in(node.value))
    ]
    sound = [(command, parameters) for command, parameters in commands if command is not None]
    return Model(
        resources,
        dispatchables,
        tuple(command for command, _ in sound),
        tuple(parameters for _, parameters in sound),
        memory_limit,
        tuple(attempt.problems),
    )


_NO_MEMORY: Final = "there is no memory to read it"


def _parse_in_memory(text: str) -> Node:
    try:
        return parse(text)
    except MemoryError:
        raise ModelFormatError("", _NO_MEMORY) from None


def _graph_dispatchables(onnx: OnnxDispatchables) -> dict[str, Dispatchable]:
    return {
        name: Dispatchable(name, f"dispatchables.{name}", "", graph, True, ExecutionFlags.NONE, {})
        for name, graph in onnx.graphs.items()
    }


class _Attempts:
    """Reads parts of a model one by one. ``in_part``: what is wrong with one is kept, and None read in its place; what
    refers to it is left out without a word."""

    def __init__(self, in_part: bool) -> None:
        self._in_part = in_part
        self.problems: list[FormatProblem] = []

    def __call__(self, read: Callable[..., T], *arguments: Any) -> T | None:
        """What is read."""
        try:
            return read(*arguments)
        except ModelFormatError as error:
            if not self._in_part:
                raise
            self.problems.extend(error.problems)
            if len(self.problems) > MOST_PROBLEMS:
                first, *others = self.problems[:MOST_PROBLEMS]
                end = FormatProblem("", f"reading ends here: these are {MOST_PROBLEMS} problems")
                raise ModelFormatError(first.path, first.message, [*others, end]) from None
            return None

    def members(self, root: Node, name: str) -> dict[str, Node]:
        """The members of a member of the root."""
        return self(lambda: root.member(name).members()) or {}

    def each(self, read: Callable[[str, Node], T], nodes: Mapping[str, Node]) -> dict[str, T | None]:
        """What is read of nodes that have names."""

        def in_memory(name: str, node: Node) -> T:
            try:
                return read(name, node)
            except MemoryError:
                node.fail(_NO_MEMORY)

        return {name: self(in_memory, name, node) for name, node in nodes.items()}


def _names_in(value: Any) -> Iterator[str]:
    """All texts in a JSON value."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, (dict, list)):
            pending += value.values() if isinstance(value, dict) else value


@dataclass(frozen=True, slots=True)
class _Known:
    """What commands may refer to."""

    resources: Mapping[str, Resource]
    dispatchables: Mapping[str, Dispatchable]
    folders: Folders
    onnx: OnnxDispatchables

    def resource(self, node: Node) -> Resource:
        name = node.text()
        if name not in self.resources:
            node.fail(unknown_name("resource", name, self.resources))
        return self.resources[name]


def parse_resource(name: str, node: Node, folders: Folders) -> Resource:
    """A resource from its JSON. Raises ModelFormatError."""
    node.members(
        known=(
            "type",
            "initialValues",
            "initialValuesDataType",
            "initialValuesOffsetInBytes",
            "sizeInBytes",
            "resampleSize",
            "resampleMode",
        )
    )
    kind = node.optional("type")
    if kind is not None and kind.text() != "buffer":
        kind.fail("resources must be of the type 'buffer'")
    values = parse_initial_values(node, folders)
    offset_node, size_node = node.optional("initialValuesOffsetInBytes"), node.optional("sizeInBytes")
    offset = 0 if offset_node is None else offset_node.unsigned(64)
    # DirectML binds multiples of 4 bytes, so a size that is not given is rounded up; one that is given stays.
    size = (offset + values.size_in_bytes + 3) // 4 * 4 if size_node is None else size_node.unsigned(64, minimum=1)
    if offset + values.size_in_bytes > size:
        (size_node or node).fail(
            f"{size} bytes are too small for {values.size_in_bytes} bytes of initial values at offset {offset}"
        )
    return Resource(name, node.path, values, size, offset)


def check_memory(resources: Iterable[Resource], limit: int) -> None:
    """Raises ModelFormatError if the resources together are larger than the limit."""
    total = 0
    for resource in resources:
        total += resource.size_in_bytes
        if total > limit:
            raise ModelFormatError(
                resource.path,
                f"the resources up to this one need {total} bytes; the limit is {limit} bytes (--memory_limit)",
            )


def _parse_dispatchable(name: str, node: Node, resources: Collection[str], folders: Folders) -> Dispatchable:
    type_node = node.members().get("Type") or node.member("type")
    kind = type_node.text().lower()
    if kind in _NOT_SUPPORTED:
        type_node.fail(f"{_NOT_SUPPORTED[kind]} dispatchables are not supported yet; operators of DirectML are")
    if kind == _SERIALIZED_GRAPH:
        return _parse_serialized_graph(name, node, resources, folders)
    return _parse_operator_dispatchable(name, node, type_node, resources)


def _parse_serialized_graph(name: str, node: Node, resources: Collection[str], folders: Folders) -> Dispatchable:
    """A graph from a file; what its tensors are called in bindings stands in the file."""
    members = node.members(known=("type", "Type", "sourcePath", "executionFlags", "bindings"))
    source = node.member("sourcePath")
    try:
        graph = read_graph(folders.source(source))
    except ModelFormatError as error:
        if error.path == source.path:
            raise
        source.fail(str(error))
    flags = members.get("executionFlags")
    return Dispatchable(
        name,
        node.path,
        node.path,
        graph,
        True,
        ExecutionFlags.NONE if flags is None else _parse_execution_flags(flags),
        {} if "bindings" not in members else _parse_bindings(members["bindings"], resources),
    )


def _parse_operator_dispatchable(name: str, node: Node, type_node: Node, resources: Collection[str]) -> Dispatchable:
    members = node.members()
    own = {member: members.pop(member) for member in _DISPATCHABLE_MEMBERS if member in members}
    members.pop(type_node.path.rpartition(".")[2], None)
    desc = members.pop("Desc", None) or members.pop("desc", None)
    if desc is not None:
        extra = next((member for member in members if not is_remark(member)), None)
        if extra is not None:
            node.fail(unknown_name("member", extra, ("type", "desc", *_DISPATCHABLE_MEMBERS)))
        fields, desc_path = desc.value, desc.path
    else:
        fields, desc_path = {member: members[member].value for member in members if not is_remark(member)}, node.path
    flags = own.get("executionFlags")
    return Dispatchable(
        name,
        node.path,
        desc_path,
        _parse_operator(type_node, fields, desc_path),
        _parse_compile_type(own.get("dmlCompileType")),
        ExecutionFlags.NONE if flags is None else _parse_execution_flags(flags),
        {} if "bindings" not in own else _parse_bindings(own["bindings"], resources),
    )


def _parse_operator(type_node: Node, fields: Any, desc_path: str) -> Operator:
    try:
        return Operator.from_json({"Type": type_node.value, "Desc": fields})
    except DescriptorFormatError as error:
        first, *others = (_problem_of_model(found, type_node, desc_path) for found in error.problems)
        raise ModelFormatError(first.path, first.message, others) from None


def _problem_of_model(found: FormatProblem, type_node: Node, desc_path: str) -> FormatProblem:
    """A problem of a descriptor with its path from the root of the file."""
    head, dot, rest = found.path.partition(".")
    return FormatProblem(desc_path + dot + rest if head == "Desc" else type_node.path, found.message)


def _parse_compile_type(node: Node | None) -> bool:
    if node is None:
        return False
    kinds = {"DmlCompileOp": False, "DmlCompileGraph": True}
    if node.text() not in kinds:
        node.fail(unknown_name("compile type", node.text(), kinds))
    return kinds[node.text()]


def _parse_execution_flags(node: Node) -> ExecutionFlags:
    flags = ExecutionFlags.NONE
    for name in node.elements() if isinstance(node.value, list) else [node]:
        try:
            flags |= ExecutionFlags.parse(name.text())
        except ModelFormatError:
            raise
        except ValueError:
            name.fail(unknown_name("execution flag", name.text(), [flag.name or "" for flag in ExecutionFlags]))
    return flags


def _parse_bindings(node: Node, resources: Collection[str]) -> Bindings:
    return {
        name: tuple(
            _parse_binding_source(source, resources)
            for source in (sources.elements() if isinstance(sources.value, list) else [sources])
        )
        for name, sources in node.members().items()
    }


def _parse_binding_source(node: Node, resources: Collection[str]) -> BindingSource:
    if not isinstance(node.value, (str, dict)):
        node.expected("the name of a resource, an object, or an array of these")
    name = node if isinstance(node.value, str) else node.member("name")
    if name.text() not in resources:
        name.fail(unknown_name("resource", name.text(), resources))
    if isinstance(node.value, str):
        return BindingSource(name.text(), node.path)
    members = node.members(known=_BINDING_MEMBERS)
    if "counter" in members:
        members["counter"].fail("counters belong to HLSL dispatchables, which are not supported")
    numbers = {member: members[member].unsigned(64) for member in members if member.startswith("element")}
    size = numbers.get("elementSizeInBytes", numbers.get("elementStride"))
    return BindingSource(
        name.text(), node.path, numbers.get("elementOffset", 0), numbers.get("elementCount") or None, size or None
    )


def _parse_command(node: Node, known: _Known) -> Command:
    kind = node.member("type").text().lower()
    if kind not in _COMMANDS:
        node.member("type").fail(unknown_name("command", kind, ("dispatch", "print", "writeFile")))
    parsed: Command = _COMMANDS[kind](node, known)
    return parsed


def _parse_dispatch(node: Node, known: _Known) -> DispatchCommand:
    members = node.members(known=("type", "dispatchable", "bindings", "threadGroupCount"))
    name = node.member("dispatchable")
    found = known.onnx.name_of(node)
    if found not in known.dispatchables:
        name.fail(unknown_name("dispatchable", name.text(), known.dispatchables))
    if "threadGroupCount" in members:  # of no meaning to operators
        for count in members["threadGroupCount"].elements(count=3):
            count.unsigned(32, minimum=1)
    bindings = _parse_bindings(node.member("bindings"), known.resources)
    implicit = {tensor: (BindingSource(one, one),) for tensor, one in known.onnx.bindings_of(node).items()}
    return DispatchCommand(node.path, found, {**implicit, **bindings})


def _parse_print(node: Node, known: _Known) -> PrintCommand:
    members = node.members(known=("type", "resource", "verbose"))
    resource = known.resource(node.member("resource"))
    if resource.data_type is None:
        members["resource"].fail("a list of mixed types cannot be printed: it has no data type")
    return PrintCommand(node.path, resource.name, "verbose" in members and members["verbose"].boolean())


def _parse_write_file(node: Node, known: _Known) -> WriteFileCommand:
    members = node.members(known=("type", "resource", "targetPath", "dimensions"))
    resource = known.resource(node.member("resource"))
    target = node.member("targetPath")
    path = known.folders.target(target)
    dimensions: tuple[int, ...] = ()
    if "dimensions" in members:
        dimensions = tuple(size.unsigned(32, minimum=1) for size in members["dimensions"].elements())
    suffix = path.suffix.lower()
    if suffix in (".npy", ".csv", *IMAGE_SUFFIXES):
        _check_dimensions(node, resource, dimensions)
    if suffix in IMAGE_SUFFIXES:
        _check_image(node, resource, dimensions, IMAGE_SUFFIXES[suffix])
    return WriteFileCommand(node.path, resource.name, path, dimensions)


def _check_dimensions(node: Node, resource: Resource, dimensions: tuple[int, ...]) -> None:
    if resource.data_type is None:
        node.member("resource").fail("a list of mixed types can only be written as raw bytes: it has no data type")
    if len(dimensions) > 32:
        node.member("dimensions").fail("there may be at most 32 dimensions")
    needed = resource.data_type.dtype.itemsize
    for size in dimensions:
        needed *= size
    if dimensions and needed > resource.size_in_bytes:
        node.member("dimensions").fail(
            f"they need {needed} bytes, but resource {quoted(resource.name)} has {resource.size_in_bytes}"
        )


def _check_image(node: Node, resource: Resource, dimensions: tuple[int, ...], image_format: str) -> None:
    if len(dimensions) != 4 or dimensions[0] != 1 or dimensions[1] not in (1, 3, 4):
        (node.optional("dimensions") or node).fail(
            "an image needs the dimensions [1, channels, height, width] with 1, 3 or 4 channels"
        )
    if image_format == "JPEG" and dimensions[1] == 4:
        node.member("dimensions").fail("JPEG images have 1 or 3 channels")
    if resource.data_type not in (TensorDataType.FLOAT16, TensorDataType.FLOAT32):
        node.member("resource").fail("only FLOAT16 and FLOAT32 resources can be written as images")
    require_pillow(node.member("targetPath"))


_NOT_SUPPORTED = {"hlsl": "HLSL"}
_SERIALIZED_GRAPH = "dmlserializedgraph"
_DISPATCHABLE_MEMBERS = ("dmlCompileType", "executionFlags", "bindings")
_BINDING_MEMBERS = (
    "name",
    "format",
    "elementCount",
    "elementSizeInBytes",
    "elementStride",
    "elementOffset",
    "counter",
    "counterOffsetBytes",
    "shape",
)
_COMMANDS: dict[str, Any] = {"dispatch": _parse_dispatch, "print": _parse_print, "writefile": _parse_write_file}
