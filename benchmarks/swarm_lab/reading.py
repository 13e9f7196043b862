"""Two things that the essay on swarms leaves aside: readers that overlook more the more they hold, and a scratch REPL.

Readers: agents hold a part each and overlook what stands in a long context (`know`). Few that are full, many that hold
little, or asking again where one did not know.

REPL: documents say things in words that have to be understood. Either sub-agents read them all, or one agent writes a
program over them, with the words it has seen in the ten documents that it read; or in those and then in the lines that
its program did not match, until none is left. The programs are Python, and run.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.swarm_lab.lab import DOCUMENT, WINDOW, ask_all, cost, key_of, lab, path_of, reading
from benchmarks.swarm_lab.result import Claim, Curve, Experiment, Setting, Table, judge
from benchmarks.swarm_lab.spread import above, against, each, mean_of
from benchmarks.swarm_lab.ways import PER_WINDOW, QUESTIONS, persistent
from combee.swarm.agents import Reply, ToolSpec, View, use
from combee.swarm.context import Newest, count
from combee.swarm.knowledge import publish
from combee.swarm.swarm import USER
from combee.swarm.tools import Tool
from combee.swarm.turn import Turn

__all__ = ["ALL", "PROGRAM", "SAMPLE", "Answered", "computed", "programs", "recall", "rotting"]


# Readers that overlook more the more they hold


@dataclass(frozen=True, slots=True)
class Answered:
    """Share of right answers, and tokens a question."""

    right: float
    tokens: float


def recall(agents: int, rot: float, windows: int, seed: int, *, tries: int = 1) -> Answered:
    """Let agents that stay hold a text between them, and ask; where one did not know, ask again."""
    with persistent(agents, rot)(windows * PER_WINDOW, seed) as (swarm, asks):
        before, right, left = cost(swarm), 0, list(asks)
        for _ in range(tries):
            known = [one for one in left if ask_all(swarm, [one])]
            right += len(known)
            left = [one for one in left if one not in known]
        return Answered(right / QUESTIONS, (cost(swarm) - before).tokens / QUESTIONS)


def rotting(setting: Setting) -> Experiment:
    """Readers that forget with length."""
    windows = setting.pick(2, 4)
    rates = setting.pick((0.0, 0.3), (0.0, 0.02, 0.05, 0.1, 0.3))
    ways = {f"{n} agents": (n, 1) for n in (windows + 1, 2 * windows, 4 * windows, 8 * windows)}
    few, many = f"{windows + 1} agents", f"{8 * windows} agents"
    again = f"{few}, asked up to three times"
    ways[again] = (windows + 1, 3)
    found = {
        (rot, way): setting.over(recall, n, rot, windows, tries=tries)
        for rot in rates
        for way, (n, tries) in ways.items()
    }
    rows = tuple(
        (f"{rot}", way, f"{each(some, 'right'):.1%}", f"{each(some, 'tokens'):,.0f}")
        for (rot, way), some in found.items()
    )
    right = {where: each(some, "right") for where, some in found.items()}
    gain = {rot: against(found[rot, many], "right", found[rot, few]) for rot in rates}
    series = {f"rot {rot}": [(n, right[rot, way].value) for way, (n, tries) in ways.items() if tries == 1]
              for rot in rates}  # fmt: skip
    claims = (
        judge(
            "An agent that stays can be filled to four fifths of its window, and be 95 % right, also where "
            "readers forget with length.",
            "; ".join(f"rot {rot}: {right[rot, few]:.1%}" for rot in rates),
            (above(right[rot, few], 0.95) for rot in rates),
        ),
        judge(
            f"A small context beats a large one: {many} that hold an eighth of a window get more right than {few}.",
            "; ".join(f"rot {rot}: {gain[rot]:+.1%} of the answers" for rot in rates),
            (above(gain[rot], 0) for rot in rates),
        ),
        judge(
            f"Who did not know can be asked again: 95 % right with {few}, asked up to three times.",
            "; ".join(f"rot {rot}: {right[rot, again]:.1%} at {each(found[rot, again], 'tokens'):,.0f} tokens a "
                      f"question, {right[rot, many]:.1%} at {each(found[rot, many], 'tokens'):,.0f} with {many}"
                      for rot in rates),
            (above(right[rot, again], 0.95) for rot in rates),
        ),
    )  # fmt: skip
    return Experiment(
        "rot",
        f"{windows} windows of text in agents that stay, {QUESTIONS} questions. Of what stands in a window that holds "
        "a share x of its tokens a reader overlooks 1 - exp(-rot x), and says that it does not know.",
        (Table("Readers that forget with length", ("rot", "way", "right", "tokens a question"), rows),),
        (Curve("rot", "Right answers of readers that forget", "agents", "share right", series, log_y=False),),
        claims,
    )


# A program over the documents

ALL, SAMPLE, PROGRAM = "read all", "program, words of ten documents", "program, and what it did not match"
_SHOWN = 10  # lines that a program prints of those it did not match
_LINE = re.compile(r"(k\d{5}) (\w+) (\d{3})")


def _text(number: int, word: str, value: int) -> str:
    line = f"{key_of(number)} {word} {value:03d} "
    return line + "x" * (4 * DOCUMENT - 1 - len(line))


def _means(word: str) -> bool:
    """Return whether a word affirms; who reads it knows, a program has to be told."""
    return random.Random(f"meaning {word}").random() < 0.7


def _draw(windows: int, words: int, seed: int) -> list[str]:
    """Return documents that say their value with words by Zipf's law; 0 words: every document has its own."""
    rng = random.Random(f"program {seed} {windows} {words}")
    documents = windows * PER_WINDOW
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(words)))
    named = rng.choices(range(words), cum_weights=weights, k=documents) if words else range(documents)
    return [_text(n, f"w{word:05d}s{seed}", rng.randrange(1000)) for n, word in enumerate(named)]


