"""Pages that stay fresh, served on the loopback address: read-only, and nothing but the one thing that they show.

A page is made anew for each request from what another process writes; its script fetches the head every two seconds
and loads the page once more when there is nothing left to come.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from combee.errors import CombeeError, UsageError
from combee.report.html import join
from combee.report.read import read_run
from combee.report.run import run_head, run_page

__all__ = ["HEAD", "Shown", "live_server", "page_server"]

HEAD = "/head"
_LOOPBACK = "127.0.0.1"

Shown = Callable[[bool], tuple[str, bool]]
"""Returns the page, or its head where that alone is asked for, and whether nothing more will come."""


class _Handler(BaseHTTPRequestHandler):
    """Answers GET of the page and of its head."""

    shown: Shown
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        # DNS rebinding: a foreign page whose host name resolves to this machine must not read what is shown.
        host = self.headers.get("host", "").rpartition(":")[0]
        if host not in {_LOOPBACK, "localhost"}:
            self._answer(HTTPStatus.FORBIDDEN, "Open this page as localhost, on this machine only.")
        elif self.path not in {"/", HEAD}:
            self._answer(HTTPStatus.NOT_FOUND, "Only / is served here.")
        else:
            try:
                text, done = type(self).shown(self.path == HEAD)
            except CombeeError as error:
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, error.message)
                return
            self._answer(HTTPStatus.OK, text, kind="text/html", done=done)

    def _answer(self, status: HTTPStatus, text: str, *, kind: str = "text/plain", done: bool = False) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if done:
            self.send_header("X-Done", "1")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the base class gives it
        """Say nothing: the terminal shows the address."""


def _run(folder: Path, head: bool) -> tuple[str, bool]:
    record = read_run(folder, rows=not head)
    done = record.finished is not None
    return join(run_head(record)) if head else run_page(record, live=None if done else HEAD), done


def live_server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """Return a server of the run in `folder`, bound to 127.0.0.1; `serve_forever` runs it. Port 0: any that is free.

    Raises:
        UsageError: There is no run, or the port is taken.
        StorageError: The journal is damaged.
    """
    read_run(folder, rows=False)
    return page_server(partial(_run, folder), port)


def page_server(shown: Shown, port: int = 0) -> ThreadingHTTPServer:
    """Return a server of one page, bound to 127.0.0.1.

    Raises:
        UsageError: The port is taken.
    """
    handler = type("_PageHandler", (_Handler,), {"shown": staticmethod(shown)})
    try:
        return ThreadingHTTPServer((_LOOPBACK, port), handler)
    except OSError as error:
        raise UsageError(f"Port {port} cannot be used: {error.strerror}.", hint="Give another --port.") from error
