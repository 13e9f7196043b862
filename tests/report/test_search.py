"""The page of a search by gepa: of a real run, of one without our loop, and of events that no recorder wrote."""

from __future__ import annotations

from pathlib import Path

from combee.kernel.journal import JSON, Journal
from combee.report import read_run, run_page
from combee.report.charts import lineage_plot
from combee.report.read import GepaCandidate, Search
from tests.report.pages import HOSTILE, read_page


def candidate(index: int, parents: list[int], score: float, **more: JSON) -> dict[str, JSON]:
    scores: dict[str, JSON] = {"task-2": score, "task-10": 1.0 - score}
    made: dict[str, JSON] = {"iteration": index, "index": index, "parents": list(parents), "score": score}
    return {**made, "scores": scores, "metric_calls": 10 * index, "texts": {"prompt": {"text": "Be brief."}}, **more}


def search_of(*candidates: GepaCandidate) -> Search:
    return Search(None, candidates, (), frozenset(), (), (), (), None)


def test_a_search_is_shown_with_lineage_front_scores_and_reasons(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "run") as journal:
        journal.record_event("GepaStarted", {"components": ["prompt"], "trainset": 8, "valset": 2})
        journal.record_event("GepaCandidate", candidate(0, [], 0.25))
        journal.record_event("GepaCandidate", candidate(1, [0], 0.75))
        journal.record_event("GepaCandidate", candidate(2, [0, 1], 0.5, texts={"prompt": {"version": "ab" * 32}}))
        proposal: dict[str, JSON] = {"iteration": 1, "status": "accepted", "reason": "", "candidate": 1, "parents": [0]}
        figures: dict[str, JSON] = {"prompt": {"covered": 3, "records": 4}}
        proposal |= {"before": [0.0, 1.0, 0.0, 0.0], "after": [1.0, 1.0, 0.5, 0.0], "components": figures}
        journal.record_event("GepaProposal", proposal)
        sums: dict[str, JSON] = {"status": "rejected", "reason": "no_better", "candidate": None, "components": None}
        journal.record_event("GepaProposal", {**proposal, **sums, "iteration": 2, "before": 2.5, "after": 2.25})
        journal.record_event("GepaSkipped", {"iteration": 3, "parent": 1, "reason": "all_scores_perfect"})
        journal.record_event("GepaError", {"iteration": 4, "kind": "RunError", "message": "the endpoint is gone"})
        journal.record_event("GepaFront", {"iteration": 2, "front": [0, 1], "displaced": []})
        for number in range(1, 5):
            journal.record_event("GepaIteration", {"iteration": number, "metric_calls": 10 * number})
    page = read_page(run_page(read_run(tmp_path / "run")))
    assert "search" in page.ids
    assert "progress" not in page.ids
    assert "not finished" in page.text
    for said in (
        "prompt: 8 training and 2 validation records; 4 iterations, 40 metric calls; ",
        "2 proposals (1 accepted, 1 rejected)",
        "1 parents without anything to reflect on; 1 errors; best of 3 candidates: #1 with 0.750",
        "#0, #1",
        "accepted, now #1",
        "1 of 4",
        "2.5 of 4",
        "3 of 4",
        "no better",
        "all scores perfect",
        "RunError: the endpoint is gone",
        "Be brief.",
        "abababababab",
        "generation 2",
        "who is right where",
        "#1, task-2: 0.75",
    ):
        assert said in page.text
    boxes = [value for name, value in page.attributes if name == "class" and value.startswith("box ")]
    assert sorted(boxes) == ["box best", "box front"]
    columns = [page.text.index(f"#1, {name}:") for name in ("task-2", "task-10")]
    assert columns == sorted(columns)


def test_a_search_by_gepa_alone_is_completed_when_gepa_says_so(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "run") as journal:
        journal.record_event("GepaCandidate", candidate(0, [], 0.25))
        journal.record_event("GepaFinished", {"best": 0, "iterations": 0, "metric_calls": 1234})
    page = read_page(run_page(read_run(tmp_path / "run")))
    assert "completed" in page.text
    assert "gepa ended after 1,234 metric calls" in page.text


