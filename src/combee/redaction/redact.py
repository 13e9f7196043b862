"""Redaction: secrets and personal marks out of a text before anything is stored, counted by kind.

What is taken out becomes `[redacted:kind]`. Redacting twice changes nothing more. The table is in `secrets`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_

from combee.errors import UsageError
from combee.kernel.learn.roles import Outcome, ToolCall, Trace
from combee.redaction.commands import tools_in
from combee.redaction.readings import ENCODED, Break, Reading, decoded, joined, scrub
from combee.redaction.secrets import ACROSS_LINES, BEGINNING, FINDERS, HINT
from combee.redaction.spans import MARK, Span

_MOST_PASSES = 10
_SHORTEST_KNOWN, _LONGEST_KNOWN = 300, 50_000  # characters of a text that is kept for a while
_MOST_KNOWN = 200  # of such texts
_LONGEST_WORD, _LONGEST_KEPT, _MOST_WORDS = 4000, 100, 50_000


@dataclass(frozen=True, slots=True)
class Redacted:
    """The text that may be stored, and how many marks of each kind were taken out."""

    text: str
    counts: Mapping[str, int] = field(default_factory=dict)


class _Words(dict[str, int]):
    """Words that were met, and which finders each of them calls for, as bits: most words of a run were met before."""

    def __missing__(self, word: str) -> int:
        if len(word) > _LONGEST_WORD:
            return -1
        asked = 0
        if HINT.search(word.lower()) or (len(word) > 13 and BEGINNING.search(word)) or tools_in(word):
            asked = sum(1 << bit for bit, calls in enumerate(_CALLS) if calls(word))
        if len(word) <= _LONGEST_KEPT:
            if len(self) >= _MOST_WORDS:
                self.clear()
            self[word] = asked
        return asked


_CALLS = [re.compile(each).search if isinstance(each, str) else each for each in (*FINDERS.values(), ENCODED.pattern)]
_DECODER = 1 << len(FINDERS)
_ACROSS = sum(1 << bit for bit, find in enumerate(FINDERS) if find in ACROSS_LINES)
_WORDS = _Words()


def asked_by(text: str) -> int:
    """Return as bits which finders, in their order, have something to look at in the text; the last is the decoder."""
    return reduce(or_, set(map(_WORDS.__getitem__, text.split())), 0)


class Redactor:
    """The built-in finders and the user's own patterns, ready to use.

    Args:
        extra_patterns: regular expressions, or a mapping of kind to expression; a bare one counts as `custom`. Where an
            expression has a group, only the first group is replaced.

    Raises:
        UsageError: an expression does not compile, or matches the empty text.
    """

    def __init__(self, extra_patterns: Mapping[str, str] | Iterable[str] = ()) -> None:
        if isinstance(extra_patterns, str):
            extra_patterns = [extra_patterns]
        named = (
            extra_patterns.items()
            if isinstance(extra_patterns, Mapping)
            else [("custom", each) for each in extra_patterns]
        )
        self._own = tuple((kind, _compiled(expression)) for kind, expression in named)
        self._known: dict[str, Redacted] = {}

    def __getstate__(self) -> dict[str, object]:
        return {"_own": self._own, "_known": {}}

    def __call__(self, text: str) -> Redacted:
        """Return the text with every secret replaced by `[redacted:kind]`, and the counts by kind.

        What was met a short while ago (a prompt that each run begins with) is not searched anew.
        """
        if not _SHORTEST_KNOWN <= len(text) <= _LONGEST_KNOWN:
            return self._redacted(text)
        found = self._known.get(text)
        if found is None:
            found = self._redacted(text)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[text] = found
        return found

    def _redacted(self, text: str) -> Redacted:
        counts: Counter[str] = Counter()
        text = scrub(text)
        for _ in range(_MOST_PASSES):
            spans = self._spans(text)
            if not spans:
                break
            # A mark is no word: what ran into a secret may show as one of its own now, so the text is looked at again.
            text = _marked(text, spans, counts)
        return Redacted(text, dict(sorted(counts.items())))

    def _spans(self, text: str) -> list[Span]:
        """Return the secrets as they stand, and those of the text as a decoder or a reader of wrapped lines sees it."""
        asked = asked_by(text)
        spans = self._read(text, asked)
        for view in decoded(text) if asked & _DECODER else ():
            spans += [view.span(found) for found in self._read(view.text, asked_by(view.text))]
        for readings in joined(text):
            spans += next(filter(None, (self._across(text, *reading, spans) for reading in readings)), [])
        return spans

    def _across(self, text: str, view: Reading, breaks: Sequence[Break], known: Sequence[Span]) -> list[Span]:
        """Return the secrets that a reading finds across its breaks."""
        found = map(view.span, self._read(view.text, asked_by(view.text) & _ACROSS))
        return [span for span in found if span.start < breaks[-1][0] < span.end and _goes_on(text, span, breaks, known)]

    def _read(self, text: str, asked: int) -> list[Span]:
        spans = [span for kind, pattern in self._own for span in _own_spans(kind, pattern, text)]
        if asked:
            # U+0130 is the one character whose lower case is longer; positions must stay.
            folded = text.lower() if text.isascii() else text.replace("\u0130", "I").lower()
            for bit, find in enumerate(FINDERS):
                if asked >> bit & 1:
                    spans.extend(find(text, folded))
        return spans

    def trace(self, trace: Trace) -> tuple[Trace, Mapping[str, int]]:
        """Return the trace with every text in it redacted (its id is kept), and the counts over all of them."""
        counts: Counter[str] = Counter()

        def mend(text: str) -> str:
            result = self(text)
            counts.update(result.counts)
            return result.text

        steps = tuple(
            replace(
                step,
                text=mend(step.text),
                tool_calls=tuple(ToolCall(call.id, mend(call.name), mend(call.arguments)) for call in step.tool_calls),
                agent=None if step.agent is None else mend(step.agent),
            )
            for step in trace.steps
        )
        outcome = trace.outcome and _mended_outcome(trace.outcome, mend)
        meta = {key: mend(value) for key, value in trace.meta.items()}
        mended = replace(trace, task=mend(trace.task), steps=steps, outcome=outcome, meta=meta)
        return mended, dict(sorted(counts.items()))


_KEY_LIKE = re.compile(r"(?=[^\s]*\d)(?=[^\s]*[A-Za-z])[A-Za-z0-9_+/=.~%-]{4,}|[0-9a-f]{8,}")


def _goes_on(text: str, found: Span, breaks: Sequence[Break], known: Iterable[Span]) -> bool:
    """Whether a secret that was found in joined lines does not end with the first of them.

    Where its first line is a secret by itself, the rest has to look like one, too: a setting may stand below a key.
    """
    if not any(span.start < found.end and found.start < span.end for span in known):
        return True
    begins = [end for _, end in breaks if end > found.start]
    ends = [*[start for start, _ in breaks if start > found.start][1:], found.end]
    return all(_KEY_LIKE.fullmatch(text, begin, end) for begin, end in zip(begins, ends, strict=True))


def _mended_outcome(outcome: Outcome, mend: Callable[[str], str]) -> Outcome:
    tests = {mend(name): passed for name, passed in outcome.tests.items()}
    return replace(outcome, detail=mend(outcome.detail), tests=tests)


def _compiled(expression: str) -> re.Pattern[str]:
    hint = "Give a Python regular expression that matches the secret and nothing else."
    try:
        pattern = re.compile(expression)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"redaction pattern {expression!r} is not a regular expression: {error}", hint=hint) from error
    if pattern.match(""):
        raise UsageError(f"redaction pattern {expression!r} matches the empty text", hint=hint)
    return pattern


def _own_spans(kind: str, pattern: re.Pattern[str], text: str) -> Iterable[Span]:
    for match in pattern.finditer(text):
        group = 1 if pattern.groups and match.start(1) >= 0 else 0
        start, end = match.span(group)
        if start < end and MARK not in match[0]:
            yield Span(start, end, kind)


def _marked(text: str, spans: Iterable[Span], counts: Counter[str]) -> str:
    parts: list[str] = []
    done = 0
    for span in _disjoint(spans):
        parts += (text[done : span.start], f"{MARK}{span.kind}]")
        counts[span.kind] += 1
        done = span.end
    parts.append(text[done:])
    return "".join(parts)


def _disjoint(spans: Iterable[Span]) -> Iterable[Span]:
    """Join spans that overlap; the kind is that of the finder that comes first (sorting is stable)."""
    ranked = sorted(enumerate(spans), key=lambda pair: (pair[1].start, pair[0]))
    rank, current = ranked[0]
    for next_rank, span in ranked[1:]:
        if span.start < current.end:
            kind = current.kind if rank <= next_rank else span.kind
            rank = min(rank, next_rank)
            current = Span(current.start, max(current.end, span.end), kind)
        else:
            yield current
            rank, current = next_rank, span
    yield current


_BUILT_IN = Redactor()


def redact(text: str, extra_patterns: Mapping[str, str] | Iterable[str] = ()) -> Redacted:
    """Return the text with keys, tokens, passwords, e-mails and home paths replaced by `[redacted:kind]`, and counts.

    Raises:
        UsageError: an extra pattern is not a usable regular expression.
    """
    return (Redactor(extra_patterns) if extra_patterns else _BUILT_IN)(text)


def redact_trace(
    trace: Trace, extra_patterns: Mapping[str, str] | Iterable[str] = ()
) -> tuple[Trace, Mapping[str, int]]:
    """Return the trace with every text redacted, and the counts by kind.

    Raises:
        UsageError: an extra pattern is not a usable regular expression.
    """
    return (Redactor(extra_patterns) if extra_patterns else _BUILT_IN).trace(trace)


def find_secrets(text: str, patterns: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the kinds of secrets in a text (keys, passwords, e-mail addresses, home paths, the user's own), sorted."""
    return tuple(sorted(redact(text, patterns or ()).counts))
