"""The page of a run while it goes on, served on the loopback address: read-only, and nothing but this one run.

The page is made anew for each request from the journal, which another process writes; its script fetches the head every
two seconds and loads the page once more when the run has ended.
"""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from combee.errors import CombeeError, UsageError
from combee.report.html import join
from combee.report.read import read_run
from combee.report.run import run_head, run_page

__all__ = ["HEAD", "live_server"]

HEAD = "/head"
_LOOPBACK = "127.0.0.1"


class _Handler(BaseHTTPRequestHandler):
    """Answers GET of the page and of its head."""

    folder: Path
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        # DNS rebinding: a foreign page whose host name resolves to this machine must not read the run.
        host = self.headers.get("host", "").rpartition(":")[0]
        if host not in {_LOOPBACK, "localhost"}:
            self._answer(HTTPStatus.FORBIDDEN, "Open this page as localhost, on this machine only.")
        elif self.path not in {"/", HEAD}:
            self._answer(HTTPStatus.NOT_FOUND, "Only / is served here.")
        else:
            try:
                record = read_run(self.folder, rows=self.path != HEAD)
            except CombeeError as error:
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, error.message)
                return
            done = record.finished is not None
            text = join(run_head(record)) if self.path == HEAD else run_page(record, live=None if done else HEAD)
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


def live_server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """Return a server of the run in `folder`, bound to 127.0.0.1; `serve_forever` runs it. Port 0: any that is free.

    Raises:
        UsageError: There is no run, or the port is taken.
        StorageError: The journal is damaged.
    """
    read_run(folder, rows=False)
    handler = type("_RunHandler", (_Handler,), {"folder": folder})
    try:
        return ThreadingHTTPServer((_LOOPBACK, port), handler)
    except OSError as error:
        raise UsageError(f"Port {port} cannot be used: {error.strerror}.", hint="Give another --port.") from error
