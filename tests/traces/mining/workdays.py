"""Fifty more sessions, with other tools than those of `everyday`, planted by a second hand after the rules were written.

`takes` as there: words that one and the same lesson must hold; where it is empty the session teaches nothing.
"""

# ruff: noqa: E501 - a turn stands on one line, as it was

from __future__ import annotations

from tests.traces.mining.everyday import Session, says, sh, tool

__all__ = ["WORKDAYS"]

WORKDAYS: tuple[Session, ...] = (
    # the project was not set up
    Session(
        "monorepo",
        (
            sh(
                "pnpm --filter web build",
                " ERR_PNPM_RECURSIVE_RUN_FIRST_FAIL  web@0.1.0 build: `vite build`\nsh: 1: vite: not found\n ELIFECYCLE  Command failed.",
                1,
            ),
            sh("pnpm install --frozen-lockfile", "Packages: +812\nDone in 11s"),
            sh("pnpm --filter web build", "✓ built in 4.1s"),
        ),
        ("pnpm --filter web build", "pnpm install --frozen-lockfile"),
    ),
    Session(
        "lock file",
        (
            sh(
                "pnpm install --frozen-lockfile",
                ' ERR_PNPM_OUTDATED_LOCKFILE  Cannot install with "frozen-lockfile" because pnpm-lock.yaml is not up to date with package.json',
                1,
            ),
            sh("pnpm install --no-frozen-lockfile", "Done in 6s"),
        ),
        ("--no-frozen-lockfile",),
    ),
    Session(
        "poetry",
        (
            sh("poetry run pytest -q", "ModuleNotFoundError: No module named 'respx'", 1),
            sh("poetry install --with dev", "  - Installing respx (0.21.1)"),
            sh("poetry run pytest -q", "18 passed in 1.02s"),
        ),
        ("poetry install --with dev",),
    ),
    Session(
        "poetry lock",
        (
            sh(
                "poetry install",
                "pyproject.toml changed significantly since poetry.lock was last generated. Run `poetry lock` to fix the lock file.",
                1,
            ),
            sh("poetry lock", "Resolving dependencies...\nWriting lock file"),
            sh("poetry install", "Installing the current project: app (0.1.0)"),
        ),
        ("poetry lock",),
    ),
    Session(
        "gradle",
        (
            sh(
                "gradle test",
                "* What went wrong:\nExecution failed for task ':api:compileJava'.\n> error: release version 21 not supported",
                1,
            ),
            sh("JAVA_HOME=/usr/lib/jvm/java-21 gradle test", "BUILD SUCCESSFUL in 21s"),
        ),
        ("JAVA_HOME=/usr/lib/jvm/java-21",),
    ),
    Session(
        "gradle wrapper",
        (
            sh("./gradlew build", "Error: Could not find or load main class org.gradle.wrapper.GradleWrapperMain", 1),
            sh("gradle wrapper", "BUILD SUCCESSFUL in 1s"),
            sh("./gradlew build", "BUILD SUCCESSFUL in 40s"),
        ),
        ("gradle wrapper",),
    ),
    Session(
        "maven",
        (
            sh(
                "mvn -q test -pl web",
                "[ERROR] Failed to execute goal on project web: Could not resolve dependencies for project com.acme:web:jar:1.0: Could not find artifact com.acme:core:jar:1.0",
                1,
            ),
            sh("mvn -q install -DskipTests", ""),
            sh("mvn -q test -pl web", ""),
        ),
        ("mvn -q install -DskipTests",),
    ),
    Session(
        "terraform",
        (
            sh("terraform plan", "│ Error: Required plugins are not installed\n│", 1),
            sh("terraform init", "Terraform has been successfully initialized!"),
            sh("terraform plan", "Plan: 2 to add, 0 to change, 0 to destroy."),
        ),
        ("terraform init",),
    ),
    Session(
        "compose",
        (
            sh(
                "pytest tests/db -q",
                "E   redis.exceptions.ConnectionError: Error 111 connecting to localhost:6379. Connection refused.",
                1,
            ),
            sh("docker compose up -d redis", " Container app-redis-1  Started"),
            sh("pytest tests/db -q", "9 passed in 0.8s"),
        ),
        ("docker compose up -d redis",),
    ),
    Session(
        "alembic",
        (
            sh(
                "python -m app.seed",
                'sqlalchemy.exc.ProgrammingError: (psycopg2.errors.UndefinedTable) relation "orders" does not exist',
                1,
            ),
            sh("alembic upgrade head", "INFO  [alembic.runtime.migration] Running upgrade 1a -> 2b"),
            sh("python -m app.seed", "seeded 40 orders"),
        ),
        ("python -m app.seed", "alembic upgrade head"),
    ),
    Session(
        "rails db",
        (
            sh("bundle exec rspec", "ActiveRecord::NoDatabaseError: We could not find your database: app_test.", 1),
            sh("bin/rails db:create db:schema:load RAILS_ENV=test", "Created database 'app_test'"),
            sh("bundle exec rspec", "120 examples, 0 failures"),
        ),
        ("db:create db:schema:load",),
    ),
    Session(
        "bundler",
        (
            sh(
                "bundle exec rake",
                "bundler: command not found: rake\nInstall missing gem executables with `bundle install`",
                127,
            ),
            sh("bundle install", "Bundle complete! 31 Gemfile dependencies"),
            sh("bundle exec rake", "ok"),
        ),
        ("bundle install",),
    ),
    Session(
        "dotnet",
        (
            sh(
                "dotnet build --no-restore",
                "error NETSDK1004: Assets file '/src/obj/project.assets.json' not found. Run a NuGet package restore to generate this file.",
                1,
            ),
            sh("dotnet restore", "  Restored /src/App.csproj"),
            sh("dotnet build --no-restore", "Build succeeded."),
        ),
        ("dotnet restore",),
    ),
    Session(
        "dotnet ef",
        (
            sh(
                "dotnet ef database update", "Could not execute because the specified command or file was not found.", 1
            ),
            sh("dotnet tool restore", "Tool 'dotnet-ef' (version '8.0.1') was restored."),
            sh("dotnet ef database update", "Done."),
        ),
        ("dotnet tool restore",),
    ),
    Session(
        "bazel",
        (
            sh(
                "bazel build //app:server",
                "ERROR: An error occurred during the fetch of repository 'npm': lockfile is out of date",
                1,
            ),
            sh("bazel run @pnpm//:pnpm -- install --lockfile-only", "INFO: Build completed successfully"),
            sh("bazel build //app:server", "INFO: Build completed successfully, 40 total actions"),
        ),
        ("bazel run @pnpm//:pnpm",),
    ),
    Session(
        "cargo feature",
        (
            sh("cargo build -p cli", "error[E0433]: failed to resolve: could not find `tls` in `net`", 101),
            sh("cargo build -p cli --features tls", "    Finished dev [unoptimized + debuginfo]"),
        ),
        ("--features tls",),
    ),
    Session(
        "wasm",
        (
            sh(
                "cargo build --target wasm32-unknown-unknown",
                "error[E0463]: can't find crate for `core`\n  = note: the `wasm32-unknown-unknown` target may not be installed",
                101,
            ),
            sh("rustup target add wasm32-unknown-unknown", "info: installing component 'rust-std'"),
            sh("cargo build --target wasm32-unknown-unknown", "Finished"),
        ),
        ("rustup target add wasm32-unknown-unknown",),
    ),
    Session(
        "flutter",
        (
            sh("flutter test", "Error: Couldn't resolve the package 'intl' in 'package:intl/intl.dart'.", 1),
            sh("flutter pub get", "Got dependencies!"),
            sh("flutter test", "All tests passed!"),
        ),
        ("flutter pub get",),
    ),
    Session(
        "elixir",
        (
            sh(
                "mix test",
                'Unchecked dependencies for environment test:\n* jason (Hex package)\n  the dependency is not available, run "mix deps.get"\n** (Mix) Can\'t continue due to errors on dependencies',
                1,
            ),
            sh("mix deps.get", "* Getting jason (Hex package)"),
            sh("mix test", "20 tests, 0 failures"),
        ),
        ("mix deps.get",),
    ),
    Session(
        "swift",
        (
            sh("swift test", "error: 'app': the Package.resolved file is most likely severely out-of-date", 1),
            sh("swift package resolve", "Computed"),
            sh("swift test", "Executed 12 tests, with 0 failures"),
        ),
        ("swift package resolve",),
    ),
    Session(
        "proto",
        (
            sh(
                "poetry run python -m svc.server --check",
                "ImportError: cannot import name 'order_pb2' from 'svc.gen' (/app/svc/gen/__init__.py)",
                1,
            ),
            sh("buf generate", ""),
            sh("poetry run python -m svc.server --check", "ok"),
        ),
        ("buf generate",),
    ),
    Session(
        "sqlx",
        (
            sh(
                "cargo check",
                "error: `DATABASE_URL` must be set, or `cargo sqlx prepare` must have been run and .sqlx must exist, to use query macros",
                101,
            ),
            sh("SQLX_OFFLINE=true cargo check", "Finished dev"),
        ),
        ("SQLX_OFFLINE=true",),
    ),
    Session(
        "helm",
        (
            sh(
                "helm template chart",
                "Error: An error occurred while checking for chart dependencies. You may need to run `helm dependency build` to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: redis",
                1,
            ),
            sh("helm dependency build chart", "Saving 1 charts"),
            sh("helm template chart", "---"),
        ),
        ("helm dependency build chart",),
    ),
    # another form of the call
    Session(
        "terraform lock",
        (
            sh(
                "terraform apply -auto-approve",
                "│ Error: Error acquiring the state lock\n│ \n│ Error message: resource temporarily unavailable",
                1,
            ),
            sh("terraform apply -auto-approve -lock-timeout=60s", "Apply complete! Resources: 1 added"),
        ),
        ("-lock-timeout=60s",),
    ),
    Session(
        "kubectl ns",
        (
            sh("kubectl logs web-0", 'Error from server (NotFound): pods "web-0" not found', 1),
            sh("kubectl -n shop logs web-0", "listening"),
        ),
        ("kubectl -n shop logs",),
    ),
    Session(
        "docker platform",
        (
            sh(
                "docker build -t svc .",
                "ERROR: failed to solve: rpc error: no match for platform in manifest: not found",
                1,
            ),
            sh("docker build --platform linux/amd64 -t svc .", "naming to docker.io/library/svc done"),
        ),
        ("--platform linux/amd64",),
    ),
    Session(
        "npm peer",
        (
            sh(
                "npm install",
                "npm error code ERESOLVE\nnpm error ERESOLVE could not resolve\nnpm error While resolving: react-dom@18",
                1,
            ),
            sh("npm install --legacy-peer-deps", "added 902 packages"),
        ),
        ("--legacy-peer-deps",),
    ),
    Session(
        "yarn ws",
        (
            sh("yarn build", 'Usage Error: Couldn\'t find a script named "build".', 1),
            sh("yarn workspace @acme/web build", "Done"),
        ),
        ("yarn workspace @acme/web build",),
    ),
    Session(
        "node opts",
        (
            sh("npx webpack --mode production", "Error: error:0308010C:digital envelope routines::unsupported", 1),
            sh("NODE_OPTIONS=--openssl-legacy-provider npx webpack --mode production", "compiled successfully"),
        ),
        ("NODE_OPTIONS=--openssl-legacy-provider",),
    ),
    Session(
        "git safe",
        (
            sh("git log -1", "fatal: detected dubious ownership in repository at '/app'", 128),
            sh("git -c safe.directory=/app log -1", "commit 1f"),
        ),
        ("safe.directory=/app",),
    ),
    Session(
        "git unrelated",
        (
            sh("git merge upstream/main", "fatal: refusing to merge unrelated histories", 128),
            sh("git merge --allow-unrelated-histories upstream/main", "Merge made by the 'ort' strategy."),
        ),
        ("--allow-unrelated-histories",),
    ),
    Session(
        "gh repo",
        (
            sh(
                "gh pr list",
                "none of the git remotes configured for this repository point to a known GitHub host. To tell gh about a new GitHub host, please use `gh auth login`",
                1,
            ),
            sh("gh pr list -R acme/shop", "#12 Fix cart"),
        ),
        ("-R acme/shop",),
    ),
    Session(
        "psql host",
        (
            sh(
                "psql shop -c 'select 1'",
                'psql: error: connection to server on socket "/var/run/postgresql/.s.PGSQL.5432" failed: No such file or directory',
                2,
            ),
            sh("psql -h localhost shop -c 'select 1'", "1"),
        ),
        ("-h localhost",),
    ),
    Session(
        "make target",
        (
            sh("make lint-fix", "make: *** No rule to make target 'lint-fix'.  Stop.", 2),
            sh("make format", "reformatted 3 files"),
        ),
        (),
    ),
    Session(
        "mocha tz",
        (
            sh("npx mocha test/date.spec.js", "AssertionError: expected '2024-01-01' to equal '2023-12-31'", 1),
            sh("TZ=UTC npx mocha test/date.spec.js", "4 passing"),
        ),
        ("TZ=UTC",),
    ),
    Session(
        "conda env",
        (
            sh("python train.py", "ModuleNotFoundError: No module named 'torch'", 1),
            sh("conda run -n ml python train.py", "epoch 1"),
        ),
        ("conda run -n ml",),
    ),
    # missing programs
    Session(
        "fd",
        (sh("fd -e proto", "bash: fd: command not found", 127), sh("find . -name '*.proto'", "a.proto")),
        ("find",),
    ),
    Session(
        "yq",
        (
            sh("yq .image values.yaml", "bash: yq: command not found", 127),
            sh("python3 -c \"import yaml;print(yaml.safe_load(open('values.yaml'))['image'])\"", "web:1"),
        ),
        ("yq",),
    ),
    Session(
        "aws",
        (
            sh("aws s3 ls", "bash: aws: command not found", 127),
            sh("pip install awscli", "Successfully installed awscli-1.33"),
            sh("aws s3 ls", "2024-01-01 bucket"),
        ),
        ("pip install awscli",),
    ),
    Session(
        "gradle none",
        (sh("gradle build", "bash: gradle: command not found", 127), sh("./gradlew build", "BUILD SUCCESSFUL in 30s")),
        ("./gradlew build",),
    ),
    # the developer sets it right
    Session(
        "en style",
        (
            tool("Edit", "ok", file_path="api.ts", old_string="a", new_string="b"),
            says("No, API types are generated. Change openapi.yaml and regenerate instead of editing api.ts"),
        ),
        ("openapi.yaml",),
    ),
    Session(
        "en indirect",
        (
            sh("terraform apply -auto-approve", "Apply complete!"),
            says("never apply from a branch, plan only; CI applies"),
        ),
        ("never apply",),
    ),
    Session(
        "de",
        (
            tool("Write", "ok", file_path="src/util2.py", content="x"),
            says("Bitte keine neuen Hilfsmodule, es gibt schon src/common/io.py"),
        ),
        ("src/common/io.py",),
    ),
    Session(
        "pt",
        (
            tool("Edit", "ok", file_path="app.rb", old_string="a", new_string="b"),
            says("Não edite o schema.rb, crie uma migração"),
        ),
        ("schema.rb",),
    ),
    Session(
        "ko",
        (
            tool("Edit", "ok", file_path="a.kt", old_string="a", new_string="b"),
            says("아니요, 직접 SQL을 쓰지 말고 저장소 클래스를 사용하세요"),
        ),
        ("SQL",),
    ),
    # nothing to take from it
    Session(
        "chat",
        (
            sh("ls", "a.py"),
            says("thanks, looks good! now add a readme please"),
            tool("Write", "ok", file_path="README.md", content="x"),
        ),
        (),
    ),
    Session(
        "red green",
        (
            tool("Write", "ok", file_path="tests/test_new.py", content="def test(): assert f() == 1"),
            sh("pytest tests/test_new.py -q", "FAILED tests/test_new.py::test - assert 2 == 1\n1 failed", 1),
            tool("Edit", "ok", file_path="src/f.py", old_string="2", new_string="1"),
            sh("pytest tests/test_new.py -q", "1 passed"),
        ),
        (),
    ),
    Session(
        "lint round",
        (
            sh(
                "npx eslint src",
                "src/a.ts\n  3:1  error  'x' is assigned a value but never used\n\n✖ 1 problem (1 error, 0 warnings)",
                1,
            ),
            tool("Edit", "ok", file_path="src/a.ts", old_string="x", new_string=""),
            sh("npx eslint src", ""),
        ),
        (),
    ),
    Session("grep none", (sh("grep -rn TODO src", "", 1), sh("grep -rn FIXME src", "src/a.py:3: FIXME")), ()),
    Session(
        "flaky",
        (
            sh("curl -sf http://localhost:8080/health", "curl: (7) Failed to connect to localhost port 8080", 7),
            sh("sleep 5", ""),
            sh("curl -sf http://localhost:8080/health", "ok"),
        ),
        (),
    ),
)
