"""`python -m combee` and the `combee` command."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    from combee.cli import run

    sys.exit(run())


if __name__ == "__main__":
    main()
