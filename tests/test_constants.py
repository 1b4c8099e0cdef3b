"""No knobs outside of their classes: every number that has a name in a module is on the page about them.

And definitions do not look at strides."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import opendml

SOURCE = Path(opendml.__file__).parent
PAGE = Path(__file__).parent.parent / "docs" / "constants.md"
PACKAGES = ("operators", "expression", "graph", "loops", "building", "functions", "targets/cpu")
KINDS = {"meaning", "arithmetic", "bound", "interface", "measurement"}


def is_number(value: ast.expr) -> bool:
    """Whether an expression is a number, or consists of numbers."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int | float) and not isinstance(value.value, bool)
    if isinstance(value, ast.UnaryOp):
        return is_number(value.operand)
    if isinstance(value, ast.BinOp):
        return is_number(value.left) and is_number(value.right)
    if isinstance(value, ast.Tuple | ast.List | ast.Set):
        return any(map(is_number, value.elts))
    return isinstance(value, ast.Dict) and any(map(is_number, value.values))


def numbers(text: str) -> Iterator[str]:
    """The names that a module gives to numbers."""
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value and is_number(statement.value):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def modules(package: str) -> Iterator[tuple[str, str]]:
    """Path without its suffix, and text, of all modules of a package."""
    for path in sorted((SOURCE / package).rglob("*.py")):
        yield path.relative_to(SOURCE).with_suffix("").as_posix(), path.read_text(encoding="utf-8")


def listed() -> dict[str, str]:
    """The constants on the page, each with its kind."""
    rows = [line.split("|")[1:4] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert all(kind.strip() in KINDS and why.strip() for _, kind, why in rows)
    names = [name.strip().strip("`") for name, _, _ in rows]
    assert len(names) == len(set(names))
    return dict(zip(names, (kind.strip() for _, kind, _ in rows), strict=True))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("LANES: Final = 16", ["LANES"]),
        ("A = 1 << 4\nB: Final = -2.0 ** 60", ["A", "B"]),
        ("SIZES = (2, 3)\nTABLE = {'x': 1}", ["SIZES", "TABLE"]),
        ("NAME = 'x'\nT = TypeVar('T')\nIS = True\ndef f():\n    x = 1", []),
    ],
)
def test_numbers_are_found(text: str, found: list[str]) -> None:
    assert list(numbers(text)) == found


def test_every_number_has_a_reason() -> None:
    page = listed()
    used = set[str]()
    for package in PACKAGES:
        for module, text in modules(package):
            for name in numbers(text):
                entry = next((e for e in (f"{module}.{name}", f"{module}.*") if e in page), None)
                assert entry is not None, f"{module}.{name} is a knob (a field of a class), or has a row in {PAGE.name}"
                used.add(entry)
    assert page.keys() == used, "the page has constants that are gone"


@pytest.mark.parametrize("package", ["operators", "expression/reductions"])
def test_definitions_do_not_look_at_strides(package: str) -> None:
    """Strides of tensors are in the tensors of the grammar, and nowhere asked for; windows have strides, too."""
    asked = set[str]()
    for module, text in modules(package) if "/" not in package else [(package, (SOURCE / f"{package}.py").read_text())]:
        for e in ast.walk(ast.parse(text)):
            if isinstance(e, ast.Attribute) and e.attr in ("strides", "effective_strides"):
                owner = ast.unparse(e.value)
                if e.attr == "effective_strides" or owner.rpartition(".")[2] not in ("self", "desc"):
                    asked.add(f"{module}: {owner}.{e.attr}")
    assert asked <= ALLOWED, asked - ALLOWED


ALLOWED = {
    "operators/definition: desc.effective_strides",
    "operators/quantization: desc.effective_strides",
}
"""Where a descriptor's strides become a tensor's, and where elements of 4 bits are in the bytes that a tensor has."""
