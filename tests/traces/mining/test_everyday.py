"""What fifty everyday sessions teach: what an engineer would take from them, and nothing where there is nothing."""

from __future__ import annotations

from combee.traces.mining import survey
from tests.traces.mining.everyday import SESSIONS, Session, sh, trace_of
from tests.traces.mining.workdays import WORKDAYS


def taught(sessions: tuple[Session, ...] = SESSIONS) -> dict[str, list[str]]:
    return {
        session.name: [each.text for each in survey([trace]).by_trace[trace.id]]
        for number, session in enumerate(sessions)
        for trace in [trace_of(session, number)]
    }


def test_forty_five_of_fifty_everyday_sessions_teach_what_an_engineer_would_take() -> None:
    said = taught()
    teaching = [session for session in SESSIONS if session.takes]
    right = [each for each in teaching if any(all(w in text for w in each.takes) for text in said[each.name])]
    missed = {each.name: said[each.name] for each in teaching if each not in right}
    assert len(right) >= 45, missed


def test_sessions_that_show_nothing_teach_nothing() -> None:
    said = taught()
    assert {each.name: said[each.name] for each in SESSIONS if not each.takes and said[each.name]} == {}


WORK = "assertion `left == right` failed"
OTHERS = (
    (sh("cargo test -p core", WORK, 101), sh("cargo test -p cli", "test result: ok. 4 passed")),
    (sh("go test ./a", "--- FAIL: TestA (0.0s)\nFAIL", 1), sh("go test ./b", "ok  \tb\t0.1s")),
    (sh("npm test -- cart", "Tests: 1 failed, 3 passed", 1), sh("npm test -- user", "Tests: 3 passed")),
    (sh("dotnet test A.csproj", "Failed!  - Failed: 1", 1), sh("dotnet test B.csproj", "Passed!  - Failed: 0")),
    (sh("pnpm --filter web test", WORK, 1), sh("pnpm --filter api test", "4 passed")),
    (sh("docker inspect a", "Error: No such object: a", 1), sh("docker inspect b", "[{}]")),
    (
        sh("curl -sf localhost/users/7", "curl: (22) The requested URL returned error: 404", 22),
        sh("curl -sf localhost/users/8", "{}"),
    ),
    (sh("git checkout dev", "error: pathspec 'dev' did not match any file(s)", 1), sh("git checkout main", "")),
    (
        sh("terraform apply -target=module.a", "Error: creating S3 bucket: BucketAlreadyExists", 1),
        sh("terraform apply -target=module.b", "Apply complete!"),
    ),
    (sh("mvn -q test -Dtest=ATest", "[ERROR] Tests run: 1, Failures: 1", 1), sh("mvn -q test -Dtest=BTest")),
    (sh("pnpm add left", "ERR_PNPM_FETCH_404  GET https://r.example/left", 1), sh("pnpm add right", "added")),
    (sh("ssh db1 uptime", "ssh: connect to host db1 port 22: timed out", 255), sh("ssh db2 uptime", "up 3 days")),
    (sh("docker compose logs web", "no such service: web", 1), sh("docker compose logs api", "ready")),
)


def test_the_same_done_to_another_thing_mends_nothing() -> None:
    for number, turns in enumerate(OTHERS):
        trace = trace_of(Session("others", turns, ()), number)
        assert survey([trace]).by_trace[trace.id] == (), turns


def test_sessions_of_a_second_hand_teach_as_much() -> None:
    said = taught(WORKDAYS)
    teaching = [each for each in WORKDAYS if each.takes]
    right = [each for each in teaching if any(all(w in text for w in each.takes) for text in said[each.name])]
    assert len(WORKDAYS) == 50
    assert len(right) >= 42, {each.name: said[each.name] for each in teaching if each not in right}
    assert {each.name: said[each.name] for each in WORKDAYS if not each.takes and said[each.name]} == {}
