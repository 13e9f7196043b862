"""Runs written by the formats' own libraries and read back: steps, calls, results and outcomes must be equal.

Not part of the tests, since the libraries are large. In an environment that has inspect-ai, opentelemetry-sdk,
langsmith, mini-swe-agent and harbor (its data models suffice) and `backports.zstd` or Python 3.14:
`python benchmarks/roundtrip_formats.py`. A library that is missing is said and left out.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from combee.redaction import Trace
from combee.traces.readers import read

RUNS = 200
_WORDS = "build|test|/app/x.py|line-7|Error:|no such file|{braces}|<tag>|'q'|\"d\"|caf\u00e9|\U0001f41d"
WORDS = _WORDS.split("|")


@dataclass(frozen=True)
class Turn:
    """What the agent said, its calls as (id, name, arguments), and their results as (text, failed)."""

    said: str
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    results: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True)
class Run:
    """A made-up run; `score` is 1 or 0."""

    name: str
    task: str
    turns: tuple[Turn, ...]
    score: float


def make_run(at: int) -> Run:
    """Return run number `at`, always the same."""
    chance = random.Random(at)

    def prose(most: int) -> str:
        return " ".join(chance.choices(WORDS, k=chance.randint(1, most)))

    turns = []
    for turn in range(chance.randint(1, 4)):
        calls = tuple(
            (f"call-{at}-{turn}-{n}", chance.choice(["bash", "edit"]), {"command": prose(6), "n": n})
            for n in range(chance.randint(1, 2))
        )
        turns.append(Turn(f"t{turn} {prose(30)}", calls, tuple((prose(60), chance.random() < 0.3) for _ in calls)))
    turns.append(Turn(f"end {prose(10)}"))
    return Run(f"run-{at}", f"task {at}: {prose(40)}", tuple(turns), float(chance.random() < 0.5))


Shown = list[tuple[object, ...]]


def expected(run: Run) -> Shown:
    """Return the steps as (role, text, calls, answered id)."""
    steps: Shown = [("user", run.task, (), None)]
    for turn in run.turns:
        steps.append(("assistant", turn.said, tuple((name, json.dumps(a)) for _, name, a in turn.calls), None))
        steps += [("tool", text, (), call[0]) for call, (text, _) in zip(turn.calls, turn.results, strict=True)]
    return steps


def shown(trace: Trace) -> Shown:
    """Return the read steps in the same form."""
    return [
        (
            step.role,
            step.text,
            tuple((call.name, json.dumps(json.loads(call.arguments))) for call in step.tool_calls),
            step.answers,
        )
        for step in trace.steps
    ]


def write_inspect(folder: Path, runs: list[Run]) -> None:
    """Half as `.json`, half as `.eval`, long texts condensed to attachments as the recorder does."""
    log = importlib.import_module("inspect_ai.log")
    model = importlib.import_module("inspect_ai.model")
    tool = importlib.import_module("inspect_ai.tool")
    scorer = importlib.import_module("inspect_ai.scorer")
    condense = importlib.import_module("inspect_ai.log._condense").condense_sample

    def sample(run: Run) -> Any:
        messages = [model.ChatMessageUser(content=run.task)]
        for turn in run.turns:
            calls = [tool.ToolCall(id=i, function=n, arguments=a) for i, n, a in turn.calls] or None
            messages.append(model.ChatMessageAssistant(content=turn.said, tool_calls=calls))
            for (name, function, _), (text, failed) in zip(turn.calls, turn.results, strict=True):
                error = tool.ToolCallError(type="unknown", message=text) if failed else None
                messages.append(model.ChatMessageTool(content=text, tool_call_id=name, function=function, error=error))
        score = scorer.Score(value="C" if run.score else "I", explanation="checked")
        made = log.EvalSample(
            id=run.name, epoch=1, input=run.task, target="t", messages=messages, scores={"check": score}
        )
        return condense(made)

    for at, form in enumerate(("json", "eval")):
        spec = log.EvalSpec(
            created=datetime.now(UTC).isoformat(),
            task=f"half-{at}",
            dataset=log.EvalDataset(),
            model="none/none",
            config=log.EvalConfig(),
        )
        made = log.EvalLog(eval=spec, samples=[sample(run) for run in runs[at::2]])
        log.write_eval_log(made, str(folder / f"half.{form}"), format=form)


def write_otel(folder: Path, runs: list[Run]) -> None:
    """Half printed by the console exporter, half one span a line; every model call repeats the conversation."""
    sdk = importlib.import_module("opentelemetry.sdk.trace")
    export = importlib.import_module("opentelemetry.sdk.trace.export")

    def message(role: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
        return {"role": role, "parts": parts}

    def record(tracer: Any, run: Run) -> None:
        talk = [message("user", [{"type": "text", "content": run.task}])]
        with tracer.start_as_current_span(
            "invoke_agent a", attributes={"gen_ai.operation.name": "invoke_agent"}
        ) as root:
            for turn in run.turns:
                captured = len(turn.said) % 2 == 0  # where not, the results show only in the next call's input
                calls = [{"type": "tool_call", "id": i, "name": n, "arguments": a} for i, n, a in turn.calls]
                answer = message("assistant", [{"type": "text", "content": turn.said}, *calls])
                given = {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.provider.name": "none",
                    "gen_ai.input.messages": json.dumps(talk),
                }
                with tracer.start_as_current_span("chat m", attributes=given) as span:
                    span.set_attribute("gen_ai.output.messages", json.dumps([answer]))
                talk.append(answer)
                for (name, function, _), (text, _failed) in zip(turn.calls, turn.results, strict=True):
                    told = {
                        "gen_ai.operation.name": "execute_tool",
                        "gen_ai.tool.name": function,
                        "gen_ai.tool.call.id": name,
                    }
                    with tracer.start_as_current_span("execute_tool", attributes=told) as span:
                        if captured:
                            span.set_attribute("gen_ai.tool.call.result", text)
                    talk.append(message("tool", [{"type": "tool_call_response", "id": name, "response": text}]))
            verdict = {"gen_ai.evaluation.name": "check", "gen_ai.evaluation.score.value": run.score}
            root.add_event("gen_ai.evaluation.result", verdict)

    for at, indent in enumerate((4, None)):
        with (folder / f"half-{at}.json").open("w", encoding="utf-8") as out:
            provider = sdk.TracerProvider()
            console = export.ConsoleSpanExporter(
                out=out, formatter=lambda span, i=indent: span.to_json(indent=i) + "\n"
            )
            provider.add_span_processor(export.SimpleSpanProcessor(console))
            for run in runs[at::2]:
                record(provider.get_tracer("roundtrip"), run)
            provider.shutdown()


def write_langsmith(folder: Path, runs: list[Run]) -> None:
    """Run trees as the client would post them, and feedback on each root."""
    trees = importlib.import_module("langsmith.run_trees")
    schemas = importlib.import_module("langsmith.schemas")
    with (folder / "runs.jsonl").open("w", encoding="utf-8") as out:
        for run in runs:
            root = trees.RunTree(name="agent", run_type="chain", inputs={"input": run.task})
            made = [root]
            talk: list[dict[str, Any]] = [{"role": "user", "content": run.task}]
            for turn in run.turns:
                calls = [
                    {"id": i, "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
                    for i, n, a in turn.calls
                ]
                answer = {"role": "assistant", "content": turn.said, "tool_calls": calls or None}
                made.append(root.create_child(name="m", run_type="llm", inputs={"messages": list(talk)}))
                made[-1].end(outputs={"choices": [{"message": answer}]})
                talk.append(answer)
                for (name, function, arguments), (text, _) in zip(turn.calls, turn.results, strict=True):
                    result = {"type": "tool", "role": "tool", "content": text, "tool_call_id": name}
                    made.append(root.create_child(name=function, run_type="tool", inputs=arguments))
                    made[-1].end(outputs={"output": result})
                    talk.append(result)
            root.end(outputs={"output": run.turns[-1].said})
            for each in made:
                out.write(json.dumps(each.model_dump(exclude={"client", "ls_client"}), default=str) + "\n")
            now = datetime.now(UTC)
            note = schemas.FeedbackCreate(
                id=uuid.uuid4(),
                created_at=now,
                modified_at=now,
                run_id=root.id,
                trace_id=root.id,
                key="correctness",
                score=run.score,
                feedback_source={"type": "api"},
            )
            out.write(json.dumps(note.model_dump(), default=str) + "\n")


def write_harbor(folder: Path, runs: list[Run]) -> None:
    """Trial folders with an ATIF trajectory and the verifier's result."""
    models = importlib.import_module("harbor.models.trajectories")
    verifier = importlib.import_module("harbor.models.verifier.result")
    for run in runs:
        steps = [models.Step(step_id=1, source="user", message=run.task)]
        for turn in run.turns:
            calls = [models.ToolCall(tool_call_id=i, function_name=n, arguments=a) for i, n, a in turn.calls]
            results = [
                models.ObservationResult(source_call_id=call[0], content=text)
                for call, (text, _) in zip(turn.calls, turn.results, strict=True)
            ]
            step = models.Step(
                step_id=len(steps) + 1,
                source="agent",
                message=turn.said,
                tool_calls=calls or None,
                observation=models.Observation(results=results) if results else None,
            )
            steps.append(step)
        whole = models.Trajectory(session_id=run.name, agent=models.Agent(name="a", version="1"), steps=steps)
        home = folder / "job" / run.name
        (home / "agent").mkdir(parents=True)
        (home / "agent" / "trajectory.json").write_text(json.dumps(whole.to_json_dict()), encoding="utf-8")
        rewards = verifier.VerifierResult(rewards={"reward": run.score}).model_dump()
        result = {
            "id": run.name,
            "task_name": run.name,
            "trial_name": run.name,
            "agent_info": {"name": "a", "version": "1"},
            "verifier_result": rewards,
        }
        (home / "result.json").write_text(json.dumps(result), encoding="utf-8")


