"""The page of real runs: finished, lossy, unfinished, empty, hostile, and while it goes on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from combee.cli.main import run
from combee.errors import UsageError
from combee.kernel.journal import JSON, Journal
from combee.kernel.learn import LearnConfig, LearnResult
from combee.kernel.playbook import Bullet, Playbook, digest, to_json
from combee.report import read_run, write_report
from tests.report.pages import HOSTILE, read_page

MakeRun = Callable[..., tuple[Path, LearnResult]]


def page_of(folder: Path) -> str:
    path = write_report(folder)
    assert path == folder / "report.html"
    return path.read_text(encoding="utf-8")


def test_a_finished_run_is_shown_whole(make_run: MakeRun) -> None:
    folder, result = make_run(near=0.8)
    page = read_page(page_of(folder))
    assert "completed" in page.text
    assert "all samples were seen" in page.text
    assert {"progress", "trees", "lost", "playbook", "steps", "versions", "settings"} <= page.ids
    for bullet in result.best:
        assert bullet.id in page.text
        assert bullet.text in page.text
    for step in result.steps:
        assert f"{step.tokens:,}" in page.text
        assert step.version[:12] in page.text
    # Steps count from 0 on the page, as they do in the journal, in `combee why` and in `combee versions`.
    numbers = {event.step for event in read_run(folder).steps}
    assert min(numbers) == 0
    assert all(f"Step {scan.step}:" in page.text for scan in read_run(folder).last_scans[:1])
    assert f"Step {max(numbers) + 1}:" not in page.text
    for title in ("Score", "Playbook tokens", "Playbook bullets", "Lessons a step"):
        assert title in page.text
    assert "0.8" in page.text
    assert "seconds of the last start" in page.text


def test_what_a_score_has_to_beat_stands_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        f"Which account takes the {word} of case {n}?,{word.upper()}" for n in range(12) for word in ("rent", "tax")
    ]
    Path("rows.csv").write_text("\n".join(["question,answer", *rows]), encoding="utf-8")
    assert run(["learn", "rows.csv", "--name", "one"]) == 0
    beside = re.search(r"without learning: (.*) (\d\.\d+), (.*) (\d\.\d+)\n", capsys.readouterr().out)
    assert beside is not None
    text = read_page(page_of(Path("runs/one"))).text
    for what, share in (beside.group(1, 2), beside.group(3, 4)):
        assert f"{share}without learning: {what}" in text


def test_epochs_are_not_averaged_away(make_run: MakeRun) -> None:
    folder, result = make_run(epochs=2, rows=20)
    first, second = ([step for step in result.steps if step.epoch == epoch] for epoch in (0, 1))
    shares = [sum(step.hits for step in part) / sum(step.total for step in part) for part in (first, second)]
    assert shares[0] < shares[1]
    text = read_page(page_of(folder)).text
    assert f"{shares[0]:.3f} → {shares[1]:.3f}training, before learning, first and last epoch" in text


def test_lost_lessons_are_named_with_their_node_and_text(make_run: MakeRun) -> None:
    folder, result = make_run(forget=6.0, guard=False)
    lost = sum(step.uncovered for step in result.steps)
    assert lost > 0
    record = read_run(folder)
    missing = [key for scan in record.last_scans for key in scan.uncovered]
    assert len(missing) == lost
    page = read_page(page_of(folder))
    assert f"Lessons lost ({lost})" in page.text
    for key in missing[:200]:
        assert key in page.text
        assert record.lessons[key][0][:100] in page.text


def test_the_guards_retries_are_shown(make_run: MakeRun) -> None:
    folder, result = make_run(forget=3.0, aggregate="naive", batch=30, guard=True)
    record = read_run(folder)
    assert result.steps
    assert any(verdict.verdict == "retry_smaller" for verdict in record.verdicts)
    page = read_page(page_of(folder))
    assert "retry smaller" in page.text
    assert "attempt 2" in page.text
    for verdict in record.verdicts:
        assert all(reason in page.text for reason in verdict.reasons)


def test_an_automatic_batch_size_shows_its_curve(make_run: MakeRun) -> None:
    folder, _ = make_run(batch="auto", candidates=[2, 3, 4], rows=60)
    record = read_run(folder)
    assert record.choices
    page = read_page(page_of(folder))
    assert "batch" in page.ids
    assert "Time of one pass by batch size" in page.text
    assert f"batch {record.choices[-1].batch}" in page.text


def test_a_run_that_has_not_chosen_yet_says_so(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "run") as journal:
        journal.set_meta("spec", {"learn": {"batch": "auto"}})
        journal.record_event("RunStarted", {"samples": 60, "epochs": 1, "replayed": False})
        journal.record_event("StepStarted", {"epoch": 0, "step": 0, "batch": 2})
    assert "No size is chosen yet" in read_page(page_of(tmp_path / "run")).text


def test_a_hostile_playbook_is_only_text(make_run: MakeRun) -> None:
    long = "x" * 10_000
    bullets = (
        Bullet("ctx-00001", HOSTILE, HOSTILE, helpful=3, harmful=1, sources=(HOSTILE,)),
        Bullet("ctx-00002", "S", long),
        Bullet("ctx-00003", "S", "🐝 <b>bold</b> &lt; \u202ereversed"),
    )
    folder, _ = make_run(start=Playbook(bullets, 3), rows=20)
    text = page_of(folder)
    page = read_page(text)
    assert HOSTILE in page.text
    assert bullets[2].text in page.text
    assert "<b>bold" not in text
    assert "(6,000 more characters)" in page.text


def test_hostile_names_reasons_and_settings_are_only_text(tmp_path: Path) -> None:
    folder = tmp_path / "a<b>&'\"🐝"
    with Journal.open(folder) as journal:
        journal.set_meta(
            "spec", {"tasks": {"source": HOSTILE, HOSTILE: [HOSTILE]}, "model": {"base_url": "http://u:pw@h/v1"}}
        )
        journal.record_event("RunStarted", {"samples": 2, "epochs": 1, "replayed": False})
        journal.record_event("SampleRefused", {"sample": HOSTILE, "reason": HOSTILE})
        journal.record_event("GuardJudged", {"step": 0, "verdict": HOSTILE, "reasons": [HOSTILE]})
        journal.record_event("ReduceFailed", {"step": 0, "reflections": 3, "in_a_row": 1, "reason": HOSTILE})
        journal.scope(seed=0, epoch=0, step=0).decide(f"failed/{HOSTILE}", HOSTILE)
        end: dict[str, JSON] = {"reason": "failed", "detail": HOSTILE, "version": "", "bullets": 0, "seconds": 1.0}
        journal.record_event("RunFinished", end)
    page = read_page(page_of(folder))
    assert page.text.count(HOSTILE) >= 8
    assert "u:pw" not in page.text
    assert folder.name in page.text


def test_an_empty_run_has_a_page(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "run"):
        pass
    page = read_page(page_of(tmp_path / "run"))
    assert "not begun" in page.text
    assert "No step is finished yet." in page.text


def test_a_run_is_read_while_it_is_written_and_is_called_unfinished(make_run: MakeRun) -> None:
    folder, _ = make_run(rows=40)
    with Journal.open(folder) as journal:  # goes on: a start after the end
        journal.record_event("RunStarted", {"samples": 40, "epochs": 1, "replayed": True})
        journal.flush()
        page = read_page(page_of(folder))
        assert "not finished" in page.text
        assert "started 2 times" in page.text
        journal.record_event("StepStarted", {"epoch": 0, "step": 2, "batch": 20})
        journal.flush()
        read_page(page_of(folder))


def test_a_run_without_kept_settings_says_so(tmp_path: Path) -> None:
    book = Playbook((Bullet("ctx-00001", "S", "one"),), 1)
    with Journal.open(tmp_path / "run") as journal:
        journal.record_event("RunStarted", {"samples": 2, "epochs": 1, "replayed": False})
        journal.add_version(to_json(book), digest(book))
        journal.label("last", digest(book))
    page = read_page(page_of(tmp_path / "run"))
    assert "kept no settings" in page.text
    assert "Playbook (last: 1 bullet)" in page.text


def test_the_settings_of_a_swarm_are_shown_and_what_is_not_the_default_is_bold(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "run") as journal:
        kept = LearnConfig.from_json({"batch": 120, "epochs": 4}).to_json()
        journal.set_meta("swarm", {"tasks": "9e2b", "learn": kept, "view_tokens": 160})
    page = page_of(tmp_path / "run")
    assert "kept no settings" not in page
    for shown in ("<strong>120</strong>", "<strong>160</strong>", "<strong>9e2b</strong>", "<span>yes</span>"):
        assert shown in page
    assert len(re.findall("<strong>", page)) == 4


def test_model_calls_are_summed_by_role(tmp_path: Path) -> None:
    usage: dict[str, JSON] = {"prompt": 1000, "completion": 50, "cached": 200, "estimated": False}
    row: dict[str, JSON] = {
        "model": "m",
        "role": "reflect",
        "item": "a",
        "attempt": 0,
        "tries": 0,
        "outcome": "ok",
        "paid": "yes",
    }
    row |= {"usage": usage, "cost": 0.25, "queued": 0.5, "wire": 1.5, "at": 0.0}
    with Journal.open(tmp_path / "run") as journal:
        journal.record_call(row)
        journal.record_call(row | {"cost": None})
        journal.record_call(row | {"outcome": "rate_limit", "paid": "no", "usage": None, "cost": None})
        journal.record_call({"odd": True})
    page = read_page(page_of(tmp_path / "run"))
    assert "reflect" in page.text
    for text in ("2,000", "0.2500+?", "rate_limit 1", "the price of 1 paid calls is not known", "1 records of another"):
        assert text in page.text


def test_the_command_writes_the_page_of_the_latest_run_or_of_a_named_one(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run("runs/one", rows=20)
    monkeypatch.chdir(tmp_path)
    assert run(["report"]) == 0
    assert capsys.readouterr().out.strip() == str(Path("runs/one/report.html"))
    assert run(["report", "one", "--out", "page.html"]) == 0
    read_page(Path("page.html").read_text(encoding="utf-8"))
    assert run(["report", "two"]) == 2
    assert run(["report", "one", "--out", "missing/page.html"]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "runs"]


def test_no_run_is_a_usage_error_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run"):
        write_report(tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []
