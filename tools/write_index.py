"""Write the indices of operators and functions: which file has which, for imports on first use and for type checkers.

    python tools/write_index.py

What the files under ``src/opendml/operators`` and ``src/opendml/functions`` declare goes to ``operators/__init__.py``
and to the package's own ``__init__.py``, in place of what stands there. Nothing is imported, so that this works before
the index is right. An operator is a class with ``type=OperatorType.NAME``; a function is a public one that takes a
``device``, or a class of several outputs, in a file named as a family of operators; in ``views.py`` any public one.
"""

from __future__ import annotations

import ast
import functools
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parent.parent / "src" / "opendml"
OPERATORS: Final = PACKAGE / "operators" / "__init__.py"
EXPORTS: Final = PACKAGE / "__init__.py"

WIDTH: Final = 120


def texts() -> dict[Path, str]:
    """The two files as they should be."""
    return {OPERATORS: operators_text(OPERATORS.read_text()), EXPORTS: exports_text(EXPORTS.read_text())}


def operators_text(text: str) -> str:
    """``operators/__init__.py`` with the operators that the files of the families declare."""
    families = {file: dict(_operators(tree)) for file, tree in _trees("operators")}
    families = {file: dict(sorted(found.items())) for file, found in families.items() if found}
    imports = "".join(_imports(f"operators.{file}", list(found)) for file, found in families.items())
    index = _entries({file: list(found.values()) for file, found in families.items()})
    text = re.sub(r"(?<=    # isort: off\n).*?(?=    # isort: on\n)", lambda _: imports, text, flags=re.DOTALL)
    return re.sub(r"(?<=\n_FAMILIES = \{\n).*?(?=\}\n)", lambda _: index, text, flags=re.DOTALL)


def exports_text(text: str) -> str:
    """``__init__.py`` with the functions that the files of functions have."""
    families = {file for file, tree in _trees("operators") if any(_operators(tree))} | {"views"}
    found = {file: sorted(_functions(tree, file == "views")) for file, tree in _trees("functions") if file in families}
    found = {file: names for file, names in found.items() if names}
    imports = "".join(
        _import(f"functions.{file if name[0].isupper() else 'typed'}", name)
        for file, names in found.items()
        for name in names
    )
    text = _replaced(text, r"(?m)^    from opendml\.functions\.\w+ import (?:\([^)]*\)|\w+ as \w+)\n", imports)
    index = _entries({f"functions.{file}": names for file, names in found.items()})
    return _replaced(text, r'(?m)^    "functions\.\w+": (?:"[^"]*"|"""[^"]*"""),\n', index)


def _replaced(text: str, pattern: str, new: str) -> str:
    """The text with ``new`` in place of the first of the lines of a pattern, and without the others."""
    first = re.search(pattern, text)
    assert first is not None
    return text[: first.start()] + new + re.sub(pattern, "", text[first.start() :])


@functools.cache
def _trees(folder: str) -> list[tuple[str, ast.Module]]:
    return [(path.stem, ast.parse(path.read_text())) for path in sorted((PACKAGE / folder).glob("[a-z]*.py"))]


def _operators(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The classes of operators, and DirectML's names of these."""
    for node in tree.body:
        for keyword in node.keywords if isinstance(node, ast.ClassDef) else ():
            if keyword.arg == "type" and isinstance(keyword.value, ast.Attribute):
                assert isinstance(node, ast.ClassDef)
                yield node.name, keyword.value.attr


def _functions(tree: ast.Module, is_all: bool) -> Iterator[str]:
    """The functions on arrays, or all public ones, and the classes of their outputs."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            arguments = [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
            if is_all or "device" in arguments:
                yield node.name
        elif isinstance(node, ast.ClassDef) and node.name.endswith("Outputs"):
            yield node.name


def _imports(module: str, names: Sequence[str]) -> str:
    lines = "".join(f"        {name} as {name},\n" for name in names)
    return f"    from opendml.{module} import (\n{lines}    )\n"


def _import(module: str, name: str) -> str:
    line = f"    from opendml.{module} import {name} as {name}\n"
    return line if len(line) <= WIDTH else _imports(module, [name])


def _entries(index: Mapping[str, Sequence[str]]) -> str:
    """Entries of a dictionary of names, on as many lines as they take."""
    return "".join(_entry(key, " ".join(names)) for key, names in index.items())


def _entry(key: str, names: str) -> str:
    line = f'    "{key}": "{names}",\n'
    if len(line) <= WIDTH:
        return line
    wrapped = textwrap.fill(names, WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return f'    "{key}": """\n{wrapped}\n    """,\n'


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text)
