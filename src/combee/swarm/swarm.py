"""Agents that live in a world: the loop that hands each message to its agent, and what others may ask of it.

Order is that of sending. One agent handles one message at a time; questions to an agent that forks go to copies, which
run beside it. With scripted agents everything happens in one order, so a run is repeated exactly.

What a copy has: its origin's context as it was, notes and documents to read, and the right to ask. It writes nothing
(no document, note, issue or proposal), and no process is copied: agents of this runtime hold none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from combee.errors import UsageError
from combee.swarm.brain import Brain, ToolSpec
from combee.swarm.context import load
from combee.swarm.directory import Document, publish, read, who_knows
from combee.swarm.lessons import Lessons
from combee.swarm.mail import HOP_LIMIT, About, Mail, get_mail, ready, send, unanswered
from combee.swarm.repository import FrozenRepository, Repository
from combee.swarm.routing import ask_towards, bounce
from combee.swarm.structure import Structure, current
from combee.swarm.tools import TOOL_SPECS
from combee.swarm.turns import handle
from combee.swarm.window import Compaction, Newest, Window
from combee.swarm.world import AgentRow, World

__all__ = ["USER", "Limits", "Swarm"]

USER = "user"
"""The name under which a person sends and receives mail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What agents may take."""

    reserve: int = 0
    """Tokens of a window that are kept free for the next thought."""
    digest_tokens: int = 200
    """Most that a copy's digest may bring back."""
    hop_limit: int = HOP_LIMIT
    """Longest chain of messages caused by messages."""
    max_steps: int = 50
    """Most thoughts for one message."""
    max_asks: int = 100
    """Most questions that an agent may ask for the sake of one."""
    concurrency: int = 16
    """Most slow thoughts at a time."""


