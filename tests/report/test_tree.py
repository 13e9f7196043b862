"""The tree stays one look however many leaves there are, and losses are named with their place."""

from __future__ import annotations

from pathlib import Path

from combee.kernel.aggregate import Node
from combee.kernel.journal import Journal
from combee.report import RunRecord, run_page, write_report
from combee.report.charts import FOLDED, MOST_BOXES, levels, tree_plot
from combee.report.read import ScanTree, losses
from tests.report.pages import Page, read_page


def leaf(name: str, keys: tuple[str, ...], lost: tuple[str, ...] = (), error: str | None = None, turn: int = 0) -> Node:
    return Node(name, 0, turn, keys, len(keys), 0 if error else len(keys) - len(lost), error, lost)


def scan_of(*nodes: Node, uncovered: tuple[str, ...] = (), failed: tuple[str, ...] = ()) -> ScanTree:
    return ScanTree(0, 0, 0, nodes, uncovered, failed, covered=5, claimed=5)


def a_thousand_leaves() -> tuple[Node, ...]:
    leaves = [leaf(f"r0/l0/g{i}", tuple(f"k{i}-{j}" for j in range(16)), (f"k{i}-0",)) for i in range(1000)]
    middle = [
        Node(f"r0/l1/g{i}", 1, 0, tuple(node.name for node in leaves[16 * i : 16 * i + 16]), 240, 240)
        for i in range(63)
    ]
    return (*leaves, *middle, Node("r0/l2/g0", 2, 0, tuple(node.name for node in middle), 15000, 15000))


def test_a_thousand_leaves_fit_on_one_small_page(tmp_path: Path) -> None:
    nodes = a_thousand_leaves()
    plot = tree_plot(nodes, "Step 1")
    boxes = plot.body.count('class="box')
    assert boxes <= 2 * FOLDED + 1
    assert plot.height < (MOST_BOXES + 3) * 44
    record = RunRecord("big", scans=(scan_of(*nodes, uncovered=tuple(f"k{i}-0" for i in range(1000))),))
    text = run_page(record)
    read_page(text)
    assert len(text.encode()) < 1_000_000
    sums = levels(nodes)
    assert [(row.nodes, row.entries_in, row.entries_out, row.lost) for row in sums] == [
        (1000, 16000, 15000, 1000),
        (63, 15120, 15120, 0),
        (1, 15000, 15000, 0),
    ]


def test_every_node_of_a_small_tree_is_drawn_with_what_it_took_in_and_let_out() -> None:
    nodes = (
        leaf("r0/l0/g0", ("a", "b", "c"), ("b",)),
        leaf("r0/l0/g1", ("d", "e"), error="rate_limit: slow <down>; split in two"),
        leaf("r0/l0/g1.0", ("d",)),
        Node("r0/l1/g0", 1, 0, ("r0/l0/g0", "r0/l0/g1.0"), 3, 3),
    )
    page = Page(tree_plot(nodes, "Step 1").inline())
    for text in ("r0/l0/g0", "3 → 2", "1 lost", "✕ failed", "r0/l0/g1.0", "1 → 1", "r0/l1/g0", "3 → 3", "slow <down>"):
        assert text in page.text
    edges = [value for name, value in page.attributes if name == "class" and value == "edge"]
    assert len(edges) == 2


def test_a_loss_names_its_node_and_reason() -> None:
    scan = scan_of(
        leaf("r0/l0/g0", ("a", "b"), ("a",)),
        leaf("r0/l0/g1", ("c", "d")),
        leaf("r0/l0/g2", ("e",), error="timeout: no answer; given up"),
        leaf("r1/l0/g0", ("a",), ("a",), turn=1),
        Node("r1/l1/g0", 1, 1, ("r0/l0/g0", "r0/l0/g1"), 3, 2, None, ("c",)),
        uncovered=("a", "c", "e", "z"),
        failed=("e",),
    )
    found = {loss.key: loss for loss in losses(RunRecord("r", scans=(scan,)))}
    assert found["a"].node == "r1/l0/g0"
    assert "read 2 times" in found["a"].reason
    assert found["c"].node == "r1/l1/g0"
    assert "not in what came out" in found["c"].reason
    assert found["e"].node == "r0/l0/g2"
    assert "no answer" in found["e"].reason
    assert "no call read it" in found["z"].reason


def test_a_step_that_was_tried_again_lost_only_what_its_last_attempt_lost() -> None:
    first = ScanTree(0, 3, 0, (leaf("r0/l0/g0", ("a", "b"), ("a",)),), ("a",), (), 1, 1)
    second = ScanTree(0, 3, 1, (leaf("r0/l0/g0", ("a", "b")),), (), (), 2, 2)
    assert list(losses(RunRecord("r", scans=(first, second)))) == []


def test_a_tree_that_lacks_something_is_counted_and_left_out(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "run") as journal:
        journal.record_event("Scan", {"nodes": [{"name": "x"}], "step": 0})
        journal.record_event("Scan", ["no tree"])
        journal.record_event("StepFinished", {"step": 0})
        journal.record_event("Unheard", {"of": 1})
    text = write_report(tmp_path / "run").read_text(encoding="utf-8")
    assert "3 records of another version of Combee" in read_page(text).text
