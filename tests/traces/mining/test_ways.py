"""The same call in another way is a repair; no lesson says that none got past where one did, or may have."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from combee.traces.mining import survey
from combee.traces.mining.shell import core, parts, same_call
from tests.traces.mining.runs import lessons, recorded

DENIED = "bash: ./deploy.sh: Permission denied"
REFUSED = "psql: error: could not connect to server"
TRACED = 'Traceback (most recent call last):\n  File "/app/run.py", line 31, in main\n    x = model(batch)\n'
MEMORY = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("./deploy.sh prod", "deploy.sh prod"),
        ("bash -x ./deploy.sh prod", "deploy.sh prod"),
        (". ./deploy.sh prod", "deploy.sh prod"),
        ("sudo -u app TIER=a sh deploy.sh prod", "deploy.sh prod"),
        ("timeout -s KILL 30 nohup nice -n 5 ./deploy.sh prod", "deploy.sh prod"),
        ("env -u PROXY ./deploy.sh prod", "deploy.sh prod"),
        ("python -m pytest -q", "pytest -q"),
        ("python3.11 -u a.py x", "a.py x"),
        ("python -m pkg.a x", "pkg/a.py x"),
        ("npx --yes tsc -p .", "tsc -p ."),
        ("uv run --with six python a.py", "a.py"),
        ("conda run -n ml python a.py", "a.py"),
        ("docker exec -it db psql -l", "psql -l"),
        ("kubectl exec -it pod -- psql -l", "psql -l"),
        ("docker compose up -d", "docker up -d"),
        ("docker-compose up -d", "docker up -d"),
        ("uv pip install six", "pip install six"),
        ("python.exe a.py", "a.py"),
        ("python3 -c 'print(1)'", "python3 -c print(1)"),
        ("npm run build", "npm run build"),
        ("java -Xmx1g -jar a.jar x", "a.jar x"),
        ("accelerate launch a.py --bf16", "a.py --bf16"),
        ("pwsh ./a.ps1", "a.ps1"),
    ],
)
def test_what_is_called_in_the_end(call: str, what: str) -> None:
    (part,) = parts(call)
    assert " ".join(core(part)) == what


REPAIRS = [
    ("./deploy.sh prod", DENIED, "sh ./deploy.sh prod"),
    ("./deploy.sh", DENIED, "bash deploy.sh"),
    ("psql -l", REFUSED, "PGHOST=db psql -l"),
    ("psql -l", REFUSED, "docker exec db psql -l"),
    ("HTTP_PROXY=x git clone https://a/b", "fatal: no proxy: x", "env -u HTTP_PROXY git clone https://a/b"),
    ("systemctl restart nginx", "Failed to restart nginx.service: Access denied", "sudo systemctl restart nginx"),
    ("pytest -q", "ERROR: file or directory not found: x", "poetry run pytest -q"),
    ("make all", "make: *** No rule to make target 'all'.  Stop.", "cd src && make all"),
    ("python pkg/a.py", "ImportError: attempted relative import with no known parent package", "python -m pkg.a"),
    ("python run.py", TRACED + MEMORY, "CUDA_VISIBLE_DEVICES=1 python run.py"),
    ("python run.py --workers 64", TRACED + MEMORY, "python run.py --workers 8"),
    ("python run.py --device cuda", TRACED + "RuntimeError: CUDA error: no kernel", "python run.py --device cpu"),
    ("java -Xmx1g -jar a.jar", "java.lang.OutOfMemoryError: Java heap space", "java -Xmx8g -jar a.jar"),
    ("accelerate launch a.py --bf16", "ValueError: no bf16 'here'", "accelerate launch a.py --fp16"),
    ("diff <(ls a) <(ls b)", 'sh: 1: Syntax error: "(" unexpected', "bash -c 'diff <(ls a) <(ls b)'"),
    ("python a.py", "RuntimeError: NCCL error 'x'", "NCCL_P2P_DISABLE=1 python a.py"),
    ("curl http://x/a?b=1&c=2", "curl: (3) URL using bad format: missing", "curl 'http://x/a?b=1&c=2'"),
]


@pytest.mark.parametrize(("failed", "said", "worked"), REPAIRS)
@pytest.mark.parametrize("code", [0, None], ids=["exit codes", "plain"])
def test_the_same_call_in_another_way_is_a_repair(failed: str, said: str, worked: str, code: int | None) -> None:
    first = (failed, said, None if code is None else 1)
    ((kind, text),) = lessons(recorded(first, (worked, "done", code)))
    assert kind == "repair"
    assert text.startswith(f"`{failed}` failed with ")
    assert text.endswith(f"; `{worked}` worked.")
    assert lessons(recorded(first, (worked, said, None if code is None else 1))) == []
    assert lessons(recorded(first, ("apt-get install -y x", "ok", 0), (worked, "done", code))) == []


@pytest.mark.parametrize(
    ("failed", "worked"),
    [
        ("python a.py", "python3 a.py"),
        ("pip install x", "pip3 install x"),
        ("tool build", "timeout 60 tool build"),
        ("cd a && tool build", "cd b && tool build"),
        ("python a.py in.csv", "python a.py other.csv"),
        ("python a.py --input in.csv", "python a.py --input other.csv"),
        ("python a.py", "python b.py"),
        ("bash ../a.sh", "bash b/a.sh"),
    ],
)
def test_another_spelling_or_another_thing_is_no_repair(failed: str, worked: str) -> None:
    assert lessons(recorded((failed, "ValueError: bad 'x'", 1), (worked, "done", 0))) == []


@pytest.mark.parametrize(
    ("failed", "worked", "shown"),
    [
        ("deploy.sh", "./deploy.sh", "the same call worked as `./deploy.sh`."),
        ("pytest -q", "python -m pytest -q", "the same call worked as `python -m pytest -q`."),
        ("tsc -p .", "npx tsc -p .", "the same call worked as `npx tsc -p .`."),
        ("pip install six", "pip3 install six", "the same call worked as `pip3 install six`."),
        ("python a.py", "python.exe a.py", "the same call worked as `python.exe a.py`."),
        ("docker-compose up -d", "docker compose up -d", "the same call worked as `docker compose up -d`."),
        ("curl -s u/a | jq .", "curl -s u/a | python -m json.tool", "`python3` stood in for it, as in "),
        ("jq .a p.json", "python3 -c \"import json; json.load(open('p.json'))\"", "`python3` stood in for it, as in "),
        ("curl http://u/a", "python3 -c \"import urllib; urllib.get('http://u/a')\"", "`python3` stood in for it"),
        ("tsc -p . | tail -5", "npx tsc -p . | tail -5", "the same call worked as `npx tsc -p .`."),
        ("lint run", "go run github.com/x/lint run", "the same call worked as `go run github.com/x/lint run`."),
        ("node a.js", "nodejs a.js", "the same call worked as `nodejs a.js`."),
        ("rg -n foo src", "grep -rn foo src", "`grep` stood in for it, as in `grep -rn foo src`."),
    ],
)
def test_a_missing_program_and_what_did_the_same(failed: str, worked: str, shown: str) -> None:
    program = "jq" if "jq" in failed else failed.split(maxsplit=1)[0]
    first = (failed, f"bash: {program}: command not found", 127)
    ((kind, text),) = lessons(recorded(first, (worked, "done", 0)))
    assert kind == "missing"
    assert text.startswith(f"The program `{program}` may be missing (")
    assert shown in text
    runs = [recorded(first, name=name) for name in "abc"]
    assert [text for text in survey(runs).support() if "none of them brought it" in text]
    runs.append(recorded(first, (worked, "done", 0), name="d"))
    assert not any("none of them" in text for text in survey(runs).support())


@pytest.mark.parametrize(
    "past", ["for x in a b; do jq . $x; done", "bash -c 'jq . a'", "jq . a | head; ls", "/opt/bin/jq . a || true"]
)
def test_a_program_that_may_have_been_used_after_all_is_not_called_absent(past: str) -> None:
    first = ("jq . a", "bash: jq: command not found", 127)
    runs = [recorded(first, name=name) for name in "abc"]
    assert survey(runs).support()
    later = recorded(first, ("touch x", "", 0), ("cat a", "x", 0), ("cat b", "x", 0), (past, "{}", 0), name="d")
    assert not any("none of them brought it" in text for text in survey([*runs, later]).support())


@pytest.mark.parametrize(
    "later",
    [
        "python3 -c \"import os; print(os.path.exists('p.json'))\"",
        "python3 -c \"import json; json.load(open('other.json'))\"",
        "ls p.json",
        "curl -s u/a | python -m json.tool",
    ],
)
def test_what_only_looks_or_reads_something_else_stood_in_for_nothing(later: str) -> None:
    first = ("jq .a p.json", "bash: jq: command not found", 127)
    assert lessons(recorded(first, (later, "x", 0))) == []


def test_a_module_that_the_same_call_found_in_another_way() -> None:
    first = ("python a.py", "ModuleNotFoundError: No module named 'core'", 1)
    for way in ("PYTHONPATH=src python a.py", "venv/bin/python a.py", "uv run a.py", "cd src && python a.py"):
        ((_, text),) = lessons(recorded(first, (way, "done", 0)))
        assert text.endswith(f"(`No module named 'core'`): the same call worked as `{way}`.")


@pytest.mark.parametrize(
    ("failed", "said", "past"),
    [
        ("./deploy.sh", DENIED, "bash deploy.sh"),
        ("./deploy.sh", DENIED, "cat deploy.sh | sh"),
        ("./deploy.sh", DENIED, "sh < deploy.sh"),
        ("./deploy.sh", DENIED, "for x in 1; do bash deploy.sh; done"),
        ("psql -l", REFUSED, "PGHOST=db psql -l"),
        ("psql -l", REFUSED, "su postgres -c 'psql -l'"),
        ("psql -l", REFUSED, "psql -l -h db -U app -p 5433 -w"),
        ("psql --list", REFUSED, "psql --all"),
        ("pip install a b", "ERROR: no wheel for a", "pip install a && pip install b"),
    ],
)
@pytest.mark.parametrize("code", [0, None], ids=["worked", "of unknown end"])
def test_none_got_past_is_said_only_where_no_run_may_have(failed: str, said: str, past: str, code: int | None) -> None:
    first = (failed, said, 1)
    stuck = [recorded(first, name=name) for name in "abc"]
    (text,) = survey(stuck).support()
    assert "no run got past it" in text
    between = ("touch x", "", 0)
    other = recorded(first, between, (past, "x" if code == 0 else "something timed out", code), name="d")
    assert not any("no run got past" in each for each in survey([*stuck, other]).support())
    in_vain = recorded(first, between, (past, said, 1), name="d")
    if "for x" not in past:
        assert any("no run got past" in each for each in survey([*stuck, in_vain]).support())


WORDS = st.sampled_from(["sudo", "env", "-u", "A=b", "sh", "python", "-m", "npx", "docker", "exec", "./a.sh", "x", "."])


@settings(max_examples=80)
@given(st.lists(WORDS, min_size=1, max_size=7))
def test_any_words_have_something_that_is_called(words: list[str]) -> None:
    for part in parts(" ".join(words)):
        assert core(part)
        assert same_call(part, part)


def test_a_pipe_hides_the_end_of_a_call_so_what_it_shows_must_look_well() -> None:
    first = ("pytest -q tests", "ERROR: file or directory not found: tests", 4)
    later = "pytest -q test | tail -3"
    ((kind, _),) = lessons(recorded(first, (later, "3 passed", 0)))
    assert kind == "repair"
    for said in ("1 failed, 2 passed", "", "FAILED test/test_a.py"):
        assert lessons(recorded(first, (later, said, 0))) == []


def test_a_long_run_is_searched_by_name_not_by_pairs() -> None:
    rows = [(f"foo{at} x", f"bash: foo{at}: command not found", 127) for at in range(60)]
    loops = [(f"for x in 1; do foo{at} x; done", "ok", 0) for at in range(0, 60, 2)]
    runs = [recorded(*rows, name=name) for name in "abc"]
    absent = {text.split("`")[1] for text in survey([*runs, recorded(*rows, *loops, name="d")]).support()}
    assert absent <= {f"foo{at}" for at in range(1, 60, 2)}
    assert absent


CALLS = st.sampled_from(
    [
        *("jq . a", "jq . a | head", "sudo jq . a", "npx jq . a", "for x in a; do jq . $x; done", "bash -c 'jq . a'"),
        *("cat a | jq .", "./x/jq . a", "docker exec db jq . a", "ls", "touch b", "cd x && jq . a", "A=b jq . a"),
    ]
)
GONE = "sh: 1: jq: not found"
ENDS = st.sampled_from([("jq: error: bad input", 1), (GONE, 127), ("{}", 0)])


@settings(max_examples=80)
@given(st.lists(st.lists(st.tuples(CALLS, ENDS), min_size=1, max_size=4), min_size=3, max_size=5))
def test_what_is_denied_of_all_runs_is_true_of_all_runs(made: list[list[tuple[str, tuple[str, int]]]]) -> None:
    runs = [recorded(*((call, *end) for call, end in rows), name=f"r{at}") for at, rows in enumerate(made)]
    texts = survey(runs).support()
    worked = [any(code == 0 and "jq" in call for call, (_, code) in rows) for rows in made]
    missed = [any(said == GONE and "jq" in call for call, (said, _) in rows) for rows in made]
    if any(map(min, worked, missed)):
        assert not any("`jq`" in text and "none of them" in text for text in texts)
    for call in ("jq . a", "jq ."):
        denied = any(text.startswith(f"`{call}` failed") and "no run got past" in text for text in texts)
        (wanted,) = parts(call)
        same = any(
            code == 0 and any(same_call(wanted, part) for part in parts(way))
            for rows in made
            for way, (_, code) in rows
        )
        assert not (denied and same)


@pytest.mark.parametrize(
    "within",
    [
        "echo $({})",
        "OUT=$({}); echo $OUT",
        "echo `{}`",
        "({})",
        "true && {{ {}; }}",
        "! {}",
        "eval '{}'",
        "ask() {{ {}; }}; ask",
        "chroot /srv {}",
        "taskset -c 0 {}",
        "echo " + "a" * 4000 + "; {}",
    ],
)
def test_what_a_shell_runs_within_a_line_may_have_got_past(within: str) -> None:
    for call, said in (("psql -h db", REFUSED), ("foo x", "bash: foo: command not found")):
        stuck = [recorded((call, said, 2), name=f"t{number}") for number in range(3)]
        denied = [text for text in survey(stuck).support() if "no run got past" in text or "none of them" in text]
        assert denied
        other = recorded((call, said, 2), (within.format(call), "ok", 0), name="other")
        assert not set(denied) & set(survey([*stuck, other]).support())


def test_a_script_that_is_only_written_got_past_nothing() -> None:
    write = ("cat <<'EOF' > make.sh\n(psql -h db)\nOUT=$(psql -h db)\nEOF", "", 0)
    runs = [recorded(write, ("psql -h db", REFUSED, 2), name=f"t{number}") for number in range(3)]
    assert any("no run got past" in text for text in survey(runs).support())


def test_a_program_that_a_variable_names_may_have_got_past() -> None:
    stuck = [recorded(("psql -h db", REFUSED, 2), name=f"t{number}") for number in range(3)]
    other = recorded(("psql -h db", REFUSED, 2), ("P=psql; $P -h db", "ok", 0), name="other")
    assert not any("no run got past" in text for text in survey([*stuck, other]).support())


@pytest.mark.parametrize(
    ("failed", "said", "worked"),
    [
        ("tool run --fast", "tool: error: unrecognized arguments: --fast", "tool run --help"),
        ("tool --fast", "tool: error: unrecognized arguments: --fast", "tool --version"),
        ("./deploy.sh x", "Error: no such host", "./deploy.sh x --dry-run"),
        ("./deploy.sh x", "Error: no such host", "./deploy.sh x -h"),
        ("./deploy.sh x", "Error: no such host", "./deploy.sh x 2>/dev/null"),
        ("pytest -q tests/a.py", "FAILED tests/a.py", "pytest -q tests/b.py"),
        ("pytest -k one", "FAILED tests/a.py", "pytest -k two"),
        ("curl -s http://a/x", "bash: curl: command not found", "wget --version"),
        ("python a.py", "bash: python: command not found", "python3 --version"),
    ],
)
def test_a_look_at_the_help_a_hidden_output_and_other_tests_mend_nothing(failed: str, said: str, worked: str) -> None:
    assert lessons(recorded((failed, said, 2), (worked, "ok", 0))) == []


def test_what_came_before_the_failure_in_a_line_may_have_mended_the_next_call() -> None:
    first, last = ("psql -h db", REFUSED, 2), ("PGUSER=app psql -h db", "ok", 0)
    assert lessons(recorded(first, ("cat a.txt", "x", 0), last))
    assert lessons(recorded(first, ("pg_ctl start && psql -h db -l -q -x", "Error: no such option", 2), last)) == []
