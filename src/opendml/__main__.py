"""``python -m opendml``: the program ``opendml``."""

from opendml.command_line import run_program

run_program()
