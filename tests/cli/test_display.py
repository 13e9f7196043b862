"""Progress of a run: what is done out of all, however often a sample is tried."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from combee.kernel.learn import RunStarted, SampleDone, Validated
from combee.terminal.display import MOST_REASONS, PlainDisplay, Tally

if TYPE_CHECKING:
    import pytest


def done(sample: str, error: str | None = None) -> SampleDone:
    return SampleDone(step=0, sample=sample, hits=0, total=1, lessons=0, error=error)


def test_progress_never_exceeds_its_total_however_often_a_sample_is_tried() -> None:
    tally = Tally()
    tally.take(RunStarted(2, 1, replayed=False))
    for _ in range(3):
        tally.take(done("a", "no connection"))
        tally.take(done("b", "no connection"))
    assert str(tally) == "0/2 samples, 2 failed"
    tally.take(done("a"))
    assert str(tally) == "1/2 samples, 1 failed"
    tally.take(done("b"))
    assert str(tally) == "2/2 samples"


def test_each_reason_of_a_failure_is_said_once_and_not_without_end(capsys: pytest.CaptureFixture[str]) -> None:
    display = PlainDisplay()
    display.observe(RunStarted(40, 1, replayed=False))
    for sample in range(40):
        display.observe(done(f"s{sample}", "the same"))
    assert capsys.readouterr().err == "sample s0 failed: the same\n"
    for sample in range(40):
        display.observe(done(f"s{sample}", f"reason {sample}"))
    assert len(capsys.readouterr().err.splitlines()) == MOST_REASONS - 1


def test_a_failure_from_before_a_resume_is_counted_and_not_said_again(capsys: pytest.CaptureFixture[str]) -> None:
    display, old = PlainDisplay(), replace(done("a", "no connection to the old place"), is_news=False)
    display.observe(old)
    assert capsys.readouterr().err == ""
    tally = Tally()
    tally.take(RunStarted(2, 1, replayed=True))
    tally.take(old)
    assert str(tally) == "0/2 samples, 1 failed"


def test_progress_says_the_spend_and_the_calls_that_gave_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("combee.terminal.display.PLAIN_EVERY_SECONDS", 0.0)
    PlainDisplay(lambda: "$0.0120 · 3 calls gave nothing").observe(Validated(0, 1, 1, 2, 0, "v", best=False))
    assert capsys.readouterr().err == "0/0 samples · validation 0.500 · $0.0120 · 3 calls gave nothing\n"