def test_hostile_events_are_only_text_and_odd_ones_are_counted(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "run") as journal:
        texts: dict[str, JSON] = {HOSTILE: {"text": HOSTILE}}
        scores: dict[str, JSON] = {HOSTILE: 1.0}
        journal.record_event("GepaCandidate", candidate(0, [], 1.0, texts=texts, scores=scores))
        journal.record_event("GepaSkipped", {"iteration": 1, "parent": 0, "reason": HOSTILE})
        journal.record_event("GepaError", {"iteration": 1, "kind": HOSTILE, "message": HOSTILE})
        journal.record_event("GepaFront", {"front": [0, 77]})
        journal.record_event("GepaProposal", {"iteration": 2})
        journal.record_event("GepaCandidate", {"index": 1})
    page = read_page(run_page(read_run(tmp_path / "run")))
    assert page.text.count(HOSTILE) >= 4
    assert "2 records of another version" in page.text


def test_a_run_without_gepa_has_no_search(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "run"):
        pass
    assert "search" not in read_page(run_page(read_run(tmp_path / "run"))).ids


def test_a_long_lineage_is_drawn_for_its_best_with_all_that_they_came_from() -> None:
    chain = [GepaCandidate(i, i, (i - 1,) if i else (), i / 100, {}, 0, {}) for i in range(100)]
    drawn = lineage_plot(search_of(*chain), most=10)
    assert drawn.body.count("<rect") == 2 * 100
    flat = [GepaCandidate(i, i, (0,) if i else (), i / 100, {}, 0, {}) for i in range(100)]
    plot = lineage_plot(search_of(*flat), most=10)
    assert "10 of 100 candidates" in plot.title
    assert {f"#{i}<" in plot.body for i in (0, 91, 99)} == {True}
    assert "#90<" not in plot.body


def test_boxes_of_a_lineage_do_not_overlap() -> None:
    parents = {0: (), 1: (0,), 2: (0,), 3: (1,), 4: (2, 1), 5: (1,), 6: (0,), 7: (6,)}
    plot = lineage_plot(search_of(*(GepaCandidate(i, i, of, 0.5, {}, 0, {}) for i, of in parents.items())))
    places = [
        tuple(float(part.split(f'{name}="')[1].split('"')[0]) for name in (" x", " y"))
        for part in plot.body.split("<rect")[1::2]
    ]
    assert len(places) == len(parents)
    assert all(abs(x1 - x2) >= 96 or abs(y1 - y2) >= 36 for i, (x1, y1) in enumerate(places) for x2, y2 in places[:i])
    assert max(y for _, y in places) + 36 <= plot.height
    assert max(x for x, _ in places) + 96 <= plot.width


def test_candidates_stand_at_their_iteration_in_the_plot_of_scores(tmp_path: Path) -> None:
    step: dict[str, JSON] = dict.fromkeys(("reflections", "lessons", "operations", "refused", "uncovered", "failed"), 0)
    step |= dict.fromkeys(("calls", "reads", "depth", "bullets", "tokens"), 1)
    step |= {"epoch": 0, "version": "v", "seconds": 0.1, "batch": 4, "total": 4}
    with Journal.open(tmp_path / "run") as journal:
        for index in range(3):
            journal.record_event("GepaCandidate", candidate(index, [], index / 4))
        for number in range(2):  # iterations count from 1, steps from 0
            journal.record_event("StepFinished", {**step, "step": number, "hits": number + 1})
    page = run_page(read_run(tmp_path / "run"))
    for said in ("validation: 0, 0", "validation: 1, 0.25", "validation: 2, 0.5", "it: 0, 0.25", "it: 1, 0.5"):
        assert f"{said}</title>" in page
