"""An agent from outside, as a program: `guest_agent.py WORLD NAME REPOSITORY [dies]`. It works until no issue is open.

One that `dies` (its name is cay) takes an issue, leases its path, says so, and then does nothing more. The others begin
when another has an issue too, so that each does a part of the work however slow its start is.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from mcp.client.stdio import stdio_client

from mcp import Client, StdioServerParameters


def git(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return ran("git", "-C", str(place), "-c", "user.name=x", "-c", "user.email=x@y", *words)


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False)


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def said(client: Client, tool: str, **given: str) -> str:
    result: Any = await client.call_tool(tool, given)
    return "".join(block.text for block in result.content)


async def work(world: str, name: str, repository: Path, *, dies: bool) -> None:
    words = ["-m", "combee", "swarm", "mcp", world, "--as", name, "--repository", str(repository), "--hold", "0.02"]
    async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=words))) as client:
        own = repository.parent / f"{repository.name}-{name}"
        add = re.search(r"`(git -C .*? worktree add .*?)`", await said(client, "briefing"))
        assert add is not None
        assert ran(*add[1].split()).returncode == 0
        waits = not dies
        while True:
            listed = await said(client, "issues")
            if listed == "There are none.":
                break
            free = re.search(r"^(\d+) part (\w+)(?!.*held by)", listed, re.MULTILINE)
            if free is None or not (await said(client, "take", issue=free[1])).startswith("Yours."):
                await asyncio.sleep(0.2)
                continue
            while waits and "\n" in listed and re.search(rf"held by (?!{name}|cay)", listed) is None:
                await asyncio.sleep(0.05)
                listed = await said(client, "issues")
            waits = False
            await do(client, own, *free.groups(), name=name, dies=dies)
        tell(f"{name} ended")


async def do(client: Client, own: Path, issue: str, part: str, *, name: str, dies: bool) -> None:
    leased = await said(client, "lease", path=f"parts/{part}.txt")
    assert "yours" in leased, leased
    tell(f"{name} holds {issue}")
    if dies:
        await asyncio.sleep(600)
    (own / "parts").mkdir(exist_ok=True)
    (own / "parts" / f"{part}.txt").write_text(f"{part} by {name}\n")
    with (own / "LIST").open("a") as file:
        file.write(f"{part}\n")
    git(own, "add", "-A")
    git(own, "commit", "-q", "-m", part)
    merged = await said(client, "merge", branch=name)
    while merged.startswith("error: conflict in LIST"):
        git(own, "merge", "-q", "main")
        lines = [line for line in (own / "LIST").read_text().splitlines() if line[:1].isalnum()]
        (own / "LIST").write_text("".join(f"{line}\n" for line in dict.fromkeys(lines)))
        git(own, "add", "-A")
        git(own, "commit", "-q", "--no-edit")
        merged = await said(client, "merge", branch=name)
    assert merged.startswith("Merged"), merged
    assert await said(client, "close", issue=issue) == "Closed."
    assert await said(client, "release", path=f"parts/{part}.txt") == "Released."


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], Path(sys.argv[3]), dies=sys.argv[4:] == ["dies"]))
