"""Fifty sessions as they happen every day with a coding agent, each with what an engineer would take from it.

A session is a list of turns: `$ command` with its output and exit code, a call of another tool, or what the user says.
`takes` are words of which each must stand in one and the same lesson. Some sessions teach nothing: `takes` is empty.
"""

# ruff: noqa: E501 - a turn stands on one line, as it was

from __future__ import annotations

import json
from dataclasses import dataclass

from combee.redaction import Step, ToolCall, Trace

__all__ = ["SESSIONS", "Session", "trace_of"]

Turn = tuple[object, ...]


@dataclass(frozen=True)
class Session:
    """One session: what it is about, what happened, and what it teaches."""

    name: str
    turns: tuple[Turn, ...]
    takes: tuple[str, ...]


def sh(command: str, output: str = "", code: int = 0) -> Turn:
    return ("Bash", {"command": command}, output, code != 0)


def tool(name: str, output: str, failed: bool = False, **arguments: object) -> Turn:
    return (name, arguments, output, failed)


def says(text: str) -> Turn:
    return (text,)


def trace_of(session: Session, number: int = 0) -> Trace:
    """Return the session as a recorded run of a coding agent."""
    steps = [Step(0, "user", f"Please work on {session.name}.")]
    for at, turn in enumerate(session.turns):
        if len(turn) == 1:
            steps.append(Step(len(steps), "user", str(turn[0])))
            steps.append(Step(len(steps), "assistant", "Understood."))
            continue
        name, arguments, output, failed = turn
        steps.append(Step(len(steps), "assistant", "", (ToolCall(f"c{at}", str(name), json.dumps(arguments)),)))
        steps.append(Step(len(steps), "tool", str(output), answers=f"c{at}", is_error=bool(failed)))
    return Trace(f"t-{number}", steps[0].text, tuple(steps), meta={"format": "claude_code"})


