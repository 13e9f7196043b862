"""A project that has to be set up before its commands work, tool by tool; and what only looks like it."""

# ruff: noqa: E501 - each row of the table is one case

from __future__ import annotations

import pytest

from tests.traces.mining.runs import Row, lessons, recorded

PLANTED: list[tuple[str, str, str]] = [
    # what failed, what it said, what set the project up
    ("npm test", "> app@1.0.0 test\n> vitest run\n\nsh: 1: vitest: not found", "npm ci"),
    ("npm run build", "sh: 1: tsc: not found\nnpm error Lifecycle script `build` failed", "npm install"),
    ("yarn test", "yarn run v1.22.19\n/bin/sh: 1: jest: not found\nerror Command failed with exit code 127.", "yarn install --frozen-lockfile"),
    ("yarn lint", "Internal Error: The project in /app/package.json doesn't seem to have been installed", "yarn"),
    ("pnpm test", " ELIFECYCLE  Test failed.\nsh: 1: vitest: not found\n WARN   Local package.json exists, but node_modules missing", "pnpm install"),
    ("bun test", "error: Cannot find module \"hono\" from \"/app/src/index.ts\"", "bun install"),
    ("node server.js", "Error: Cannot find module 'express'\nRequire stack:\n- /app/server.js", "npm install"),
    ("python manage.py test", "ModuleNotFoundError: No module named 'django'", "pip install -r requirements.txt"),
    ("pytest -q", "ImportError while loading conftest '/app/tests/conftest.py'.\nE   ModuleNotFoundError: No module named 'mylib'", "pip install -e ."),
    ("pytest", "ModuleNotFoundError: No module named 'httpx'", "uv sync"),
    ("poetry run pytest", "Command not found: pytest", "poetry install"),
    ("pipenv run pytest", "Error: the command pytest could not be found within PATH or Pipfile's [scripts].", "pipenv install --dev"),
    ("python manage.py runserver --check", "django.db.utils.OperationalError: no such table: auth_user", "python manage.py migrate"),
    ("python app.py", "sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) no such table: users", "alembic upgrade head"),
    ("flask run --check", "sqlalchemy.exc.ProgrammingError: relation \"users\" does not exist", "flask db upgrade"),
    ("go build ./...", "main.go:5:2: no required module provides package github.com/gin-gonic/gin; to add it:\n\tgo get github.com/gin-gonic/gin", "go mod tidy"),
    ("go test ./...", "go: updates to go.mod needed; to update it:\n\tgo mod tidy", "go mod tidy"),
    ("go vet ./...", "internal/api/server.go:9:2: undefined: pb.Server", "go generate ./..."),
    ("cargo test --offline", "error: no matching package named `serde` found\nlocation searched: registry `crates-io`", "cargo fetch"),
    ("cargo build --target wasm32-unknown-unknown", "error[E0463]: can't find crate for `std`", "rustup target add wasm32-unknown-unknown"),
    ("bundle exec rspec", "bundler: command not found: rspec\nInstall missing gem executables with `bundle install`", "bundle install"),
    ("bin/rails test", "ActiveRecord::PendingMigrationError: Migrations are pending.", "bin/rails db:migrate"),
    ("php artisan test", "PHP Fatal error:  Uncaught Error: Failed opening required '/app/vendor/autoload.php'", "composer install"),
    ("dotnet test --no-restore", "error NETSDK1004: Assets file '/app/obj/project.assets.json' not found.", "dotnet restore"),
    ("terraform validate", "Error: Missing required provider\n\nThis configuration requires provider registry.terraform.io/hashicorp/aws", "terraform init"),
    ("terraform plan", "Error: Inconsistent dependency lock file", "terraform init -upgrade"),
    ("npx tsc --noEmit", "src/db.ts(1,10): error TS2305: Module '\"@prisma/client\"' has no exported member 'User'.", "npx prisma generate"),
    ("npm run e2e", "browserType.launch: Executable doesn't exist at /root/.cache/ms-playwright/chromium", "npx playwright install chromium"),
    ("./bin/app --version", "./bin/app: No such file or directory", "make"),
    ("make test", "make: *** No rule to make target 'build/gen.h', needed by 'main.o'.  Stop.", "make generate"),
    ("make check", "fatal error: third_party/json/json.hpp: No such file or directory", "git submodule update --init --recursive"),
    ("docker compose run --rm app pytest", "Error response from daemon: No such image: app_app:latest", "docker compose build"),
    ("python train.py", "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.bin'", "git lfs pull"),
    ("mvn -q test -o", "[ERROR] Failed to execute goal on project app: Could not resolve dependencies", "mvn -q dependency:go-offline"),
    ("./gradlew test --offline", "Could not resolve all files for configuration ':compileClasspath'.", "./gradlew build -x test"),
    ("mix test", "** (Mix) Can't continue due to errors on dependencies", "mix deps.get"),
    ("mix test --only db", "** (Postgrex.Error) ERROR 42P01 (undefined_table) relation \"users\" does not exist", "mix ecto.migrate"),
    ("flutter test", "Error: Could not resolve the package 'provider' in 'package:provider/provider.dart'.", "flutter pub get"),
    ("stack test", "Error: While constructing the build plan, the following exceptions were encountered", "stack build --only-dependencies"),
    ("helm template .", "Error: An error occurred while checking for chart dependencies", "helm dependency build"),
    ("ctest --test-dir build", "Internal ctest changing into directory: build\nNo tests were found!!!", "cmake -B build -S ."),
    ("protolint .", "error: could not import google/api/annotations.proto", "buf dep update"),
    ("xcodebuild test", "error: module 'Alamofire' not found", "pod install"),
    ("psql -h localhost app -c 'select 1'", "psql: error: connection to server at \"localhost\", port 5432 failed: Connection refused", "docker compose up -d db"),
    ("./run_tests.py", "./run_tests.py: error: schema is missing, generate it first", "./scripts/bootstrap.sh"),
]  # fmt: skip
GOOD = "ok"


