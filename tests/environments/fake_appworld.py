"""A server with the interface of AppWorld's environment server, and a model that acts there; both in this process.

A task is passed when `zebra()` was run before it was completed; the model runs that only where a lesson names it.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LESSON = "Run zebra() before you complete a task with supervisor.complete_task."
ROUTES = ("/initialize", "/execute", "/task_completed", "/evaluate", "/close", "/tasks/{task_id}", "/api_docs")


class _Json(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, value: Any, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def given(self) -> dict[str, Any]:
        return dict(json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


class World(_Json):
    """One world at a time. `asked` are all calls, `data` whether AppWorld's data is there."""

    data = True
    failing = 0
    """Calls of /evaluate that fail from now on."""
    asked: list[tuple[str, str]]
    ran: list[str]

    def do_GET(self) -> None:
        if self.path == "/openapi.json":
            self.answer({"paths": dict.fromkeys(ROUTES)})
        elif not type(self).data:
            self.answer({"detail": "data/tasks is not there"}, 500)
        elif self.path == "/api_docs":
            self.answer({"phone": {}, "venmo": {}})
        else:
            self.answer({"output": {"instruction": f"Do what {self.path.rpartition('/')[2]} says."}})

    def do_POST(self) -> None:
        kind, given, route = type(self), self.given(), self.path[1:]
        kind.asked.append((route, given["task_id"]))
        if route == "evaluate" and kind.failing:
            kind.failing -= 1
            self.answer({"detail": "Internal Server Error"}, 500)
            return
        if route == "initialize":
            kind.ran = []
        if route == "execute":
            kind.ran.append(given["code"])
        done = "complete_task" in "".join(kind.ran)
        passed = done and "zebra()" in "".join(kind.ran)
        tests = [{"requirement": "assert the zebra was asked"}]
        judged = {"success": passed, "difficulty": 1 + len(kind.asked) % 2, "passes": [], "failures": []}
        judged["passes" if passed else "failures"] = tests
        said = {"execute": "Execution successful.", "task_completed": done, "evaluate": judged}
        self.answer({"output": said.get(route)})


class Model(_Json):
    """Acts by code; where no lesson names the zebra it forgets it. `told` are the prompts."""

    told: list[str]
    again: threading.Event
    most = 10**9
    """Replies after which the model gives none for a long while."""

    def do_POST(self) -> None:
        messages = self.given()["messages"]
        type(self).told.append(json.dumps(messages))
        if len(type(self).told) > type(self).most:
            self.again.wait(60)
            return
        first = len(messages) == 2
        zebra = "zebra()" in messages[0]["content"]
        code = "print(apis.phone)" if first else f"{'zebra()' if zebra else 'pass'}\napis.supervisor.complete_task()"
        text = f"I look [use-00001].\n```python\n{code}\n```"
        if "key_insight" in (prompt := messages[0]["content"] + messages[-1]["content"]):
            text = json.dumps({"reasoning": "", "key_insight": LESSON, "bullet_tags": []})
        elif '"operations"' in prompt:
            sources = [int(number) for number in re.findall(r"(?:reflection|Record) (\d+)", prompt)]
            add = {"type": "ADD", "section": "OTHERS", "content": LESSON, "bullet_ids": [], "sources": sources}
            text = json.dumps({"reasoning": "", "operations": [add]})
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        self.answer(
            {"id": "x", "model": "m", "choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 5}}
        )


@contextmanager
def served(kind: type[BaseHTTPRequestHandler], **start: Any) -> Iterator[tuple[str, Any]]:
    """Serve a kind of handler; yields its address and the handler, whose attributes tell what came."""
    made = type(kind.__name__, (kind,), start)
    with ThreadingHTTPServer(("127.0.0.1", 0), made) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", made
        server.shutdown()
        thread.join()
