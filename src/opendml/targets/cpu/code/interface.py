"""What code and the programs made of it agree on."""

from __future__ import annotations

from typing import Final

ENTRY: Final = "opendml_entry"
"""The function that all threads run together."""