class Swarm:
    """A world with brains for its agents' roles.

    Args:
        world: Where everything is kept.
        brains: A brain by role; "" stands for every other role.
        compactions: What is done when a window is full, by role; "" for others. Default: the newest quarter is kept.
        repository: Documents are files of this git repository.
        tools: What agents are offered; default: all tools.
        lessons: What agents have learned; each question comes with the part of it that fits.
        limits: Fields of `Limits`.
    """

    def __init__(
        self,
        world: World,
        brains: Mapping[str, Brain],
        *,
        compactions: Mapping[str, Compaction] | None = None,
        repository: Repository | None = None,
        tools: Sequence[ToolSpec] = TOOL_SPECS,
        lessons: Lessons | None = None,
        **limits: int,
    ) -> None:
        self.world = world
        self.brains = dict(brains)
        self.compactions = dict(compactions or {})
        self.repository = repository
        self.tools = tools
        self.lessons = lessons
        self.limits = Limits(**limits)
        self.after: Callable[[], None] = lambda: None
        """Called whenever messages have been handled to their end."""
        self.windows: dict[tuple[str, int], Window] = {}
        self._active: dict[asyncio.Task[None], tuple[str, Mail]] = {}
        now = current(world)
        self.structure = now.structure if now else Structure()
        with world.step():
            world.spawn(USER, role="person", mode="outside", window=0)
        self._asked = int((world.one("SELECT count(*) FROM mail WHERE sender = ?", USER) or (0,))[0])

    def on(self, world: World) -> Swarm:
        """Return the same swarm on a copy of its world. It reads the repository, and changes nothing there."""
        repository = FrozenRepository(self.repository.root) if self.repository is not None else None
        there = Swarm(
            world, self.brains, compactions=self.compactions, repository=repository, tools=self.tools,
            lessons=self.lessons, **asdict(self.limits),
        )  # fmt: skip
        there.structure = self.structure
        return there

    def brain(self, role: str) -> Brain:
        """Return what thinks for a role.

        Raises:
            UsageError: There is none.
        """
        found = self.brains.get(role) or self.brains.get("")
        if found is None:
            raise UsageError(f"no brain is given for the role {role!r}", hint=f"Known roles: {sorted(self.brains)}.")
        return found

    def compaction(self, role: str) -> Compaction:
        """Return what is done for a role when a window is full."""
        return self.compactions.get(role) or self.compactions.get("") or Newest()

    def window(self, agent: AgentRow) -> Window:
        """Return the window of an agent's incarnation; read from the world the first time."""
        key = (agent.name, agent.incarnation)
        if key not in self.windows:
            self.windows[key] = load(self.world, agent)
        return self.windows[key]

    # Documents

    def document(self, path: str) -> Document | None:
        """Return the newest version of a document; of a repository, what stands in its last commit."""
        if self.repository is not None:
            text = self.repository.read(path)
            if text is None:
                return None
            publish(self.world, path, text, "git")
        return read(self.world, path)

    def write(self, path: str, text: str, agent: str) -> int:
        """Write a document, and commit it where there is a repository; returns its version."""
        if self.repository is not None:
            self.repository.write(path, text, agent=agent)
        return publish(self.world, path, text, agent)

    # Messages

    def ask(
        self, sender: str, question: str, *, to: str = "", subject: str = "", key: str = "", cause: int | None = None
    ) -> int:
        """Send a question, to an agent or to whoever knows the subject best; returns its number, 0 if nobody does.

        A dead agent's question goes to the next who knows the subject. The structure says whether it goes straight.
        """
        key = key or f"{sender}/{self._next()}"
        if cause is not None:
            sql = "SELECT count(*) FROM mail WHERE cause = ? AND sender = ? AND kind = 'ask'"
            if (self.world.one(sql, cause, sender) or (0,))[0] >= self.limits.max_asks:
                self.world.record("refused", sender, why="asks", sender=sender, key=key)
                return 0
        row = self.world.agent(sender)
        own = (sender, row.origin) if row else (sender,)
        known = [one.agent for one in who_knows(self.world, subject, exclude=own)] if subject else []
        about = About(subject, cause=cause)
        for name in [to, *known] if to else known:
            sent = ask_towards(self, name, key=key, sender=sender, body=question, about=about)
            if sent.id:
                return sent.id
            if sent.refused == "hops":
                return 0
        return 0

    def tell(self, recipient: str, text: str, *, sender: str = USER, key: str = "") -> int:
        """Send news that needs no answer; returns its number, 0 when the recipient is not there."""
        key = key or f"{sender}/{self._next()}"
        return send(self.world, key=key, kind="tell", sender=sender, recipient=recipient, body=text).id

    def _next(self) -> int:
        self._asked += 1
        return self._asked

    def answer(self, number: int) -> Mail | None:
        """Return the answer (or the report that there is none) to a question, once it is there."""
        asked = get_mail(self.world, number)
        return get_mail(self.world, asked.answered) if asked is not None and asked.answered is not None else None

    def kill(self, name: str, reason: str = "stopped") -> None:
        """End an agent and the copies that answer for it. What they think at the moment is cancelled, and booked.

        Its mail comes back to the senders; questions that it has not answered go on to others, or are reported.
        """
        with self.world.step():
            gone = [name, *(agent.name for agent in self.world.agents(forks=True) if agent.fork_of == name)]
            for each in gone:
                agent = self.world.agent(each)
                if agent is not None and agent.state != "dead":
                    self.world.set_state(each, "dead", reason)
            for mail in unanswered(self.world, name):
                bounce(self, mail, "dead")
        self.windows = {key: window for key, window in self.windows.items() if key[0] not in gone}
        for task, (lane, mail) in self._active.items():
            if name in {lane, mail.recipient}:
                task.cancel()

    async def aclose(self) -> None:
        """Close the connections of the brains that have any; to be called in the event loop that used them."""
        for brain in self.brains.values():
            close = getattr(brain, "aclose", None)
            if close is not None:
                await close()

    # The loop

    async def run(self) -> int:
        """Handle messages until none is left; returns how many were handled."""
        lanes: dict[str, deque[Mail]] = {}
        active = self._active
        last, handled = 0, 0
        try:
            while True:
                while found := ready(self.world, last):
                    last = found[-1].id
                    for mail in found:
                        lanes.setdefault(self._lane(mail), deque()).append(mail)
                started = await self._round(lanes)
                handled += started
                if active and not started:
                    self.world.flush()
                    done, _ = await asyncio.wait(active, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        active.pop(task)
                        if not task.cancelled():  # else `kill` did that, and has seen to its mail
                            task.result()
                    self.after()
                elif not active and not lanes and not ready(self.world, last, 1):
                    self.world.flush()
                    return handled
        finally:
            for task in active:
                task.cancel()
            await asyncio.gather(*active, return_exceptions=True)
            active.clear()
            self.world.flush()

    def _lane(self, mail: Mail) -> str:
        """Return what a message must wait for: other messages to the same agent, or nothing, if a copy takes it."""
        if mail.kind != "ask":
            return mail.recipient
        agent = self.world.agent(mail.recipient)
        copies = agent is not None and agent.mode == "fork" and mail.target in {"", agent.name}
        return f"{mail.recipient}~{mail.id}" if copies else mail.recipient

    async def _round(self, lanes: dict[str, deque[Mail]]) -> int:
        """Start the first message of every lane that is free."""
        active = self._active
        busy = {lane for lane, _ in active.values()}
        only_slow = all(brain.slow for brain in self.brains.values())
        started = 0
        for lane in [lane for lane in lanes if lane not in busy]:
            if only_slow and len(active) >= self.limits.concurrency:
                break  # looking at each of thousands that wait would take longer than they do
            agent = self.world.agent(lanes[lane][0].recipient)
            slow = agent is not None and self.brain(agent.role).slow
            if slow and len(active) >= self.limits.concurrency:
                continue
            mail = lanes[lane].popleft()
            if not lanes[lane]:
                del lanes[lane]
            started += 1
            if slow:
                active[asyncio.create_task(handle(self, mail))] = lane, mail
            else:
                await handle(self, mail)
                self.after()
        await asyncio.sleep(0)
        return started
