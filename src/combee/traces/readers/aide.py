"""AIDE's journal, as MLE-bench keeps it (`journal.json`): a tree of programs, each run once, in their order.

A node is a plan, the program and what running it printed. Its metric is its own word: a grader's verdict is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from combee.redaction import ToolCall, Trace
from combee.traces.readers.draft import TraceDraft, claim
from combee.traces.readers.messages import Piece, content_text
from combee.traces.readers.source import Source
from combee.traces.readers.values import flag, number, objects, table, text


class AideReader:
    """Reads one journal a file."""

    name = "aide"
    fields = ("nodes", "code", "plan", "is_buggy")

    def sniff(self, source: Source) -> float:
        """Look for nodes with a program and what became of it."""
        for value in source.first:
            for node in list(objects(table(value).get("nodes")))[:2]:
                if "code" in node and ("_term_out" in node or "is_buggy" in node):
                    return 0.95
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the run of each journal."""
        for line, value in source.records():
            nodes = [node for node in objects(table(value).get("nodes")) if text(node.get("code"))]
            draft = TraceDraft(source)
            for at, node in enumerate(nodes):
                call = ToolCall(f"node-{at}", "bash", f"python3 - <<'PROGRAM'\n{text(node.get('code'))}\nPROGRAM")
                draft.add(Piece("assistant", text(node.get("plan")), (call,)), line=line)
                trouble = text(node.get("exc_type"))
                wrong = bool(trouble) if "exc_type" in node else flag(node.get("is_buggy"))
                printed = content_text(node.get("_term_out") or node.get("term_out") or "")
                draft.add(Piece("tool", printed or trouble, answers=call.id, is_error=wrong), line=line)
            good = [node for node in nodes if flag(node.get("is_buggy")) is False]
            metrics = [number(table(node.get("metric")).get("value")) for node in good]
            last = [each for each in metrics if each is not None][-3:]
            said = f"{len(good)} of {len(nodes)} programs ran; metrics {last}"
            outcome = claim(bool(good), said) if nodes else None
            yield from draft.trace("", outcome, {"agent": "aide"}, line=line)