SESSIONS: tuple[Session, ...] = (
    # the project was not set up
    Session(
        "unit tests",
        (
            sh("npm test", "> web@1.2.0 test\n> vitest run\n\nsh: line 1: vitest: command not found", 127),
            sh("ls", "package.json\npackage-lock.json\nsrc"),
            sh("npm ci", "added 412 packages in 9s"),
            sh("npm test", " Test Files  14 passed (14)"),
        ),
        ("npm test", "npm ci"),
    ),
    Session(
        "the api",
        (
            sh("python -m pytest -q", "ModuleNotFoundError: No module named 'fastapi'", 1),
            sh("cat requirements.txt", "fastapi==0.115\nuvicorn"),
            sh("pip install -r requirements.txt", "Successfully installed fastapi-0.115.0"),
            sh("python -m pytest -q", "31 passed in 2.10s"),
        ),
        ("pip install -r requirements.txt",),
    ),
    Session(
        "the service",
        (
            sh(
                "go build ./...",
                "internal/server/server.go:9:2: no required module provides package github.com/gorilla/mux; to add it:\n\tgo get github.com/gorilla/mux",
                1,
            ),
            sh("go mod tidy", "go: downloading github.com/gorilla/mux v1.8.1"),
            sh("go build ./..."),
        ),
        ("go build", "go mod tidy"),
    ),
    Session(
        "the shop",
        (
            sh(
                "bin/rails test",
                "Migrations are pending. To resolve this issue, run:\n\n        bin/rails db:migrate\n",
                1,
            ),
            sh("bin/rails db:migrate", "== CreateOrders: migrated (0.0021s)"),
            sh("bin/rails test", "42 runs, 97 assertions, 0 failures, 0 errors, 0 skips"),
        ),
        ("bin/rails test", "db:migrate"),
    ),
    Session(
        "types",
        (
            sh(
                "npx tsc --noEmit",
                "src/user.ts(3,10): error TS2305: Module '\"@prisma/client\"' has no exported member 'Role'.",
                2,
            ),
            sh("npx prisma generate", "✔ Generated Prisma Client (v5.22.0)"),
            sh("npx tsc --noEmit"),
        ),
        ("tsc", "prisma generate"),
    ),
    Session(
        "integration tests",
        (
            sh(
                "pytest tests/integration -q",
                'E   psycopg2.OperationalError: connection to server at "localhost" (127.0.0.1), port 5433 failed: Connection refused',
                1,
            ),
            sh("docker compose ps", "NAME  IMAGE  STATUS"),
            sh("docker compose up -d db", " Container app-db-1  Started"),
            sh("pytest tests/integration -q", "12 passed in 8.31s"),
        ),
        ("docker compose up -d db",),
    ),
    Session(
        "the firmware",
        (
            sh(
                "make",
                "src/hal.c:4:10: fatal error: lib/cmsis/core.h: No such file or directory\nmake: *** [Makefile:12: build/hal.o] Error 1",
                2,
            ),
            sh("git submodule update --init --recursive", "Submodule path 'lib/cmsis': checked out 'abc'"),
            sh("make", "LD build/fw.elf"),
        ),
        ("git submodule update",),
    ),
    Session(
        "protos",
        (
            sh("go test ./internal/rpc", "internal/rpc/handler.go:8:2: package app/gen/pb is not in std", 1),
            sh("make generate", "buf generate"),
            sh("go test ./internal/rpc", "ok  \tapp/internal/rpc\t0.412s"),
        ),
        ("go test ./internal/rpc", "make generate"),
    ),
    Session(
        "end to end",
        (
            sh(
                "npx playwright test",
                "Error: browserType.launch: Executable doesn't exist at /root/.cache/ms-playwright/chromium-1140/chrome-linux/chrome",
                1,
            ),
            sh("npx playwright install chromium", "Chromium 130.0 downloaded"),
            sh("npx playwright test", "  6 passed (12.1s)"),
        ),
        ("playwright install",),
    ),
    Session(
        "infrastructure",
        (
            sh("terraform validate", "│ Error: Module not installed\n│ \n│   on main.tf line 3", 1),
            sh("terraform init -backend=false", "Terraform has been successfully initialized!"),
            sh("terraform validate", "Success! The configuration is valid."),
        ),
        ("terraform validate", "terraform init"),
    ),
    # what the user set right
    Session(
        "the build",
        (sh("npm install left-pad", "added 1 package"), says("No, use pnpm instead of npm in this repository")),
        ("pnpm",),
    ),
    Session(
        "the tests", (sh("sed -i 's/42/41/' tests/test_sum.py"), says("不要改测试，先跑 make fmt")), ("不要改测试",)
    ),
    Session(
        "der Dienst",
        (sh("pytest -q", "1 failed", 1), says("Nein, die Tests nicht ändern, der Fehler liegt im Dienst")),
        ("die Tests nicht ändern",),
    ),
    Session(
        "mocks",
        (
            tool("Write", "ok", file_path="tests/test_db.py", content="mock"),
            says("we never mock the database here, use the testcontainer fixture"),
        ),
        ("we never mock the database here",),
    ),
    Session(
        "la base",
        (
            tool("Edit", "ok", file_path="app/models.py", old_string="a", new_string="b"),
            says("ne modifie pas le schéma à la main, il y a des migrations"),
        ),
        ("ne modifie pas le schéma",),
    ),
    Session(
        "el informe",
        (
            tool("Edit", "ok", file_path="report.py", old_string="a", new_string="b"),
            says("aquí siempre usamos Decimal, nunca float"),
        ),
        ("siempre usamos Decimal",),
    ),
    Session(
        "帳票",
        (
            tool("Edit", "ok", file_path="report.py", old_string="a", new_string="b"),
            says("floatではなくDecimalを使ってください"),
        ),
        ("Decimal",),
    ),
    Session(
        "the release",
        (sh("git commit -am wip"), says("please don't commit to main, we work on branches")),
        ("don't commit to main",),
    ),
    Session(
        "the parser",
        (
            tool("Write", "ok", file_path="src/parse2.py", content="x"),
            says("I'd rather you extended parse.py than added a second parser"),
        ),
        ("extended parse.py",),
    ),
    Session(
        "logging",
        (
            tool("Edit", "ok", file_path="app.py", old_string="a", new_string="print(x)"),
            says("Our convention is structlog, print is only for the CLI"),
        ),
        ("structlog",),
    ),
    Session(
        "dates",
        (
            tool("Edit", "ok", file_path="util.py", old_string="a", new_string="b"),
            says("you forgot the changelog entry again"),
        ),
        ("changelog",),
    ),
    # flags, forms and places of commands
    Session(
        "the branch",
        (
            sh(
                "git push",
                "fatal: The current branch fix-dates has no upstream branch.\nTo push the current branch and set the remote as upstream, use\n\n    git push --set-upstream origin fix-dates",
                128,
            ),
            sh("git push -u origin fix-dates", "branch 'fix-dates' set up to track 'origin/fix-dates'."),
        ),
        ("git push -u origin",),
    ),
    Session(
        "a container",
        (
            sh("docker exec -it web sh -c 'ls'", "the input device is not a TTY", 1),
            sh("docker exec web sh -c 'ls'", "app.py"),
        ),
        ("docker exec",),
    ),
    Session(
        "the web app",
        (sh("npm run lint", 'npm error Missing script: "lint"', 1), sh("cd web && npm run lint", "0 problems")),
        ("cd web && npm run lint",),
    ),
    Session(
        "the package",
        (
            sh(
                "pip install -e .",
                "error: externally-managed-environment\n\n× This environment is externally managed",
                1,
            ),
            sh("pip install --break-system-packages -e .", "Successfully installed app-0.1"),
        ),
        ("--break-system-packages",),
    ),
    Session(
        "the script",
        (
            sh("./scripts/seed.sh", "bash: ./scripts/seed.sh: Permission denied", 126),
            sh("bash scripts/seed.sh", "seeded 12 rows"),
        ),
        ("bash scripts/seed.sh",),
    ),
    Session(
        "the port",
        (
            sh("npm run dev", "Error: listen EADDRINUSE: address already in use :::3000", 1),
            sh("PORT=3001 npm run dev", "ready on http://localhost:3001"),
        ),
        ("PORT=3001",),
    ),
    Session(
        "settings",
        (
            sh(
                "python manage.py check",
                "django.core.exceptions.ImproperlyConfigured: Requested setting SECRET, but settings are not configured.",
                1,
            ),
            sh(
                "DJANGO_SETTINGS_MODULE=app.settings.dev python manage.py check",
                "System check identified no issues (0 silenced).",
            ),
        ),
        ("DJANGO_SETTINGS_MODULE=app.settings.dev",),
    ),
    Session(
        "search",
        (
            sh(
                "grep -P '\\d+' log.txt",
                "grep: invalid option -- P\nusage: grep [-abcdDEFGHhIiJLlMmnOopqRSsUVvwXxZz]",
                2,
            ),
            sh("grep -E '[0-9]+' log.txt", "12"),
        ),
        ("grep -E",),
    ),
    Session(
        "the image",
        (
            sh(
                "docker build -t app .",
                "ERROR: failed to solve: failed to read dockerfile: open Dockerfile: no such file or directory",
                1,
            ),
            sh("docker build -t app -f docker/Dockerfile .", "Successfully tagged app:latest"),
        ),
        ("-f docker/Dockerfile",),
    ),
    Session(
        "the cluster",
        (
            sh(
                "kubectl get pods",
                'Error from server (Forbidden): pods is forbidden: User "dev" cannot list resource "pods" in the namespace "default"',
                1,
            ),
            sh("kubectl get pods -n staging", "web-1 Running"),
        ),
        ("-n staging",),
    ),
    Session(
        "the merge",
        (
            sh(
                "git rebase --continue",
                "error: Terminal is dumb, but EDITOR unset\nPlease supply the message using either -m or -F option.",
                1,
            ),
            sh("GIT_EDITOR=true git rebase --continue", "Successfully rebased and updated refs/heads/x."),
        ),
        ("GIT_EDITOR=true",),
    ),
    Session(
        "the api call",
        (
            sh("curl -s -f localhost:8000/users", "curl: (22) The requested URL returned error: 404", 22),
            sh("curl -s -f localhost:8000/api/v1/users", "[]"),
        ),
        ("/api/v1/users",),
    ),
    Session(
        "a single test",
        (
            sh("cargo test parse_date --lib", "error: no library targets found in package `cli`", 101),
            sh("cargo test parse_date --bin cli", "test parse_date ... ok"),
        ),
        ("--bin cli",),
    ),
    # programs and modules that are not there
    Session(
        "json",
        (
            sh("curl -s localhost/x | jq .name", "bash: jq: command not found", 127),
            sh("curl -s localhost/x | python3 -c \"import json,sys; print(json.load(sys.stdin)['name'])\"", "bob"),
        ),
        ("jq",),
    ),
    Session(
        "compose",
        (
            sh("docker-compose up -d", "bash: docker-compose: command not found", 127),
            sh("docker compose up -d", "Started"),
        ),
        ("docker compose up -d",),
    ),
    Session(
        "a fast search",
        (sh("rg TODO src", "bash: rg: command not found", 127), sh("grep -rn TODO src", "src/a.py:3:# TODO")),
        ("rg", "grep"),
    ),
    Session(
        "types in python",
        (
            sh("mypy src", "bash: mypy: command not found", 127),
            sh("uv run mypy src", "Success: no issues found in 41 source files"),
        ),
        ("uv run mypy src",),
    ),
    # waiting and timing out
    Session(
        "a new package",
        (
            sh(
                "npm init",
                "Command timed out after 2m 0.0s\nThis utility will walk you through creating a package.json file.\npackage name: (app) ",
                1,
            ),
            sh("npm init -y", "Wrote to /app/package.json"),
        ),
        ("npm init", "-y"),
    ),
    Session(
        "the server",
        (
            sh("python app.py", "Command timed out after 2m 0.0s\n * Running on http://127.0.0.1:5000", 1),
            sh("nohup python app.py > server.log 2>&1 &", ""),
        ),
        ("python app.py", "background"),
    ),
    Session(
        "packages",
        (
            sh(
                "apt-get install jq",
                "Command timed out after 2m 0.0s\nAfter this operation, 1,230 kB of additional disk space will be used.\nDo you want to continue? [Y/n] ",
                1,
            ),
            sh("apt-get install -y jq", "Setting up jq (1.6)"),
        ),
        ("apt-get install", "-y"),
    ),
    # tools of the agent
    Session(
        "the config",
        (
            tool(
                "Edit",
                "File has not been read yet. Read it first before writing to it.",
                True,
                file_path="/app/config.py",
                old_string="a",
                new_string="b",
            ),
            tool("Read", "a", file_path="/app/config.py"),
            tool(
                "Edit",
                "The file /app/config.py has been updated.",
                file_path="/app/config.py",
                old_string="a",
                new_string="b",
            ),
        ),
        ("Edit", "Read"),
    ),
    Session(
        "the header",
        (
            tool(
                "Edit",
                "Found 3 matches of the string to replace, but replace_all is false. To replace all occurrences, set replace_all to true.",
                True,
                file_path="/app/a.h",
                old_string="int x",
                new_string="long x",
                replace_all=False,
            ),
            tool("Edit", "updated", file_path="/app/a.h", old_string="int x", new_string="long x", replace_all=True),
        ),
        ("replace_all", "true"),
    ),
    # tests and hooks
    Session(
        "rounding",
        (
            sh(
                "pytest -q tests/test_money.py",
                "FAILED tests/test_money.py::test_rounds_half_up - AssertionError: assert 2 == 3\n1 failed, 8 passed",
                1,
            ),
            tool("Edit", "updated", file_path="src/money.py", old_string="round(x)", new_string="floor(x + 0.5)"),
            sh("pytest -q tests/test_money.py", "9 passed in 0.12s"),
        ),
        ("test_rounds_half_up", "money.py"),
    ),
    Session(
        "a commit",
        (
            sh(
                "git commit -m 'add dates'",
                "black....................................................................Failed\n- hook id: black\n- files were modified by this hook\n\nreformatted src/dates.py",
                1,
            ),
            sh("git add -u"),
            sh("git commit -m 'add dates'", "[main 1a2b3c] add dates"),
        ),
        ("git commit", "git add -u"),
    ),
    Session(
        "the formatter",
        (
            sh("make lint", "would reformat src/a.py\nmake: *** [lint] Error 1", 2),
            sh("make fmt", "reformatted src/a.py"),
            sh("make lint", "All checks passed!"),
        ),
        ("make lint", "make fmt"),
    ),
    Session(
        "snapshots",
        (
            sh("npx jest", "FAIL src/card.test.tsx\n  › 1 snapshot failed.", 1),
            sh("npx jest -u", " › 1 snapshot updated.\nTests: 5 passed, 5 total"),
        ),
        ("jest", "-u"),
    ),
    # what teaches nothing
    Session(
        "a flaky network",
        (
            sh(
                "npm install",
                "npm error code ETIMEDOUT\nnpm error network request to https://registry.npmjs.org/x failed",
                1,
            ),
            sh("npm install", "added 3 packages"),
        ),
        (),
    ),
    Session("a plain question", (sh("ls", "a"), says("Thanks, that's all for today!")), ()),
    Session("a look", (sh("cat missing.txt", "cat: missing.txt: No such file or directory", 1), sh("ls", "a.txt")), ()),
)
