"""The loop of a swarm: each message goes to its agent, which replies and uses tools until there is a text to pass on.

Order is that of sending. One agent handles one message at a time; questions to an agent that forks go to copies, which
run beside it. With scripted agents everything happens in one order, so a run is repeated exactly. Every stretch between
two calls of a model is one step of the world, so a killed turn goes on after its last reply.

What no model could be had for stays where it is, and the next run does it: an outage ends no task. Answers to several
questions of one turn are read together, in the order of the questions, whichever came first.

What a copy has: its origin's context as it was, notes and documents to read, and the right to ask. It writes nothing
(no document, note, issue or proposal), and no process is copied: agents of this runtime hold none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from combee.errors import CallError, CallErrorKind
from combee.swarm.agents import AgentModel, View
from combee.swarm.briefing import COPY, ROSTER, Lessons, delivered, lessons_entry
from combee.swarm.context import Call, Compaction, Entry, Window, append, count
from combee.swarm.knowledge import credit
from combee.swarm.mail import Mail, finish, get_mail, group, key_of, most_for, ready, unanswered
from combee.swarm.repository import FrozenRepository, Repository
from combee.swarm.state import USER, SwarmLimits, SwarmState, bounce
from combee.swarm.tools import TOOLS, Tool, offered, perform
from combee.swarm.turn import Turn, begin_call, book, booked_in_any_case, end, fail, make_room, no_room, relay
from combee.swarm.world import AgentRow, World

__all__ = ["USER", "Swarm", "SwarmLimits", "Waiting"]

_SAME_MISTAKE = 5  # replies in a row that make one call and get one error: the next ones would too, and are paid
_OUTAGES = 4  # messages in a row for which a server gave nothing: it is down, and the others need not try
_OWN_FAULT = {CallErrorKind.CONTEXT_TOO_LONG, CallErrorKind.CONTENT_FILTER, CallErrorKind.BAD_REQUEST}
_OWN_FAULT |= {CallErrorKind.LENGTH, CallErrorKind.NOT_JSON, CallErrorKind.SCHEMA, CallErrorKind.EMPTY}
_MAYBE = {CallErrorKind.SERVER, CallErrorKind.TRUNCATED_BODY, CallErrorKind.ERROR_IN_BODY, CallErrorKind.AGENT}


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that is done by a later run: for whose sake it was sent, and why no model could be had."""

    mail: Mail
    why: str


