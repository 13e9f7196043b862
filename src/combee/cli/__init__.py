"""The command line: a table of commands, each loaded when it is called.

Exit codes: 0 done, 1 the run failed, 2 the call is wrong, 130 stopped by the user. Every command takes `--json`.
"""

from __future__ import annotations

from combee.cli.main import run

__all__ = ["run"]
