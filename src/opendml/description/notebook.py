"""What notebooks show: tables and text as HTML. Everything is escaped, and there is no script, no style sheet and no
colour, so a notebook's own light or dark style holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

__all__ = ["paragraphs", "preformatted", "table"]

MOST_ROWS: Final = 200
"""Rows of a table; of the others their number is told."""

_LEFT: Final = ' style="text-align: left"'


def table(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a title; of many rows the first ones."""
    given = iter(rows)
    shown = list(islice(given, MOST_ROWS))
    head = "".join(f"<th{_LEFT}>{_text(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(f'<td{_LEFT}>{_text(cell)}</td>' for cell in row)}</tr>" for row in shown)
    left = sum(1 for _ in given)
    more = f'<tr><td colspan="{len(headings)}"{_LEFT}>and {left} more</td></tr>' if left else ""
    caption = f'<caption style="caption-side: top; text-align: left">{_text(title)}</caption>'
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}{more}</tbody></table>"


def paragraphs(lines: Iterable[str]) -> str:
    """A paragraph a line."""
    return "".join(f"<p>{_text(line)}</p>" for line in lines)


def preformatted(text: str) -> str:
    """Text as it stands, scrolled where it is long."""
    return f'<pre style="max-height: 40em; overflow: auto; white-space: pre">{_text(text)}</pre>'


def _text(value: object) -> str:
    """Escaped, without characters that steer what shows them."""
    import html  # with all names of characters, which only notebooks need

    text = str(value)
    return html.escape("".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text))
