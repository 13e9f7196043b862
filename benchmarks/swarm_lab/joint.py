"""Questions about everything at once: parts that answer with one number, with a tenth of themselves, or with all.

For the last nothing shorter than a part's whole text will do: which two documents differ in the fewest places, where
all of them are random and the nearest pair is nearer by a few places only. A lead can gather the parts; or the parts
can be compared two by two, each sent to the other, which costs messages as long as a part for every pair.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks.swarm_lab.capacity import Found, largest, outcome
from benchmarks.swarm_lab.lab import DOCUMENT, WINDOW, Ask, Facts, facts_in, hire, key_of, lab, read_told
from benchmarks.swarm_lab.result import Curve, Experiment, Setting, Table, judge
from benchmarks.swarm_lab.spread import above, mean_of
from benchmarks.swarm_lab.ways import Way
from combee.swarm.agents import Reply, View, use
from combee.swarm.context import Refuse
from combee.swarm.swarm import Swarm

__all__ = ["ALL", "NUMBER", "PAIRS", "TENTH", "joint", "joints"]

NUMBER, TENTH, ALL = "one number a part", "a tenth of a part", "all of a part"
PAIRS = "all of a part, parts compared two by two"
_BODY = 4 * DOCUMENT - 1 - len("k00000=v00000 ")
_NEAR = 70  # places in which the nearest two differ; two random ones do in 109 of 145, the nearest of 5M pairs in 80
_DIGITS = str.maketrans("acgt", "0123")
_ONES = int("1" * _BODY, 16)


class _Texts(Facts):
    """Documents whose whole text matters: random letters after the fact, two of them nearly the same."""

    def document(self, number: int, value: str = "") -> str:
        seed = self.values[number]
        twin = self.needed.index(number) if number in self.needed else -1
        text = random.Random(f"text {self.values[self.needed[0]] if twin == 1 else seed}").choices("acgt", k=_BODY)
        for place in range(_NEAR if twin == 1 else 0):
            text[place * 2] = "acgt"["acgt".index(text[place * 2]) - 1]
        return f"{key_of(number)}={seed} {''.join(text)}"


def _texts_in(text: str) -> dict[str, str]:
    """Return the letters of every document in a text, by its key."""
    words = text.split()
    return {
        word[:6]: letters for word, letters in itertools.pairwise(words) if facts_in(word) and len(letters) == _BODY
    }


def _nearest(texts: dict[str, str], others: dict[str, str] | None = None) -> str:
    """Return the nearest two, of one group or one of each, as "places key key"."""
    pairs = itertools.combinations(sorted(texts), 2) if others is None else itertools.product(texts, others)
    known = {key: int(text.translate(_DIGITS), 16) for key, text in (texts | (others or {})).items()}
    apart = ((known[a] ^ known[b], a, b) for a, b in pairs)
    found = [(((bits | bits >> 1) & _ONES).bit_count(), *sorted((a, b))) for bits, a, b in apart]
    return " ".join(map(str, min(found))) if found else "too few"


def _policy(kind: str, agents: int, view: View) -> Reply | str:
    mail, text = view.mail, view.text()
    if mail.kind == "tell":
        return read_told(view)
    if view.agent.role == "lead":
        if mail.kind != "ask":
            return _together(kind, agents, view)
        tasks = [(a, "part") for a in range(agents)]
        if kind == PAIRS:
            tasks += [(a, f"against a{b:02d}") for a, b in itertools.combinations(range(agents), 2)]
        calls = [use("ask", n, to=f"a{a:02d}", question=task) for n, (a, task) in enumerate(tasks)]
        return "waiting" if view.results() else Reply(calls=tuple(calls))
    if mail.kind in {"answer", "report"}:
        return mail.body
    if mail.body.startswith("against"):
        theirs = " ".join(f"{key}=v00000 {letters}" for key, letters in _texts_in(text).items())
        question = use("ask", to=mail.body.split()[1], question=f"compare {theirs}")
        return "waiting" if view.results() else Reply(calls=(question,))
    if mail.body.startswith("compare"):
        sent = _texts_in(mail.body)
        return _nearest({key: letters for key, letters in _texts_in(text).items() if key not in sent}, sent)
    if kind == PAIRS:
        return _nearest(_texts_in(text))
    if kind == ALL:
        return " ".join(f"{key}=v00000 {letters}" for key, letters in _texts_in(text).items())
    facts = [f"{key}={value}" for key, (value, _) in sorted(facts_in(text).items())]
    return max(facts, default="") if kind == NUMBER else " ".join(facts)


def _together(kind: str, agents: int, view: View) -> str:
    if kind == PAIRS:
        answers = [entry.text.split(": ", 1)[-1].split() for entry in view.entries if entry.kind == "answer"]
        found = [(int(one[0]), one[1], one[2]) for one in answers if len(one) == 3]
        whole = len(answers) == agents * (agents + 1) // 2  # of a pair that was not compared nothing is known
        return " ".join(min(found)[1:]) if found and whole else "none"
    if kind == ALL:
        return " ".join(_nearest(_texts_in(view.text())).split()[1:])
    known = facts_in(view.text())
    if kind == NUMBER:
        return max(known, default="")
    seen: dict[str, str] = {}
    twice = [f"{seen[value]} {key}" for key, (value, _) in sorted(known.items()) if seen.setdefault(value, key) != key]
    return twice[0] if twice else "none"


def joint(agents: int, kind: str) -> Way:
    """A question about all documents at once: the greatest key, which two values are equal, or which texts nearest."""

    @contextmanager
    def way(count: int, seed: int) -> Iterator[tuple[Swarm, list[Ask]]]:
        rng = random.Random(f"joint {seed}")
        values = [f"v{n:05d}" for n in rng.sample(range(100_000), count)]
        pair = tuple(sorted(rng.sample(range(count), 2)))
        if kind == TENTH:
            values[pair[1]] = values[pair[0]]
        make = _Texts if kind in {ALL, PAIRS} else Facts
        with lab(partial(_policy, kind, agents), make(tuple(values), pair), compaction=Refuse(),
                 max_asks=10**6, max_calls=10**6, max_tokens=10**9) as swarm:  # fmt: skip
            hire(swarm, agents, count)
            swarm.world.spawn("lead", role="lead", mode="serial", window=WINDOW)
            right = key_of(count - 1) if kind == NUMBER else " ".join(map(key_of, pair))
            yield swarm, [Ask("lead", "all", right)]

    return way


def _holds(agents: int, kind: str, *, steps: int, seed: int) -> Found:
    ask = partial(outcome, joint(agents, kind), seed=seed)
    return largest(ask, 2 * agents, start=(agents + 1) / 2, steps=steps)


def joints(setting: Setting) -> Experiment:
    """Questions about everything at once."""
    counts = setting.pick((1, 6), (1, 2, 4, 8, 16, 32))
    steps = setting.pick(2, 4)
    found = {
        (kind, n): setting.over(_holds, n, kind, steps=steps)
        for kind in (NUMBER, TENTH, ALL, PAIRS)
        for n in (counts if kind != PAIRS else counts[:5])
    }
    sizes = {where: mean_of(one.size for one in some) for where, some in found.items()}
    kinds = (NUMBER, TENTH, ALL, PAIRS)
    rows = tuple(
        (str(n), *(f"{sizes[kind, n]:.2f}" if (kind, n) in sizes else "" for kind in kinds),
         *(f"{mean_of(one.at.tokens for one in found[kind, n]):,.0f}" if (kind, n) in found else ""
           for kind in (NUMBER, ALL, PAIRS)))
        for n in counts
    )  # fmt: skip
    best = {kind: max((n for other, n in sizes if other == kind), key=lambda n: sizes[kind, n].value) for kind in kinds}
    dearer = list(zip(found[PAIRS, best[PAIRS]], found[NUMBER, best[PAIRS]], strict=True))
    claim = judge(
        "Splitting a task that is about everything at once holds more than one window.",
        "; ".join(f"{kind}: at best {sizes[kind, n]:.2f} windows, with {n} agents" for kind, n in best.items())
        + f", at {mean_of(a.at.tokens / b.at.tokens for a, b in dearer):.0f} times the tokens of one number a part",
        (above(sizes[kind, n], 1) for kind, n in best.items()),
    )
    columns = ("agents", *kinds, *(f"tokens, {kind}" for kind in (NUMBER, ALL, PAIRS)))
    return Experiment(
        "joint",
        "A lead asks all agents. The last key (a part answers with one fact); the two documents with equal values "
        "(with all its facts, a tenth of it); the two whose whole texts are nearest (with all of it), gathered by the "
        f"lead, or by every two parts between them (up to {max(counts[:5])} agents). Tokens of the question, at the "
        "largest size.",
        (Table("Capacity in windows", columns, rows),),
        (
            Curve(
                "joint", "Tasks about everything at once", "agents", "windows at 95 % right",
                {kind: [(n, sizes[kind, n].value) for n in counts if (kind, n) in sizes] for kind in kinds},
            ),
        ),
        (claim,),
    )  # fmt: skip
