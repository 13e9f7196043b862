"""Many runs: what recurs is one lesson, what another run proves wrong is none, passed and failed runs are compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from combee.kernel.journal import MemoryScope
from combee.kernel.learn import LearnConfig, RecordedTraces, learn
from combee.kernel.playbook import Bullet, Playbook
from combee.redaction import Outcome, Redactor, Step, ToolCall, Trace, count_tokens
from combee.run import spread
from combee.traces.mining import (
    MiningCurator,
    MiningReflector,
    StoredRuns,
    TraceFile,
    findings,
    keep,
    survey,
    vote_trace,
)
from tests.traces.mining.runs import recorded

MISSING = [
    ("python3 a.py", "ModuleNotFoundError: No module named 'six'", 1),
    ("pip install six", "ok", 0),
    ("python3 a.py", "done", 0),
]
KILLED = "The last command <command>x</command> timed out and has been killed."


def test_the_same_lesson_of_many_runs_has_one_text_and_its_support() -> None:
    quiet = [MISSING[0], ("pip install -q six", "ok", 0), MISSING[2]]
    found = survey([recorded(*MISSING, name="a"), recorded(*quiet, name="b"), recorded(*MISSING, name="c")])
    assert list(found.support().values()) == [3]
    assert "`pip install six` brought it" in next(iter(found.support()))


def test_of_many_runs_one_that_installed_a_module_under_its_own_name_says_nothing() -> None:
    others = [recorded(("ls", "a", 0), name=f"o{number}") for number in range(19)]
    assert survey([recorded(*MISSING, name="a"), *others]).support() == {}
    assert len(survey([recorded(*MISSING, name="a"), recorded(*MISSING, name="b"), *others]).support()) == 1
    flagged = [MISSING[0], ("pip install six==1.16", "ok", 0), MISSING[2]]
    assert len(survey([recorded(*flagged, name="a"), *others]).support()) == 1


def test_a_dead_end_that_another_run_got_past_becomes_what_worked() -> None:
    tries = [("pip install torch", KILLED, None), ("pip install torch --no-cache-dir", KILLED, None)]
    other = recorded(("pip install torch --index-url https://x.y/cpu", "ok", 0), name="b")
    found = survey([recorded(*tries, name="a"), other])
    (text,) = found.support()
    assert text.endswith("in another run `pip install torch --index-url https://x.y/cpu` worked.")


def test_an_error_that_holds_brackets_is_quoted_whole_where_another_run_got_past_it() -> None:
    refused = "ERROR: Could not install torch (from versions: 1.0, 2.0): no wheel (cp314) fits"
    tries = [("pip install torch", refused, 1), ("pip install torch --pre", refused, 1)]
    other = recorded(("pip install torch --index-url https://x.y/cpu", "ok", 0), name="b")
    (text,) = survey([recorded(*tries, name="a"), other]).support()
    assert f"failed again and again with `{refused.removeprefix('ERROR: ')}` (" in text.replace("ERROR: ", "")


def test_failures_that_recur_count_from_three_runs_and_only_if_no_run_got_past() -> None:
    row = ("aws sts get-caller-identity", "Unable to locate credentials. Run aws configure.", 255)
    runs = [recorded(row, name=name) for name in "abc"]
    assert survey(runs[:2]).support() == {}
    assert list(survey(runs).support().values()) == [3]
    worked = recorded((row[0], "me", 0), name="d")
    assert survey([*runs, worked]).support() == {}


@pytest.mark.parametrize(
    ("failed", "between", "worked"),
    [
        (("python3 t.py", "ModuleNotFoundError: No module named 'numpy'", 1), "source v/bin/activate", "python3 t.py"),
        (("tool x", "sh: 1: tool: not found", 127), "export PATH=/opt/tool:$PATH", "tool y"),
    ],
)
def test_what_a_run_got_past_in_any_way_was_not_absent(failed: tuple[str, str, int], between: str, worked: str) -> None:
    runs = [recorded(failed, (between, "", 0), name=name) for name in "abc"]
    (text,) = survey(runs).support()
    assert "none of them brought it" in text
    runs = [recorded(failed, failed, (between, "", 0), (worked, "ok", 0), name=name) for name in "abc"]
    assert not any("brought" in text for text in survey(runs).support())


def test_passed_and_failed_runs_of_one_task_are_compared_by_judged_outcomes_only() -> None:
    good = [("man tool", "NAME", 0), ("tool -x", "ok", 0)]
    bad = [("tool -x", "ok", 0)]
    runs = [recorded(*good, name=f"g{n}", passed=True, meta={"task_id": "use-tool"}) for n in range(2)]
    runs += [recorded(*bad, name=f"b{n}", passed=False, meta={"task_id": "use-tool"}) for n in range(2)]
    (text,) = survey(runs).support()
    assert text == "In the task `use-tool`, all 2 runs that passed used `man`, none of the 2 that failed."
    claimed = [Trace(r.id, r.task, r.steps, Outcome(r.outcome.success, claimed=True)) for r in runs if r.outcome]
    assert survey(claimed).support() == {}


def test_a_hang_that_another_run_fed_becomes_what_fed_it() -> None:
    hung = ("./game 1", f"{KILLED}\n<output>\n> \n</output>", None)
    alone, other = recorded(hung, name="a"), recorded(hung, ("echo n | ./game 1", "won", 0), name="b")
    (text,) = survey([alone]).support()
    assert text == "`./game 1` asks for input and was killed by the time limit at its prompt `>`."
    assert survey([alone, other]).support() == {
        "`./game 1` waits for input and timed out; fed by a pipe it came back: `echo n | ./game 1`.": 2
    }


def test_scripts_that_the_time_limit_killed_count_by_task() -> None:
    rows = [("cat <<'E' > train.py\nx\nE", "", 0), ("python3 train.py", KILLED, None)]
    runs = [recorded(*rows, name=name, meta={"task_id": "learn-it"}) for name in "abc"]
    (text,) = survey(runs).support()
    assert text.startswith("In the task `learn-it`, scripts that the agent wrote were killed by the time limit")
    assert survey(runs[:2]).support() == {}
    given = [recorded(rows[1], name=name, meta={"task_id": "learn-it"}) for name in "abc"]
    assert not any("scripts that the agent wrote" in text for text in survey(given).support())


def test_the_one_check_of_several_that_all_failed_runs_failed() -> None:
    def run(name: str, *failed: str) -> Trace:
        tests = {check: check not in failed for check in ("test_is_there", "test_it_runs", "test_it_is_executable")}
        outcome = Outcome(success=not failed, tests=tests)
        return replace(recorded(("cat a", "x", 0), name=name, meta={"task_id": "use-tool"}), outcome=outcome)

    runs = [run(name, "test_it_is_executable") for name in "abc"]
    (text,) = survey(runs).support()
    assert text == "In the task `use-tool`, all 3 runs that failed did so in one of 3 checks: `test_it_is_executable`."
    assert survey(runs[:2]).support() == {}
    other = run("d", "test_it_runs", "test_it_is_executable")
    assert survey([*runs, other]).support() == {}
    in_vain = recorded(("foo", "bad: error: x", 1), name="d", meta=other.meta)  # no command of it worked
    assert survey([*runs, replace(other, steps=in_vain.steps)]).support() == {}
    start = ("BOXES=/a:rw /opt/v/bin/python -m openhands.core.main --task 'x'", "", 0)  # the call of the agent itself
    (text,) = survey([*runs, replace(other, steps=recorded(start).steps)]).support()
    assert survey([*runs, replace(other, steps=other.steps[:1])]).support() == {text: 3}
    assert text == (
        "In the task `use-tool`, all 3 runs that failed (of 1 more no call is recorded) did so in one of 3 "
        "checks: `test_it_is_executable`."
    )


def test_a_contrast_needs_failed_runs_that_never_tried_it_in_any_way() -> None:
    good = [("man tool", "NAME", 0)]
    piped = [("man tool | head -5; tool -x", "NAME", 0)]
    runs = [recorded(*good, name=f"g{n}", passed=True) for n in range(2)]
    runs += [recorded(*piped, name=f"b{n}", passed=False) for n in range(2)]
    assert survey(runs).support() == {}


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("tool --fast x | tail -3", "ok", 0),
        ("tool --fast x", "tool: error: bad", 1),
        ("for x in a; do tool --fast $x; done", "", 0),
    ],
)
def test_a_failed_run_whose_use_of_an_option_is_not_sure_used_it(command: str, output: str, code: int) -> None:
    good, bad = ("tool --fast x", "ok", 0), ("tool x", "ok", 0)
    runs = [recorded(good, name=f"g{n}", passed=True) for n in range(2)]
    runs += [recorded(bad, name=f"b{n}", passed=False) for n in range(2)]
    assert len(survey(runs).support()) == 1
    assert not any(
        "passed used" in text
        for text in survey([*runs, recorded((command, output, code), name="c", passed=False)]).support()
    )


def test_runs_of_different_tenants_share_no_text() -> None:
    tries = [("pip install torch", KILLED, None), ("pip install torch --no-cache-dir", KILLED, None)]
    mine = replace(recorded(*tries, name="a"), labels={"tenant": "a"})
    theirs = recorded(("pip install torch --index-url https://secret.b/cpu", "ok", 0), name="b")
    (text,) = survey([mine, replace(theirs, labels={"tenant": "b"})]).support()
    assert "secret.b" not in text
    assert text.startswith("A dead end: ")


def test_what_a_user_says_in_many_runs_is_a_harness_speaking() -> None:
    def trace(name: str) -> Trace:
        run = recorded(("make", "ok", 0), name=name, task="go")
        return replace(run, steps=(*run.steps, Step(len(run.steps), "user", "No, that is wrong. Try again.")))

    assert len(survey([trace("a")]).support()) == 1
    assert survey([trace(name) for name in "abc"]).support() == {}


def test_the_order_of_the_runs_does_not_matter() -> None:
    runs = [recorded(*MISSING, name="a"), recorded(*MISSING[:1], ("pip3 install six", "", 0), MISSING[2], name="b")]
    assert survey(runs).support() == survey(runs[::-1]).support()


async def test_a_lesson_that_the_book_has_gets_a_vote_and_the_reflection_cites_trace_and_step() -> None:
    run = recorded(*MISSING)
    (text,) = survey([run]).support()
    book = Playbook((Bullet("err-00001", "COMMON MISTAKES TO AVOID", text),), 1)
    found = await MiningReflector().reflect_trace(run, book, MemoryScope())
    assert found is not None
    assert found.lessons == (text,)
    assert (
        found.text == f"{text} (trace t1, step 1, 3, 5; words of the agent's own calls and the form of a tool's error)"
    )
    assert [(vote.bullet, vote.kind.value) for vote in found.votes] == [("err-00001", "helpful")]


async def test_stored_runs_teach_votes_and_lessons_and_hold_no_secret_and_no_answer(tmp_path: Path) -> None:
    key = "sk-proj-" + "Ab1" * 16
    secret = recorded(*MISSING, (f"export OPENAI_API_KEY={key}", "", 0), name="a", meta={"target": "forty-two"})
    again = Trace("a", "x", ())
    detail = Trace(
        "c", "q", (Step(0, "user", "q"),), Outcome(False, detail="expected forty-two"), meta={"target": "forty-two"}
    )
    path = tmp_path / "traces.jsonl"
    kept = keep(
        [secret, again, detail, vote_trace("v", "err-00009", "helpful", {"tenant": "a"})],
        path,
        Redactor(),
        count_tokens,
    )
    assert (kept.traces, kept.twice) == (3, 1)
    assert sum(kept.redacted.values()) >= 1
    stored = path.read_text(encoding="utf-8")
    assert key not in stored
    assert "forty-two" not in stored
    file = TraceFile(path)
    assert [sample.id for sample in file.samples] == ["a", "c", "v"]
    assert file.samples[2].labels == {"tenant": "a"}
    start = Playbook((Bullet("err-00009", "OTHERS", "an old lesson"),), 9)
    runs = StoredRuns(file, RecordedTraces(MiningReflector(survey(file))))
    result = await learn(file.samples, runs, MiningCurator(), config=LearnConfig(), start=start)
    texts = {bullet.text: bullet for bullet in result.last}
    assert texts["an old lesson"].helpful == 1
    assert any("`six`" in text for text in texts)
    assert {bullet.section for bullet in result.last} == {"OTHERS", "COMMON MISTAKES TO AVOID"}


def test_many_runs_are_kept_and_surveyed_by_processes_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "ALONE", 500)
    monkeypatch.setattr(spread, "_CHUNK", 300)
    secret = ("export K=sk-proj-" + "Ab1" * 16 + "\ud800", "", 0)
    runs = [
        recorded(*MISSING, ("make all", KILLED, None), secret, name=f"r{n}", meta={"target": "x"}) for n in range(30)
    ]
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    alone = keep(runs, one, Redactor(), count_tokens)
    kept = keep(runs, two, Redactor(), count_tokens, processes=2)
    assert (kept.facts, kept.redacted) == (alone.facts, alone.redacted)
    assert two.read_bytes() == one.read_bytes()
    file = TraceFile(two)
    found = survey(map(file.line, file.samples), processes=2)
    assert found == survey(file)
    assert any(found.by_trace.values())


WORDS = st.text(alphabet="abE: '\"`\n|&;/-.x1", max_size=60)


@settings(max_examples=60)
@given(st.lists(st.tuples(WORDS, WORDS, st.sampled_from([None, 0, 1])), max_size=6))
def test_no_run_breaks_the_search(rows: list[tuple[str, str, int | None]]) -> None:
    run = recorded(*rows)
    assert findings(run) == findings(run)
    odd = Trace(
        "x", "", (Step(0, "assistant", "", (ToolCall("", "edit", "[1, 2]"), ToolCall("", "exec", '{"cmd": 3}'))),)
    )
    assert findings(odd)[0] == ()


def test_what_other_runs_used_is_not_called_missing_for_all() -> None:
    missing = [recorded(("curl -s http://api/x", "sh: 1: curl: not found", 127), name=f"m{n}") for n in range(3)]
    (text,) = survey(missing).support()
    assert text.endswith("in run after run, and none of them brought it: plan without it.")
    had = recorded(("curl -s http://api/y", "{}", 0), name="had")
    assert survey([*missing, had]).support() == {
        "The program `curl` was missing (`curl: command not found`) in 3 runs, and there in another one: look before "
        "you count on it.": 3
    }
    hung = recorded(("curl -s http://api/y", KILLED, None), name="hung")
    assert "and there in another one" in next(iter(survey([*missing, hung]).support()))
    unsure = recorded(("curl -s http://api/y | head -1", "", None), name="unsure")
    assert survey([*missing, unsure]).support() == {}
    module = [
        recorded(("python3 a.py", "ModuleNotFoundError: No module named 'torch'", 1), name=f"m{n}") for n in range(3)
    ]
    had = recorded(('python3 -c "import torch; print(torch.__version__)"', "2.1", 0), name="had")
    (text,) = survey([*module, had]).support()
    assert "in 3 runs, and there in another one" in text


@pytest.mark.parametrize(
    "later",
    [
        [("./solve --mode b", "Expected: 41\nMatch: False", 0)],
        [("./solve --mode b", "done", 0), ("./verify", "Match: False", 0)],
        [("./solve --mode b", "done", 0), ("python3 check.py", "1 passed, 2 failed", 0)],
        [("./solve --mode b", "done", 0), ("./solve --mode b", "solve: error: bad mode", 2)],
    ],
)
def test_a_repair_that_the_rest_of_the_run_denies_is_not_said(later: list[tuple[str, str, int]]) -> None:
    failed = ("./solve --mode a", "solve: error: bad mode", 2)
    assert survey([recorded(failed, ("./solve --mode b", "done", 0), name="x")]).by_trace["x"]
    assert survey([recorded(failed, *later, name="x")]).by_trace["x"] == ()
