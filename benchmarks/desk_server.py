"""A chat endpoint that answers as the desks of the example do, some milliseconds late and in no fixed order."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import web

from combee.swarm.example import SHELVES

_LESSON = re.compile(r"\[([^\]\s]+)\] The tool `read` failed.*? when `path` was `([^`]+)` instead of `([^`]+)`")
_QUESTION = re.compile(r"asks: Look into the (\w+): what holds for case (\d+)\?")


@dataclass
class Desk:
    """What the endpoint is told to do, and what it saw; `down` answers nothing with sense."""

    url: str = ""
    seconds: float = 0.02
    down: bool = False
    asked: int = 0
    bare: int = 0
    prompts: list[str] = field(default_factory=list)


def reply(messages: list[dict[str, str]]) -> tuple[dict[str, object], bool]:
    """Return what a desk says, and whether it was given lessons."""
    desk = re.search(r"Desk: (\w+)", messages[0]["content"])
    texts = [one["content"] for one in messages if one["role"] == "user"]
    last = max((n for n, text in enumerate(texts) if _QUESTION.search(text)), default=None)
    if desk is None or last is None:
        return says("Nothing."), True
    asked = _QUESTION.search(texts[last])
    assert asked
    results = texts[last + 1 :]
    path = f"{desk[1]}/{asked[1]}.md"
    lessons = [found for text in texts for found in _LESSON.findall(text)]
    if results and "error:" not in results[-1]:
        found = re.search(rf"case {asked[2]}: (.+)$", results[-1], re.MULTILINE)
        named = [name for name, new, old in lessons if old == path][:1] if len(results) == 1 else []
        return says((found[1] if found else "Not there.") + "".join(f" [{one}]" for one in named)), True
    if len(results) > 2:
        return says("I do not know."), True
    if results:
        chance = random.Random(hashlib.sha256("\n".join(texts).encode()).hexdigest())
        return says(path=f"{chance.choice(SHELVES)}/{path}"), True
    for _, new, old in lessons:
        if old == path:
            return says(path=new), True
    return says(path=path), any("Lessons from earlier runs" in text for text in texts)


def says(text: str = "", path: str = "") -> dict[str, object]:
    return {"text": text, "calls": [{"tool": "read", "arguments": {"path": path}}] if path else []}


@contextmanager
def desk_server() -> Iterator[Desk]:
    """Serve in a thread of its own."""
    desk, started, ended = Desk(), threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []
    order = random.Random()  # of no seed: replies come in another order each time

    async def chat(request: web.Request) -> web.Response:
        messages = (await request.json())["messages"]
        await asyncio.sleep(desk.seconds * (0.5 + order.random()))
        if desk.down:
            return web.json_response({"error": {"message": "try later"}}, status=401)
        said, given = reply(messages)
        desk.asked += 1
        desk.bare += not given
        desk.prompts.append("\n".join(one["content"] for one in messages))
        message = {"role": "assistant", "content": json.dumps(said)}
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        return web.json_response(
            {"choices": [{"index": 0, "finish_reason": "stop", "message": message}], "usage": usage}
        )

    async def serve() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", chat)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        desk.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        loops.append(asyncio.get_running_loop())
        started.set()
        await ended.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    started.wait()
    try:
        yield desk
    finally:
        loops[0].call_soon_threadsafe(ended.set)
        thread.join()