def _program(text: str, known: Iterable[str] = ()) -> str:
    """Return a program that adds up what the documents affirm, as far as the words in a text tell it how."""
    words = sorted({*known, *(word for _, word, _ in _LINE.findall(text))})
    yes, no = (" ".join(word for word in words if _means(word) is kind) for kind in (True, False))
    return (
        f"import sys\nyes, no = set('{yes}'.split()), set('{no}'.split())\ntotal, odd = 0, []\n"
        "for line in sys.stdin:\n    key, word, value = line.split()[:3]\n"
        "    if word in yes: total += int(value)\n"
        "    elif word not in no: odd.append(f'{key} {word} {value}')\n"
        f"print(total, len(odd), *odd[:{_SHOWN}], sep='\\n')\n"
    )


def _again(view: View) -> Reply | None:
    """Return the last program with the words of what it did not match; None when it has become too long to write."""
    last = next(call.arguments for entry in reversed(view.entries) for call in entry.calls if call.name == "run")
    program = _program(view.results()[-1].text, re.findall(r"w\d{5}s\d+", last))
    return Reply(calls=(use("run", program=program),)) if count(program) < WINDOW // 3 else None


def _run(turn: Turn, key: str, program: str) -> str:
    texts = [str(row[0]) for row in turn.state.world.rows("SELECT body FROM artefacts ORDER BY path")]
    command = [sys.executable, "-I", "-S", "-c", program]
    return subprocess.run(command, input="\n".join(texts), capture_output=True, text=True, check=True).stdout.strip()


_TOOL = Tool(ToolSpec("run", "Run a Python program; the documents are its input, a line each.", {"program": ""}), _run)
_PART = PER_WINDOW - 20  # documents that a sub-agent reads


def _adds(text: str) -> int:
    return sum(int(value) for _, word, value in set(_LINE.findall(text)) if _means(word))


