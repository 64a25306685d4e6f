"""Errors a user can cause: one clear line, exit status 2, no traceback."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can mend. The message says what, where, and what to do.

    `bench.cli.main` prints it as one line on stderr and exits with status 2. Errors nobody
    expected are never turned into a `UserError`: they keep their traceback.
    """
