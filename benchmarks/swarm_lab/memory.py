"""What stays of what was read: what copies bring back, stamps on notes, and asking the agent that made a trace."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.swarm_lab.lab import (
    WINDOW,
    Ask,
    Facts,
    ask_all,
    cost,
    facts_in,
    hire,
    key_of,
    know,
    lab,
    path_of,
    read_told,
    reading,
)
from benchmarks.swarm_lab.result import Claim, Experiment, Setting, Table, constructed, judge
from benchmarks.swarm_lab.spread import Spread, above, against, below, each, mean_of
from combee.swarm.agents import Reply, View, use
from combee.swarm.context import Newest
from combee.swarm.knowledge import publish, who_knows
from combee.swarm.swarm import USER, Swarm
from combee.swarm.world import Returns

__all__ = ["Grown", "Reduced", "asking", "reduce_traces", "returns", "specialise", "stale", "staleness"]


# What a copy that answered brings back to the agent it is a copy of

TOPICS, AGENTS, EACH = 6, 12, 20
ROUND = 24  # questions that are put at once, where they are


@dataclass(frozen=True, slots=True)
class Grown:
    """`cold`: share of questions for which documents had to be read; `entropy`: of who answers a topic, 0 to 1."""

    right: float
    cold: float
    entropy: float
    tokens: float
    fresh: float
    compactions: float


def specialise(kind: Returns, questions: int, seed: int, *, at_once: int = 1) -> Grown:
    """Ask about topics that nobody knows at first; whoever is asked first and cannot answer reads the topic.

    Who is asked is the directory's first, or anybody where it knows nobody yet. Of questions put at once none sees what
    came of the others.
    """
    facts = Facts.draw(TOPICS * EACH, seed)
    rng = random.Random(f"topics {seed}")

    def policy(view: View) -> Reply | str:
        key, topic = view.mail.body.split()
        known = facts_in(view.text()).get(key)
        if known or view.results():
            return known[0] if known else "unknown"
        return Reply(calls=(use("read", path=f"t{topic}/00000..{EACH - 1:05d}"),))

    with lab(policy, compaction=Newest(0.5), digest_tokens=40) as swarm:
        with swarm.world.step():
            for number in range(TOPICS * EACH):
                publish(swarm.world, f"t{number // EACH}/{number % EACH:05d}", facts.document(number), USER)
            for number in range(AGENTS):
                swarm.world.spawn(f"a{number:02d}", window=WINDOW // 2, returns=kind)
        right = 0
        who: dict[int, Counter[str]] = defaultdict(Counter)
        for start in range(0, questions, at_once):
            asks = []
            for _ in range(min(at_once, questions - start)):
                number = rng.randrange(TOPICS * EACH)
                topic, subject = number // EACH, f"t{number // EACH}/{number % EACH:05d}"
                known = who_knows(swarm.world, subject, limit=1)
                to = known[0].agent if known else f"a{rng.randrange(AGENTS):02d}"
                who[topic][to] += 1
                asks.append(Ask(to, f"{key_of(number)} {topic}", facts.values[number], subject))
            right += ask_all(swarm, asks)
        spent = cost(swarm)
        cold = swarm.world.rows("SELECT count(*) FROM context WHERE kind = 'result' AND agent LIKE '%~%'")[0][0]
    spread = sum(_entropy(counts) for counts in who.values()) / len(who) / math.log(AGENTS)
    return Grown(
        right / questions, cold / questions, spread, spent.tokens / questions, spent.fresh / questions,
        spent.compactions,
    )  # fmt: skip


def _entropy(counts: Counter[str]) -> float:
    total = sum(counts.values())
    return -sum(n / total * math.log(n / total) for n in counts.values())


def returns(setting: Setting) -> Experiment:
    """What copies bring back."""
    questions = setting.pick(48, 240)
    kinds: tuple[Returns, ...] = ("none", "digest", "full")
    grown = {
        (kind, many): setting.over(specialise, kind, questions, at_once=many) for many in (1, ROUND) for kind in kinds
    }
    rows = tuple(
        (kind, str(many), f"{each(some, 'right'):.1%}", f"{each(some, 'cold'):.1%}", f"{each(some, 'entropy'):.2f}",
         f"{each(some, 'tokens'):,.0f}", f"{each(some, 'fresh'):,.0f}", f"{each(some, 'compactions'):.1f}")
        for (kind, many), some in grown.items()
    )  # fmt: skip
    entropy = {where: each(some, "entropy") for where, some in grown.items()}
    cold = {where: each(some, "cold") for where, some in grown.items()}
    warmer = {
        where: against(grown[where], "cold", grown["none", where[1]], 0.5) for where in grown if where[0] != "none"
    }
    claims = (
        constructed(
            "Asked one at a time, who happened to look first is asked again, once a digest of the answer comes back.",
            f"entropy of who answers a topic: {entropy['digest', 1]:.2f} with a digest, {entropy['full', 1]:.2f} in "
            f"full: the directory names who has read it; {entropy['none', 1]:.2f} with nothing",
            [(one.entropy, 0) for one in grown["digest", 1]],
        ),
        judge(
            f"Roles arise by themselves also when {ROUND} questions come at once (entropy below 0.3).",
            ", ".join(f"{entropy[kind, ROUND]:.2f} with {kind}" for kind in kinds),
            (below(entropy[kind, ROUND], 0.3) for kind in kinds),
        ),
        judge(
            "Every answer makes an expert better at its field: half as many questions for which documents are read.",
            "; ".join(f"{kind}, {many} at once: {cold[kind, many]:.0%}" for kind, many in cold),
            (below(one, 0) for one in warmer.values()),
        ),
    )  # fmt: skip
    columns = ("return", "at once", "right", "cold starts", "entropy of roles", "tokens a question", "fresh tokens",
               "compactions")  # fmt: skip
    setup = f"12 agents, 6 topics of 20 documents, nobody knows anything at first; {questions} questions."
    return Experiment("returns", setup, (Table("Return", columns, rows),), (), claims)


# Notes that rest on documents which have changed since

NOTES = 60


def _note_down(view: View) -> Reply | str:
    """Read the documents that were told, and remember each with its source."""
    results = view.results()
    if not results:
        return Reply(calls=(use("read", path=view.mail.body),))
    lines = results[0].text.split("\n")
    if not facts_in(lines[0]):
        return "noted"
    pairs = [(line, path_of(int(next(iter(facts_in(line)))[1:]))) for line in lines]
    return Reply(calls=tuple(use("remember", n, text=line[:20], path=path) for n, (line, path) in enumerate(pairs)))


def stale(changed: float, seed: int, *, stamps: bool) -> tuple[float, float]:
    """Return the share of right answers from notes, and tokens a question, when documents changed after the notes."""
    facts = Facts.draw(NOTES, seed)
    rng = random.Random(f"stale {seed} {changed}")

    def policy(view: View) -> Reply | str:
        if view.mail.kind == "tell":
            return _note_down(view)
        key, results = view.mail.body, view.results()
        if not results:
            return Reply(calls=(use("recall", query=key),))
        if stamps and "(stale" in results[-1].text:
            return Reply(calls=(use("read", path=path_of(int(key[1:]))),))
        found = facts_in(results[-1].text).get(key)
        return found[0] if found else "unknown"

    with lab(policy, facts, compaction=Newest(0.2)) as swarm:
        swarm.world.spawn("ann", window=WINDOW // 2, returns="none")
        for path in reading(0, NOTES):
            swarm.tell("ann", path)
        asyncio.run(swarm.run())
        now = list(facts.values)
        for number in rng.sample(range(NOTES), round(NOTES * changed)):
            now[number] = f"v{(int(now[number][1:]) + rng.randrange(1, 100_000)) % 100_000:05d}"
            publish(swarm.world, path_of(number), facts.document(number, now[number]), USER)
        before = cost(swarm)
        right = ask_all(swarm, [Ask("ann", key_of(n), now[n]) for n in range(NOTES)])
        return right / NOTES, (cost(swarm) - before).fresh / NOTES


def staleness(setting: Setting) -> Experiment:
    """Notes that rest on what has changed."""
    shares = setting.pick((0.3,), (0.0, 0.1, 0.3, 0.5))
    cells = {share: [setting.over(stale, share, stamps=how) for how in (False, True)] for share in shares}
    means = {share: [mean_of(one[n] for one in some) for n in (0, 1) for some in both] for share, both in cells.items()}
    rows = tuple((f"{share:.0%}", f"{without:.1%}", f"{stamped:.1%}", f"{cheap:.0f}", f"{dear:.0f}")
                 for share, (without, stamped, cheap, dear) in means.items())  # fmt: skip
    worst = shares[-1]
    without, stamped, cheap, dear = means[worst]
    claim = constructed(
        "Files on disk go stale unnoticed, unless notes carry a stamp of the version read.",
        f"{without:.0%} right when {worst:.0%} has changed, {stamped:.0%} with stamps, at {cheap:.0f} and {dear:.0f} "
        "fresh tokens a question: a note is right as often as its document has not changed, a stamp compares versions",
        [(right, told) for share, both in cells.items() for some, told in zip(both, (1 - share, 1), strict=True)
         for right, _ in some],
    )  # fmt: skip
    columns = ("changed", "right without stamps", "right with stamps", "fresh tokens without", "fresh tokens with")
    setup = f"{NOTES} notes; then documents change; each is asked for."
    return Experiment("staleness", setup, (Table("Stale notes", columns, rows),), (), (claim,))


# A reducer that may ask the agent that made a trace, against one that has its reflection only

FACTS, ROOM = 20, 5


@dataclass(frozen=True, slots=True)
class Reduced:
    """Share of the needed facts that the reducer has in the end, and prompt and reply tokens for each."""

    kept: float
    tokens: float


def reduce_traces(agents: int, foreseen: float, seed: int, *, asks: bool, since: int = 0) -> Reduced:
    """Let agents work, reflect, and reduce; then let the reducer fetch what a tenth of the facts are needed for.

    Each has a trace of 20 facts in its window and writes a reflection with room for 5, before anyone knows which facts
    the lessons need. Then it works on, on `since` other traces; a window holds five, the newest quarter of a full one
    is kept. Merging reflections is code and loses nothing more.
    """
    count = agents * FACTS
    facts = Facts.draw(count * (1 + since), seed)
    drawn = Facts.draw(count, seed, share=0.1, foreseen=foreseen)
    facts = Facts(facts.values, drawn.needed, drawn.seen)
    rng = random.Random(f"reflection {seed}")

    def policy(view: View) -> Reply | str:
        if view.mail.kind == "tell":
            return read_told(view)
        key = view.mail.body
        return " ".join(facts.summary(view.text(), rng)[:ROOM]) if key == "reflect" else f"{key}={know(view, key)}"

    with lab(policy, facts, compaction=Newest()) as swarm:
        swarm.world.spawn("reducer", mode="outside", window=0)
        hire(swarm, agents, count)
        before = cost(swarm)
        book = _merged(swarm, [swarm.ask("reducer", "reflect", to=f"a{number:02d}") for number in range(agents)])
        spent = cost(swarm) - before
        for number in range(agents if since else 0):
            for path in reading(count + number * since * FACTS, count + (number + 1) * since * FACTS):
                swarm.tell(f"a{number:02d}", path)
        asyncio.run(swarm.run())
        before = cost(swarm)
        if asks:
            lacking = [n for n in facts.needed if key_of(n) not in book]
            sent = [swarm.ask("reducer", key_of(n), to=f"a{n // FACTS:02d}") for n in lacking]
            book |= _merged(swarm, sent)
        tokens = spent.tokens + (cost(swarm) - before).tokens
    right = sum(book.get(key_of(n)) == facts.values[n] for n in facts.needed)
    return Reduced(right / len(facts.needed), tokens / len(facts.needed))


def _merged(swarm: Swarm, sent: Sequence[int]) -> dict[str, str]:
    """Return the facts that the answers hold."""
    asyncio.run(swarm.run())
    replies = [mail.body for number in sent if (mail := swarm.answer(number))]
    return {key: value for key, (value, _) in facts_in("\n".join(replies)).items()}


def asking(setting: Setting) -> Experiment:
    """A reducer that may ask the agent that made a trace."""
    size, shares, later = setting.pick(10, 50), (0.0, 0.5, 1.0), setting.pick((0, 8), (0, 2, 4, 8))
    cells: dict[tuple[float, int | None], list[Reduced]] = {}
    for share in shares:
        for since in (None, *later):
            cells[share, since] = setting.over(reduce_traces, size, share, asks=since is not None, since=since or 0)
    rows = tuple(
        (f"{share:.0%}", "not asked" if since is None else str(since), f"{each(found, 'kept'):.1%}",
         f"{each(found, 'tokens'):,.0f}")
        for (share, since), found in cells.items()
    )  # fmt: skip
    more = {
        (share, since): against(cells[share, since], "kept", cells[share, None]) for share in shares for since in later
    }
    columns = ("foreseeable", "traces since", "needed facts kept", "tokens for each")
    setup = (
        f"{size} agents with traces of {FACTS} facts, reflections with room for {ROOM}, a tenth of the facts needed in "
        "the end. The maker is asked at once, or when it has worked on other traces since; a window holds five."
    )
    return Experiment("asking", setup, (Table("Reduce", columns, rows),), (), _asking_claims(cells, more, later[1:]))


def _asking_claims(
    cells: dict[tuple[float, int | None], list[Reduced]],
    more: dict[tuple[float, int], Spread],
    later: Sequence[int],
) -> tuple[Claim, ...]:
    shares = sorted({share for share, _ in cells})
    return (
        constructed(
            "The agent that made a trace, asked at once, has what its summary left out.",
            ", ".join(f"{each(cells[share, None], 'kept'):.0%} kept without, {each(cells[share, 0], 'kept'):.0%} "
                      f"asked, at {share:.0%} foreseen" for share in shares) + ": the trace stands in its window",
            [(one.kept, 1) for share in shares for one in cells[share, 0]],
        ),
        judge(
            "Asking it keeps more also when it has worked on since (5 points at least).",
            "; ".join(f"{share:.0%} foreseen, {since} traces since: {more[share, since]:+.0%}"
                      for share in shares for since in later),
            (above(more[share, since], 0.05) for share in shares for since in later),
        ),
    )  # fmt: skip