def _policy(way: str, documents: int, view: View) -> Reply | str:
    if view.agent.mode == "once":
        first, end = map(int, view.current.body.split()) if view.current else (0, 0)
        done, paths = sum(len(entry.calls) for entry in view.entries), reading(first, end)
        return f"{_adds(view.text())}" if done >= len(paths) else Reply(calls=(use("read", done, path=paths[done]),))
    if way == ALL:
        if view.mail.kind == "answer":
            return f"{sum(int(entry.text.split(': ', 1)[1]) for entry in view.entries if entry.kind == 'answer')}"
        parts = [use("delegate", n, task=f"{at} {min(at + _PART, documents)}")
                 for n, at in enumerate(range(0, documents, _PART))]  # fmt: skip
        return "waiting" if view.results() else Reply(calls=tuple(parts))
    results = [entry.text for entry in view.entries if entry.role == "tool"]
    if not results:
        return Reply(calls=(use("read", path=f"{path_of(0)}..{_SHOWN - 1:05d}"),))
    if results[-1][:1] == "k":  # the documents that were read
        return Reply(calls=(use("run", program=_program(view.text())),))
    total, odd, *_ = results[-1].split("\n")
    return total if way == SAMPLE or odd == "0" else _again(view) or total


def computed(way: str, windows: int, words: int, seed: int) -> Answered:
    """Ask for the sum over all documents; it is right or it is not."""
    texts = _draw(windows, words, seed)
    with lab(lambda view: _policy(way, len(texts), view), compaction=Newest(), tools=(_TOOL,), max_asks=10**6,
             max_steps=10**6, max_tokens=10**9, max_calls=10**6, max_agents=10**6) as swarm:  # fmt: skip
        with swarm.world.step():
            for number, text in enumerate(texts):
                publish(swarm.world, path_of(number), text, USER)
        swarm.world.spawn("ann", window=WINDOW, returns="none")
        number = swarm.ask(USER, "total", to="ann")
        asyncio.run(swarm.run())
        answer = swarm.answer(number)
        right = answer is not None and answer.body == f"{_adds(' '.join(texts))}"
        return Answered(float(right), cost(swarm).tokens)


def programs(setting: Setting) -> Experiment:
    """A scratch REPL against reading."""
    sizes = setting.pick((1, 2), (1, 4, 16, 64))
    words = setting.pick((4, 0), (4, 32, 256, 0))
    ways = (ALL, SAMPLE, PROGRAM)
    found = {
        (many, size, way): setting.over(computed, way, size, many) for many in words for size in sizes for way in ways
    }
    rows = tuple(
        (_forms(many), str(size), way, f"{each(some, 'right'):.0%}", f"{each(some, 'tokens'):,.0f}")
        for (many, size, way), some in found.items()
    )
    claims = tuple(_pays(found, way) for way in (SAMPLE, PROGRAM))
    return Experiment(
        "program",
        "What do all documents that affirm something add up to? The words that affirm or deny come by Zipf's law, and "
        "have to be understood. A sub-agent reads four fifths of a window; a program prints ten lines at most of those "
        "whose word it does not know, and is given up when it would fill a third of the window.",
        (Table("A program over documents, and reading them", ("words", "windows", "way", "right", "tokens"), rows),),
        (),
        claims,
    )


def _forms(many: int) -> str:
    return str(many) if many else "each its own"


def _pays(found: dict[tuple[int, int, str], list[Answered]], way: str) -> Claim:
    """Return whether a program gives more right answers for the same tokens than reading, by words and size."""
    pairs = {
        (many, size): list(zip(some, found[many, size, ALL], strict=True))
        for (many, size, each_way), some in found.items()
        if each_way == way
    }
    return judge(
        f"What is too large to read can be computed ({way}): more right for the same tokens than reading it.",
        "; ".join(
            f"{_forms(many)} words in {size} windows: {mean_of(a.right for a, _ in both):.0%} right at "
            f"{mean_of(a.tokens / b.tokens for a, b in both):.3f} of the tokens"
            for (many, size), both in pairs.items()
        ),
        (above(mean_of(a.right / a.tokens - b.right / b.tokens for a, b in both), 0) for both in pairs.values()),
    )