def check_mini(folder: Path, runs: list[Run]) -> tuple[int, int, list[str]]:
    """Let the real agent loop run commands in the three forms of its messages; its own file is what must come back."""
    agents = importlib.import_module("minisweagent.agents.default")
    models = importlib.import_module("minisweagent.models.test_models")
    environment = importlib.import_module("minisweagent.environments.local").LocalEnvironment
    forms = (models.DeterministicModel, models.DeterministicToolcallModel, models.DeterministicResponseAPIToolcallModel)
    wrong: list[str] = []
    for at, run in enumerate(runs):
        outputs = []
        commands = [f"echo {run.name}-{turn}; exit {turn % 2}" for turn in range(len(run.turns))]
        commands.append("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo done")
        for turn, command in enumerate(commands):
            action = {"command": command, "tool_call_id": f"c{turn}"}
            call = {
                "id": f"c{turn}",
                "type": "function",
                "function": {"name": "bash", "arguments": json.dumps({"command": command})},
            }
            made = (
                models.make_output(f"turn {turn}", [{"command": command}]),
                models.make_toolcall_output(f"turn {turn}", [call], [action]),
                models.make_response_api_output(f"turn {turn}", [action]),
            )
            outputs.append(made[at % 3])
        path = folder / f"{run.name}.traj.json"
        agent = agents.DefaultAgent(
            forms[at % 3](outputs=outputs),
            environment(),
            system_template="s",
            instance_template="{{task}}",
            output_path=path,
            cost_limit=0.0,
        )
        agent.run(run.name)
        (trace,) = read(path)
        results = [step for step in trace.steps if step.role == "tool"]
        calls = [call for step in trace.steps for call in step.tool_calls]
        same = (
            [step.is_error for step in results] == [turn % 2 == 1 for turn in range(len(run.turns))]
            and all(f"{run.name}-{turn}" in step.text for turn, step in enumerate(results))
            and [command in call.arguments for command, call in zip(commands, calls, strict=True)]
            == [True] * len(commands)
            and [step.answers for step in results] == [call.id for call in calls[:-1]]
            and trace.task == run.name
            and trace.outcome is not None
            and (trace.outcome.success, trace.outcome.claimed) == (True, True)
        )
        if not same:
            wrong.append(run.name)
    return len(runs), len(wrong), wrong


