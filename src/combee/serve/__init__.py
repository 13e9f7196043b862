"""One address for agents: traces come in over HTTP, lessons go out as versions that were tried on live traffic.

One process, SQLite underneath; learning runs in a child process. It needs the extra `serve`, and joins the command line
by entry points.
"""

from __future__ import annotations
