"""The loop of a swarm: each message goes to its agent, which replies and uses tools until there is a text to pass on.

Order is that of sending. One agent handles one message at a time; questions to an agent that forks go to copies, which
run beside it. With scripted agents everything happens in one order, so a run is repeated exactly. Every stretch between
two calls of a model is one step of the world, so a killed turn goes on after its last reply.

What a copy has: its origin's context as it was, notes and documents to read, and the right to ask. It writes nothing
(no document, note, issue or proposal), and no process is copied: agents of this runtime hold none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace

from combee.errors import CallError
from combee.swarm.agents import AgentModel, ToolSpec, View
from combee.swarm.briefing import Lessons, lessons_entry
from combee.swarm.context import Call, Compaction, Entry, Window, append
from combee.swarm.mail import Mail, awaited, finish, get_mail, ready, unanswered
from combee.swarm.repository import FrozenRepository, Repository
from combee.swarm.state import USER, SwarmLimits, SwarmState, bounce
from combee.swarm.tools import TOOL_SPECS, perform
from combee.swarm.turn import Turn, begin_call, book, booked_in_any_case, end, fail, full, make_room, relay
from combee.swarm.world import AgentRow, World

__all__ = ["USER", "Swarm", "SwarmLimits", "handle"]


class Swarm(SwarmState):
    """A world with models for its agents' roles, and the loop that hands each message to its agent.

    Args:
        world: Where everything is kept.
        models: What decides for the agents of a role; "" stands for every other role.
        compactions: What is done when a window is full, by role; "" for others. Default: the newest quarter is kept.
        repository: Documents are files of this git repository.
        tools: What agents are offered; default: all tools.
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
        tools: Sequence[ToolSpec] = TOOL_SPECS,
        lessons: Lessons | None = None,
        **limits: int,
    ) -> None:
        super().__init__(
            world, models, compactions=compactions, repository=repository, tools=tools, lessons=lessons,
            limits=SwarmLimits(**limits),
        )  # fmt: skip
        self.after: Callable[[], None] = lambda: None
        """Called whenever messages have been handled to their end."""
        self._active: dict[asyncio.Task[None], tuple[str, Mail]] = {}

    def on(self, world: World) -> Swarm:
        """Return the same swarm on a copy of its world. It reads the repository, and changes nothing there."""
        repository = FrozenRepository(self.repository.root) if self.repository is not None else None
        there = Swarm(
            world, self.models, compactions=self.compactions, repository=repository, tools=self.tools,
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
        only_slow = all(model.slow for model in self.models.values())
        started = 0
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
                active[asyncio.create_task(handle(self, mail))] = lane, mail
            else:
                await handle(self, mail)
                self.after()
        await asyncio.sleep(0)
        return started


_SAME_MISTAKE = 5  # replies in a row that make one call and get one error: the next ones would too, and are paid


class _NoRoomError(Exception):
    """Undoes a step whose outcome does not fit into the window."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens


async def handle(state: SwarmState, mail: Mail) -> None:
    """Handle one message to its end. What goes wrong is reported to the sender; only our own errors are raised."""
    agent = state.world.agent(mail.recipient)
    if agent is None or agent.state == "dead" or agent.incarnation != mail.incarnation:
        bounce(state, mail, "dead")
        return
    if agent.state == "full" and mail.kind == "ask":
        bounce(state, mail, "full")
        return
    ask = get_mail(state.world, mail.thread) if mail.thread is not None else None
    cause = get_mail(state.world, ask.cause) if ask is not None and ask.cause is not None else None
    current = mail if mail.kind == "ask" else cause if cause is not None and cause.kind == "ask" else None
    turn = _begin(state, agent, mail, current)
    try:
        if mail.state == "queued" and not await _deliver(turn):
            return
        if mail.kind == "digest" or (ask is not None and awaited(state.world, agent.name, ask.cause)):
            with state.world.step():  # nothing to decide, or the last answer is still to come
                finish(state.world, mail.id, "done")
        elif current is not None and current.target not in {"", agent.name}:
            relay(turn, current)
        else:
            await _think(turn)
    except CallError as error:
        fail(turn, error.message, outside=True)


def _begin(state: SwarmState, agent: AgentRow, mail: Mail, current: Mail | None) -> Turn:
    """Return the turn that a message takes: a question to an agent that forks goes to a copy of it as it is now."""
    forks = mail.kind == "ask" and agent.mode == "fork" and mail.target in {"", agent.name}
    if not forks:
        return Turn(state, agent, state.window(agent), mail, current, _steps(state, agent, mail))
    key = f"fork/{mail.id}"
    origin = state.window(agent)
    with state.world.step():
        last = state.world.one("SELECT max(id) FROM events") or (None,)
        rows = origin.entries[-1].row if origin.entries else 0  # rows only grow
        copy = state.world.spawn(
            f"{agent.name}~{mail.id}", role=agent.role, parent=agent.name, mode="serial", window=agent.window, key=key,
            fork=(agent.name, rows, last[0] or 0),
        )  # fmt: skip
    if mail.state == "queued":
        state.windows[copy.name, copy.incarnation] = origin.copy()
    return Turn(state, copy, state.window(copy), mail, current, _steps(state, copy, mail))


def _steps(state: SwarmState, agent: AgentRow, mail: Mail) -> int:
    """Return the replies that were had for a message before; summaries and what was cancelled are none."""
    if mail.state == "queued":
        return 0
    sql = "SELECT count(*) FROM spend WHERE agent = ? AND mail = ? AND purpose = ?"
    row = state.world.one(sql, agent.name, mail.id, mail.kind)
    return int(row[0]) if row else 0


async def _deliver(turn: Turn) -> bool:
    mail = turn.mail
    said = {"ask": "asks", "answer": "answers", "tell": "says", "report": "reports", "digest": "(copy)"}[mail.kind]
    entry = Entry("user", f"{mail.sender} {said}: {mail.body}", kind=mail.kind, mail=mail.id)
    lessons = _lessons(turn)
    if not await make_room(turn, entry.tokens + (lessons.tokens if lessons else 0), lessons=lessons is None):
        full(turn)
        return False
    with turn.state.world.step():
        if finish(turn.state.world, mail.id, "delivered"):
            if lessons is not None:
                append(turn.state.world, turn.agent, turn.window, replace(lessons, mail=mail.id))
            append(turn.state.world, turn.agent, turn.window, entry)
    return True


def _lessons(turn: Turn) -> Entry | None:
    """Return the view of the playbook that comes with a question; who only hands it on gets none."""
    mail, agent = turn.mail, turn.agent
    if mail.kind != "ask" or mail.target not in {"", agent.origin}:
        return None
    return lessons_entry(turn.state.lessons, agent.role, mail.body, turn.window.entries)


async def _think(turn: Turn) -> None:
    state = turn.state
    model = state.model(turn.agent.role)
    while True:
        if not await _use_tools(turn):
            return
        if (why := _no_end(turn)) is not None:
            fail(turn, why)
            return
        view = View(turn.agent, turn.mail, turn.current, tuple(turn.window.entries), turn.window.room(), state.tools)
        begin_call(turn)
        with booked_in_any_case(turn):
            reply = await model.reply(view)
        book(turn, reply, turn.mail.kind)
        turn.step += 1  # it is paid, whatever becomes of it
        said = Entry("assistant", reply.text, kind="thought", calls=reply.calls)
        fits = await make_room(turn, said.tokens)
        if not fits and reply.calls:
            full(turn)
            return
        with state.world.step():
            if fits:
                append(state.world, turn.agent, turn.window, said)
            if not reply.calls:
                end(turn, reply.text)
                return


def _no_end(turn: Turn) -> str | None:
    """Return why a message is given up: its replies are used up, or the last ones made one mistake again and again."""
    most = turn.state.limits.max_steps
    results = [entry.text for entry in reversed(turn.window.entries) if entry.role == "tool"]
    stuck = len(results) >= _SAME_MISTAKE and results[0].startswith("error:") and _repeats(turn.window)
    if not stuck and turn.step < most:
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


async def _use_tools(turn: Turn) -> bool:
    """Use the tools of the last reply that have no result yet. False: a result cannot fit, and the agent is full."""
    reply, done = _last_reply(turn.window)
    for number, call in enumerate(reply.calls if reply else ()):
        if number < done:
            continue
        try:
            _use_tool(turn, call, number)
        except _NoRoomError as none:
            if not await make_room(turn, none.tokens, tail=number + 1):
                full(turn)
                return False
            _use_tool(turn, call, number)
    return True


def _last_reply(window: Window) -> tuple[Entry | None, int]:
    for results, entry in enumerate(reversed(window.entries)):
        if entry.role != "tool":
            return (entry if entry.kind == "thought" and entry.calls else None), results
    return None, 0


def _use_tool(turn: Turn, call: Call, number: int) -> None:
    with turn.state.world.step():
        entry = Entry("tool", perform(turn, call, number), kind="result", answers=call.id)
        if turn.window.room() < entry.tokens:
            raise _NoRoomError(entry.tokens)
        append(turn.state.world, turn.agent, turn.window, entry)