def check(folder: Path, runs: list[Run], write: Callable[[Path, list[Run]], None]) -> tuple[int, int, list[str]]:
    """Write, read back, compare; return how many were read, how many differ, and what was not read or differs."""
    write(folder, runs)
    result = read(folder)
    found = {trace.task: trace for trace in result}
    wrong = [str(notice) for notice in result.report.skipped]
    for run in runs:
        trace = found.get(run.task)
        if trace is None:
            wrong.append(f"{run.name}: not read")
        elif shown(trace) != expected(run):
            wrong.append(f"{run.name}: steps differ")
        elif trace.outcome is None or (trace.outcome.score, trace.outcome.claimed) != (run.score, False):
            wrong.append(f"{run.name}: outcome {trace.outcome}")
    return result.report.traces, len(wrong), wrong


def main() -> None:
    """Print one line a format; exit with 1 where anything differs."""
    runs = [make_run(at) for at in range(RUNS)]
    failed = False
    for name, write in (
        ("inspect_ai", write_inspect),
        ("otel_genai", write_otel),
        ("langsmith", write_langsmith),
        ("harbor", write_harbor),
        ("mini_swe_agent", None),
    ):
        with tempfile.TemporaryDirectory() as folder:
            try:
                count, differ, wrong = check(Path(folder), runs, write) if write else check_mini(Path(folder), runs)
            except ImportError as error:
                print(f"{name:<16} left out: {error}")
                continue
        print(f"{name:<16}{count:>5} read, {differ} differ", *wrong[:5], sep="\n    " if wrong else " ")
        failed |= bool(differ)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
