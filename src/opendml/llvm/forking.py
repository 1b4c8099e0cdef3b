"""Locks and forks: a child process begins with no lock held by a thread that it does not have."""

from __future__ import annotations

import os
from collections.abc import Callable


def hold_while_forking(acquire: Callable[[], object], release: Callable[[], object]) -> None:
    """Have a lock taken around every fork, so that what it guards is whole in the child.

    Locks are taken in the opposite order of these calls. So a lock that is taken while another one is held must be
    given here before that one.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=acquire, after_in_parent=release, after_in_child=release)
