"""The README and the pages of the documentation: every Python block runs and prints what the page says, every command
works, and what is generated from the code is complete."""

import contextlib
import doctest
import importlib.util
import io
import itertools
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import opendml as dml
from opendml.command_line import main
from opendml.inspection.decisions import Decision, find_decisions, find_names, find_sections, read_semantics

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


class Block(NamedTuple):
    """A fenced block: its language, text and line, and the error that the comment before it announces."""

    language: str
    text: str
    line: int
    raises: str | None


def blocks_of(path: Path) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    fence = re.compile(r"(?:<!-- raises (\w+) -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [
        Block(found[2], found[3], text.count("\n", 0, found.start(3)) + 1, found[1]) for found in fence.finditer(text)
    ]


def followed(path: Path) -> list[tuple[Block, Block | None]]:
    """The blocks of a page, each with the one behind it."""
    blocks = blocks_of(path)
    return list(itertools.zip_longest(blocks, blocks[1:]))


def with_language(language: str) -> list[Path]:
    return [path for path in PAGES if any(block.language == language for block in blocks_of(path))]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def check_output(got: str, block: Block | None, place: str) -> None:
    """Whether a block's output is that of the ``text`` block behind it, where ``...`` stands for anything."""
    if block is None or block.language != "text":
        return
    checker = doctest.OutputChecker()
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert checker.check_output(block.text, got, flags), f"{place} prints\n{got}\nand not\n{block.text}"


@pytest.mark.parametrize("path", with_language("python"), ids=relative)
def test_python_blocks_run_in_order(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block, after in followed(path):
        if block.language == "python":
            place = f"{relative(path)}:{block.line}"
            check_output(run_python(block, names, place), after, place)


def run_python(block: Block, names: dict[str, object], place: str) -> str:
    code = compile("\n" * (block.line - 1) + block.text, place, "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if block.raises is None:
            exec(code, names)
        else:
            with pytest.raises(dml.OpendmlError) as caught:
                exec(code, names)
            message = f"{caught.type.__name__}: {caught.value}\n"
            check_output(message, Block("text", announced(block), block.line, None), place)
    return printed.getvalue()


def announced(block: Block) -> str:
    """The message that the comments at the end of a block show."""
    comments = re.search(r"(?:^#.*\n?)+\Z", block.text, re.MULTILINE)
    assert comments is not None, f"line {block.line}: the block shows no message"
    return "".join(line.removeprefix("#").removeprefix(" ") + "\n" for line in comments[0].splitlines())


def commands() -> Iterator[tuple[Path, Block, str, Block | None]]:
    for path in PAGES:
        for block, after in followed(path):
            lines = block.text.splitlines() if block.language == "sh" else []
            for line in lines:
                for command in re.split(r"&&|\|", line):
                    if command.strip().startswith("opendml "):
                        yield path, block, command.strip(), after if len(lines) == 1 else None


@pytest.mark.parametrize(
    "path, block, command, after", list(commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_commands_work(path: Path, block: Block, command: str, after: Block | None, tmp_path: Path) -> None:
    arguments = shlex.split(command)[1:]
    arguments = [str(ROOT / argument) if argument.startswith("examples/") else argument for argument in arguments]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.chdir(tmp_path):
        status = main(arguments)
    place = f"{relative(path)}:{block.line}"
    assert status == (1 if arguments[0] == "check" else 0), f"{place}: {command}"
    if after is not None and "Running on" in after.text:
        check_output(re.sub(r"'[^']*Processor[^']*'", "'...'", printed.getvalue()), relaxed(after), place)
    else:
        check_output(printed.getvalue(), after, place)


def relaxed(block: Block) -> Block:
    """Names of processors and times are those of some machine."""
    text = re.sub(r"(?<=Running on ')[^']*", "...", block.text)
    return block._replace(text=re.sub(r"[\d.]+(?= ms)", "...", text))


def test_a_wrong_output_is_noticed() -> None:
    block = Block("text", "1\n...\n", 1, None)
    check_output("1\n2\n", block, "")
    with pytest.raises(AssertionError, match="prints"):
        check_output("2\n2\n", block, "")


def generator() -> ModuleType:
    path = ROOT / "tools" / "documentation_pages.py"
    spec = importlib.util.spec_from_file_location("documentation_pages", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_operator_has_its_place_in_the_reference_and_in_the_semantics() -> None:
    pages = dict(generator().generated_pages(ROOT / "docs"))
    families = "\n".join(text for path, text in pages.items() if path.startswith("reference/operators/"))
    for name in dml.catalogue:
        assert f"## {name} " in families
        row = next(line for line in pages["semantics_by_operator.md"].splitlines() if line.startswith(f"| {name} |"))
        assert "semantics.md#" in row, f"docs/semantics.md does not mention {name}"


def test_decisions_are_found_by_the_names_of_operators() -> None:
    page = """# Page

- General: nothing.

## Copies

- SLICE*, CAST: bits are copied, as by IDENTITY.
- What POW does is told elsewhere.
- Nothing else.

## Pooling (MAX_POOLING, AVERAGE_POOLING)

- Windows are walked
  in order, as those of SLICE.
- AVERAGE_POOLING: one division.

## ONNX models

- SLICE: copied.
"""
    names = (
        "SLICE",
        "SLICE_GRAD",
        "CAST",
        "ACTIVATION_IDENTITY",
        "ELEMENT_WISE_POW",
        "MAX_POOLING2",
        "AVERAGE_POOLING",
    )
    found = find_decisions(page, names)
    copies = Decision("Copies", "SLICE*, CAST: bits are copied, as by IDENTITY.")
    walked = Decision("Pooling", "Windows are walked in order, as those of SLICE.")
    assert found == {
        "SLICE": [copies],
        "SLICE_GRAD": [copies],
        "CAST": [copies],
        "ACTIVATION_IDENTITY": [],
        "ELEMENT_WISE_POW": [Decision("Copies", "What POW does is told elsewhere.")],
        "MAX_POOLING2": [walked],
        "AVERAGE_POOLING": [walked, Decision("Pooling", "AVERAGE_POOLING: one division.")],
    }


def test_every_operator_has_decisions() -> None:
    found = find_decisions(read_semantics(), tuple(dml.catalogue))
    assert [name for name, decisions in found.items() if not decisions] == []


def test_deliberate_deviations_are_listed() -> None:
    """Wherever the page says that it departs from DirectML, the list at its end names the operators."""
    listed: set[str] = set()
    named: set[str] = set()
    for title, body in find_sections(read_semantics()):
        if title == "Deliberate deviations":
            listed = find_names(body, list(dml.catalogue))
    for name, decisions in find_decisions(read_semantics(), tuple(dml.catalogue)).items():
        if any("eliberate deviation" in decision.text for decision in decisions):
            named.add(name)
    assert len(named) > 3
    assert named <= listed


def test_links_to_semantics_have_targets() -> None:
    module = generator()
    sections = find_sections((ROOT / "docs" / "semantics.md").read_text())
    anchors = {module.anchor_of(section.title) for section in sections}
    index = module.semantics_index((ROOT / "docs" / "semantics.md").read_text(), list(dml.catalogue))
    assert {anchor for sections in index.values() for _, anchor in sections} <= anchors


def test_the_architecture_page_shows_what_the_stages_make() -> None:
    spec = importlib.util.spec_from_file_location("architecture_page", ROOT / "tools" / "architecture_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert page == module.with_part(page, module.written_part()), "python tools/architecture_page.py writes it anew"