class Swarm(SwarmState):
    """A world with models for its agents' roles, and the loop that hands each message to its agent.

    Args:
        world: Where everything is kept.
        models: What decides for the agents of a role; "" stands for every other role.
        compactions: What is done when a window is full, by role; "" for others. Default: the newest quarter is kept.
        repository: Documents are files of this git repository.
        tools: What agents can use; default: everything in `combee.swarm.tools`.
        lessons: What agents have learned; each question comes with the part of it that fits.
        limits: Fields of `SwarmLimits`.
    """

    def __init__(
        self,
        world: World,
        models: Mapping[str, AgentModel],
        *,
        compactions: Mapping[str, Compaction] | None = None,
        repository: Repository | None = None,
        tools: Sequence[Tool] = TOOLS,
        lessons: Lessons | None = None,
        **limits: int,
    ) -> None:
        super().__init__(
            world, models, compactions=compactions, repository=repository, lessons=lessons,
            limits=SwarmLimits(**limits),
        )  # fmt: skip
        self.tools = {tool.spec.name: tool for tool in tools}
        self._specs = tuple(tool.spec for tool in tools)
        self.hold_digests = False
        """Whether what copies bring back waits for `bring_back`, so that copies made meanwhile begin alike."""
        self.waiting: dict[int, Waiting] = {}
        """Messages that wait for the next run, because no model could be had for them."""
        self._again: list[Mail] = []
        self._outages = 0
        self.after: Callable[[], None] = lambda: None
        """Called whenever messages have been handled to their end."""
        self._active: dict[asyncio.Task[bool], tuple[str, Mail]] = {}

    def on(self, world: World) -> Swarm:
        """Return the same swarm on a copy of its world. It reads the repository, and changes nothing there."""
        repository = FrozenRepository(self.repository.root) if self.repository is not None else None
        there = Swarm(
            world, self.models, compactions=self.compactions, repository=repository, tools=tuple(self.tools.values()),
            lessons=self.lessons, **asdict(self.limits),
        )  # fmt: skip
        there.structure = self.structure
        return there

    def kill(self, name: str, reason: str = "stopped") -> None:
        """End an agent and the copies that answer for it. The calls that they wait for are cancelled, and booked.

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
        """Close the connections of the models that have any; to be called in the event loop that used them."""
        for model in self.models.values():
            close = getattr(model, "aclose", None)
            if close is not None:
                await close()

    # The loop

    async def run(self) -> int:
        """Handle messages until none is left that can be handled now; returns how many were handled to their end."""
        lanes: dict[str, deque[Mail]] = {}
        active = self._active
        last, handled = 0, 0
        self.waiting, self._again, self._outages = {}, [], 0
        try:
            while True:
                while found := self._again or ready(self.world, last, digests=not self.hold_digests):
                    last = max(last, found[-1].id) if found is not self._again else last
                    for mail in found:
                        lanes.setdefault(self._lane(mail), deque()).append(mail)
                    self._again = []
                started, ended = await self._round(lanes)
                handled += ended
                if active and not started:
                    self.world.flush()
                    done, _ = await asyncio.wait(active, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        active.pop(task)
                        handled += 0 if task.cancelled() else task.result()  # `kill` has seen to its mail
                    self.after()
                elif not active and not lanes and not started and not self._again:
                    self.world.flush()
                    return handled
        finally:
            for task in active:
                task.cancel()
            await asyncio.gather(*active, return_exceptions=True)
            active.clear()
            self.world.flush()

    def try_again(self, root: int) -> None:
        """Take up what waits for the sake of one message, in the run that is going on."""
        found = [one.mail for one in self.waiting.values() if one.mail.first == root]
        for mail in found:
            del self.waiting[mail.id]
        self._again += [again for mail in found if (again := get_mail(self.world, mail.id)) is not None]
        self._outages = min(self._outages, _OUTAGES - 1)

    @property
    def outage(self) -> str:
        """Why no model can be had, where none can be had at all; else empty."""
        return next((one.why for one in self.waiting.values()), "") if self._outages >= _OUTAGES else ""

    async def bring_back(self, wanted: Callable[[Mail], bool] = lambda mail: True) -> None:
        """Read what copies have brought back and was held, in the order of its keys; nothing else may run meanwhile."""
        held = [mail for mail in ready(self.world, limit=-1) if mail.kind == "digest" and wanted(mail)]
        for mail in sorted(held, key=lambda mail: mail.key):
            await self._handle(mail)

    def _lane(self, mail: Mail) -> str:
        """Return what a message must wait for: other messages to the same agent, or nothing, if a copy takes it."""
        if mail.kind != "ask":
            return mail.recipient
        agent = self.world.agent(mail.recipient)
        copies = agent is not None and agent.mode == "fork" and mail.target in {"", agent.name}
        return f"{mail.recipient}~{mail.id}" if copies else mail.recipient

    async def _round(self, lanes: dict[str, deque[Mail]]) -> tuple[int, int]:
        """Start the first message of every lane that is free; returns how many, and how many of them came to an end."""
        active = self._active
        busy = {lane for lane, _ in active.values()}
        only_slow = all(model.slow for model in self.models.values())
        started, ended = 0, 0
        for lane in [lane for lane in lanes if lane not in busy]:
            if only_slow and len(active) >= self.limits.concurrency:
                break  # looking at each of thousands that wait would take longer than they do
            agent = self.world.agent(lanes[lane][0].recipient)
            slow = agent is not None and self.model(agent.role).slow
            if slow and len(active) >= self.limits.concurrency:
                continue
            mail = lanes[lane].popleft()
            if not lanes[lane]:
                del lanes[lane]
            started += 1
            if slow:
                active[asyncio.create_task(self._handle(mail))] = lane, mail
            else:
                ended += await self._handle(mail)
                self.after()
        await asyncio.sleep(0)
        return started, ended

    async def _handle(self, mail: Mail) -> bool:
        """Handle one message; False where it waits for others, or for a model. Only our own errors are raised."""
        world = self.world
        agent = world.agent(mail.recipient)
        if agent is None or agent.state == "dead" or agent.incarnation != mail.incarnation:
            bounce(self, mail, "dead")
            return True
        if agent.state == "full" and mail.kind == "ask":
            bounce(self, mail, "full")
            return True
        ask = get_mail(world, mail.thread) if mail.thread is not None else None
        siblings: list[Mail] = []
        if ask is not None and ask.cause is not None:
            if world.one(_UNANSWERED, ask.cause, agent.name) is not None:
                return False  # the last answer is still to come, and brings this one with it
            siblings = group(world, agent.name, ask.cause)
            if all(one.id != mail.id for one in siblings):  # another answer was first
                return finish(world, mail.id, "done")
            mail = siblings.pop()
        cause = get_mail(world, ask.cause) if ask is not None and ask.cause is not None else None
        current = mail if mail.kind == "ask" else cause if cause is not None and cause.kind == "ask" else None
        if mail.state in {"done", "bounced"}:
            return True
        turn = self._begin(agent, mail, current)
        try:
            if self.outage and self.model(agent.role).slow:
                raise CallError(self.outage, kind=CallErrorKind.CONNECTION)
            await self._take(turn, siblings)
        except CallError as error:
            if error.kind in _OWN_FAULT:
                fail(turn, error.message, outside=True)
                return True
            self._outages = self._outages + 1 if error.kind in _MAYBE else _OUTAGES
            self.waiting[mail.id] = Waiting(mail, error.message)
            world.record("waits", agent.name, why=error.message, mail=mail.id)
            return False
        self._outages = 0 if self.model(agent.role).slow else self._outages
        return True

    async def _take(self, turn: Turn, siblings: Sequence[Mail]) -> None:
        """Deliver a message with the answers that came before it, and decide what it asks for."""
        mail, current = turn.mail, turn.current
        for one in [*siblings, mail]:
            if one.state == "queued" and not await self._deliver(turn, one):
                return
        if mail.kind == "digest":
            with self.world.step():
                finish(self.world, mail.id, "done")
        elif current is not None and current.target not in {"", turn.agent.name}:
            relay(turn, current)
        else:
            await self._decide(turn)

    def _begin(self, agent: AgentRow, mail: Mail, current: Mail | None) -> Turn:
        """Return the turn that a message takes: a question to an agent that forks goes to a copy of it as it is now."""
        forks = mail.kind == "ask" and agent.mode == "fork" and mail.target in {"", agent.name}
        if not forks:
            return Turn(self, agent, self.window(agent), mail, current, self._steps(agent, mail))
        origin = self.window(agent)
        with self.world.step():
            rows = origin.entries[-1].row if origin.entries else 0  # rows only grow
            fork = (agent.name, rows, self.world.value("SELECT max(id) FROM events") or 0)
            copy = self.world.spawn(
                f"{agent.name}~{mail.id}", role=agent.role, parent=agent.name, mode="serial", window=agent.window,
                key=key_of("fork", mail.key), fork=fork, depth=agent.depth,
            )  # fmt: skip
        if mail.state == "queued" and (copy.fork_of, copy.fork_row, copy.fork_mark) == fork:
            self.windows[copy.name, copy.incarnation] = origin.copy()
        return Turn(self, copy, self.window(copy), mail, current, self._steps(copy, mail))

    def _steps(self, agent: AgentRow, mail: Mail) -> int:
        """Return the replies that were had for a message before; summaries and what was cancelled are none."""
        if mail.state == "queued":
            return 0
        sql = "SELECT count(*) FROM spend WHERE agent = ? AND mail = ? AND purpose = ?"
        return int(self.world.value(sql, agent.name, mail.id, mail.kind))

    async def _deliver(self, turn: Turn, mail: Mail) -> bool:
        """Put a message into the context of its agent, with what it must know beside it. False: it is refused."""
        world, agent, window = self.world, turn.agent, turn.window
        sender = world.agent(mail.sender)
        entry = Entry("user", delivered(mail, sender), kind=mail.kind, mail=mail.id)
        beside = self._beside(turn, mail)
        tokens = entry.tokens + sum(one.tokens for one in beside)
        if why := await make_room(turn, tokens, lessons=not beside):
            no_room(turn, why, tokens, "a message with what must stand beside it")
            return False
        with world.step():
            if not finish(world, mail.id, "delivered"):
                return True
            if any(one.kind == ROSTER for one in window.entries):  # making room has told it anew
                beside = [one for one in beside if one.kind != ROSTER or one.text == COPY]
            for one in beside:
                append(world, agent, window, replace(one, mail=mail.id))
            append(world, agent, window, entry)
            if mail.id != turn.mail.id:
                finish(world, mail.id, "done")
            if mail.kind == "digest" and sender is not None:
                self._credit(agent, mail, sender)
        return True

    def _beside(self, turn: Turn, mail: Mail) -> list[Entry]:
        """Return what an agent is told before a message: its world, once, and the lessons that fit a question."""
        agent, entries = turn.agent, turn.window.entries
        told: list[Entry] = []
        if mail.kind in {"ask", "tell"} and self.briefed(agent):
            if not any(entry.kind == ROSTER for entry in entries):
                told.append(self.briefing(agent))
            elif agent.fork_of is not None:
                told.append(Entry("user", COPY, kind=ROSTER))
        if mail.kind == "ask" and mail.target in {"", agent.origin}:
            lessons = lessons_entry(self.lessons_of(mail), agent.role, mail.body, entries)
            told += [lessons] if lessons is not None else []
        return told

    def _credit(self, agent: AgentRow, mail: Mail, copy: AgentRow) -> None:
        """Note what an agent has heard of in a digest, or read where a copy brought everything back."""
        subjects = [(mail.subject, "")] if mail.subject and agent.returns == "digest" else []
        if agent.returns == "full":
            subjects = self.world.rows("SELECT subject, version FROM reads WHERE agent = ?", copy.name)
        for subject, version in subjects:
            credit(self.world, agent.name, agent.incarnation, subject, version)

    async def _decide(self, turn: Turn) -> None:
        """Let the model reply, and use tools as it says, until there is a text to pass on."""
        model = self.model(turn.agent.role)
        briefed = self.briefed(turn.agent)
        shortened = False
        while True:
            if not await self._use_tools(turn):
                return
            if (why := _no_end(turn)) is not None:
                fail(turn, why)
                return
            tools = offered(self, turn.agent, tuple(self.tools.values())) if briefed else self._specs
            view = View(turn.agent, turn.mail, turn.current, tuple(turn.window.entries), turn.window.room(), tools)
            begin_call(turn)
            with booked_in_any_case(turn):
                reply = await model.reply(view)
            book(turn, reply, turn.mail.kind)
            turn.step += 1  # it is paid, whatever becomes of it
            said = Entry("assistant", reply.text, kind="thought", calls=reply.calls)
            long = "" if reply.calls else self._too_long(turn, reply.text)
            if long and not shortened:
                shortened, again = True, Entry("user", f"error: {long}. Answer again, shorter.", kind="refused")
                if not await make_room(turn, said.tokens + again.tokens):
                    with self.world.step():
                        append(self.world, turn.agent, turn.window, said)
                        append(self.world, turn.agent, turn.window, again)
                    continue
            if long:
                fail(turn, long, kind="refused")
                return
            why = await make_room(turn, said.tokens)
            if why and reply.calls:
                no_room(turn, why, said.tokens, "a reply")
                return
            with self.world.step():
                if not why:
                    append(self.world, turn.agent, turn.window, said)
                if not reply.calls:
                    end(turn, reply.text)
                    return

    def _too_long(self, turn: Turn, text: str) -> str:
        """Return why an answer can never be read by who asked; empty where it can."""
        asker = self.world.agent(turn.current.sender) if turn.current is not None else None
        if asker is None or asker.mode == "outside" or count(text) <= most_for(asker.window):
            return ""
        return f"the answer has {count(text):,} tokens, {asker.origin} takes at most {most_for(asker.window):,}"

    async def _use_tools(self, turn: Turn) -> bool:
        """Use the tools of the last reply that have no result yet. False: the agent takes nothing more."""
        reply, done = _last_reply(turn.window)
        for number, call in enumerate(reply.calls if reply else ()):
            if number < done:
                continue
            try:
                self._use_tool(turn, call, number)
            except _NoRoomError as none:
                why = await make_room(turn, none.tokens, tail=number + 1)
                if why == "full":
                    no_room(turn, why, none.tokens, "a result")
                    return False
                if why:
                    self._say_too_long(turn, call, none.tokens)
                else:
                    self._use_tool(turn, call, number)
        return True

    def _use_tool(self, turn: Turn, call: Call, number: int) -> None:
        with self.world.step():
            entry = Entry("tool", perform(turn, call, number, self.tools), kind="result", answers=call.id)
            if turn.window.room() < entry.tokens:
                raise _NoRoomError(entry.tokens)
            append(self.world, turn.agent, turn.window, entry)

    def _say_too_long(self, turn: Turn, call: Call, tokens: int) -> None:
        """Put the reason in the place of a result that cannot be read; what the tool did is undone."""
        why = f"error: the result of {call.name} has {tokens:,} tokens, your window has room for {turn.window.room():,}"
        hint = ". Read some lines of it." if call.name == "read" else ". Nothing was done."
        with self.world.step():
            append(self.world, turn.agent, turn.window, Entry("tool", why + hint, kind="result", answers=call.id))


_UNANSWERED = (
    "SELECT 1 FROM mail WHERE cause = ? AND kind = 'ask' AND sender = ? AND origin IS NULL AND answered IS NULL"
)


class _NoRoomError(Exception):
    """Undoes a step whose outcome does not fit into the window."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens


def _no_end(turn: Turn) -> str | None:
    """Return why a message is given up: its replies are used up, or the last ones made one mistake again and again."""
    limits = turn.state.limits
    calls, tokens = turn.state.spent(turn.mail.first)
    if calls >= limits.max_calls:
        return f"{calls:,} calls were made for one question; max_calls in [options] says how many there may be"
    if tokens >= limits.max_tokens:
        return f"{tokens:,} tokens were spent on one question; max_tokens in [options] says how many there may be"
    results = [entry.text for entry in reversed(turn.window.entries) if entry.role == "tool"]
    stuck = len(results) >= _SAME_MISTAKE and results[0].startswith("error:") and _repeats(turn.window)
    if not stuck and turn.step < limits.max_steps:
        return None
    said = f"; the last tool said: {results[0][:200]}" if results else ""
    if stuck:
        return f"no end in sight: the last {_SAME_MISTAKE} replies made the same call, which is none{said}"
    how = "a reply that calls no tool would have ended it"
    return f"no end after {turn.step} replies: {how}, and max_steps in [options] says how many there may be{said}"


def _repeats(window: Window) -> bool:
    """Return whether the last replies all made the same calls and were told the same."""
    turns: list[tuple[tuple[str, ...], ...]] = []
    results: list[str] = []
    for entry in reversed(window.entries):
        if entry.role == "tool":
            results.append(entry.text)
        elif entry.kind == "thought" and results:
            turns.append((tuple(f"{call.name} {call.arguments}" for call in entry.calls), tuple(results)))
            results = []
        else:
            break
        if len(turns) == _SAME_MISTAKE:
            break
    return len(turns) == _SAME_MISTAKE and len(set(turns)) == 1


def _last_reply(window: Window) -> tuple[Entry | None, int]:
    for results, entry in enumerate(reversed(window.entries)):
        if entry.role != "tool":
            return (entry if entry.kind == "thought" and entry.calls else None), results
    return None, 0
