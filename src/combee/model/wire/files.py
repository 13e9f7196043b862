"""The system's limit of open files: each connection is one, and many systems start programs with 256 or 1,024."""

from __future__ import annotations

import contextlib
import sys

if sys.platform != "win32":
    import resource  # now: when there is no file left, it could not be read any more

__all__ = ["raise_file_limit"]


def raise_file_limit() -> bool:
    """Raise this process's limit as far as it may itself; returns whether it rose."""
    if sys.platform == "win32":
        return False
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for most in (1 << 20, 1 << 16, 10_240):  # some systems allow less than their hard limit says
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        if soft != resource.RLIM_INFINITY and wanted > soft:
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                return True
    return False