@pytest.mark.parametrize(("failed", "said", "fix"), PLANTED, ids=[f"{failed}: {fix}" for failed, _, fix in PLANTED])
def test_a_call_that_passes_once_the_project_is_set_up_teaches_what_set_it_up(failed: str, said: str, fix: str) -> None:
    for rows in (
        [(failed, said, 1), (fix, "done", 0), (failed, GOOD, 0)],
        [(failed, said, 1), ("ls", "a", 0), ("cat README.md", "b", 0), (fix, "done", 0), (failed, GOOD, 0)],
        [(failed, said, 1), (f"{fix} && {failed}", GOOD, 0)],
        [
            (f"cd app && {failed}", said, 1),
            (f"cd app && {fix}", "done", 0),
            (f"cd app && {failed} 2>&1 | tail -5", GOOD, 0),
        ],
    ):
        told = [text for _, text in lessons(recorded(*rows))]
        assert [text for text in told if f"`{fix}`" in text and ("until" in text or "brought" in text)], (rows, told)


FAILED: Row = ("npm test", "sh: 1: vitest: not found", 127)


@pytest.mark.parametrize(
    "rows",
    [
        [FAILED, ("npm ci", "done", 0), ("npm test", "sh: 1: vitest: not found", 127)],  # it mended nothing
        [FAILED, ("npm ci", "npm error network", 1), ("npm test", GOOD, 0)],  # it failed itself
        [FAILED, ("npm ci", "done", 0), ("echo 'x' > src/a.ts", "", 0), ("npm test", GOOD, 0)],  # or it was the file
        [FAILED, ("export CI=1", "", 0), ("npm ci", "done", 0), ("npm test", GOOD, 0)],  # or the variable
        [FAILED, ("npm ci", "done", 0), ("npm run lint", GOOD, 0)],  # another call
        [("npm test", GOOD, 0), ("npm ci", "done", 0), ("npm test", GOOD, 0)],  # nothing had failed
        [FAILED, ("npm ls", "a", 0), ("npm test", GOOD, 0)],  # nothing was set up
        [FAILED, ("npm ci", "done", 0), ("npm test", "1 failed, 2 passed", 0)],  # it did not pass
    ],
)
def test_what_only_looks_like_a_setup_teaches_none(rows: list[Row]) -> None:
    assert [text for kind, text in lessons(recorded(*rows)) if kind in {"setup", "until"}] == []


def test_a_chain_of_setups_is_shown_in_order() -> None:
    rows = [
        ("pytest", "ModuleNotFoundError: No module named 'httpx'", 1),
        ("python3 -m venv .venv && . .venv/bin/activate && pip install -r requirements.txt", "done", 0),
        ("pytest", "3 passed", 0),
    ]
    setup = "python3 -m venv .venv && . .venv/bin/activate && pip install -r requirements.txt"
    said = (
        f"`pytest` failed with `ModuleNotFoundError: No module named 'httpx'` until `{setup}` was run; then it worked."
    )
    assert ("setup", said) in lessons(recorded(*rows))
