"""`CombeeReflection`: one way for one and for many, failures that cost only themselves, any model, any caller."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from gepa.image import Image

from benchmarks.scripted_models import ScriptedModel
from combee.errors import BudgetError, CallError, CallErrorKind, RunError, UsageError
from combee.gepa import CombeeReflection
from combee.kernel.playbook import count_tokens
from combee.model import Price, Request
from tests.gepa.answers import Asked, fenced, records

CANDIDATE = {"a": "The text of a.", "b": "The text of b."}


def reflect(lm: Any, count: int = 40, **options: Any) -> tuple[str, dict[str, Any]]:
    with CombeeReflection(lm, **options) as reflection:
        proposal, after = reflection.reflect(CANDIDATE, {"a": records(count)}, ["a"])
        assert after is reflection
        return proposal.new_texts["a"], proposal.metadata["combee:a"]


def test_reflect_many_with_one_job_equals_reflect_also_with_several() -> None:
    job = (CANDIDATE, {"a": records(40), "b": records(12)}, ["a", "b"])
    other = (CANDIDATE, {"a": records(30)}, ["a"])
    with CombeeReflection(fenced) as one, CombeeReflection(fenced) as many, CombeeReflection(fenced) as both:
        alone = one.reflect(*job)[0]
        assert many.reflect_many([job])[0][0].new_texts == alone.new_texts
        found = both.reflect_many([job, other])
        assert [proposal.new_texts for proposal, _ in found] == [alone.new_texts, one.reflect(*other)[0].new_texts]
    assert set(alone.new_texts) == {"a", "b"}
    assert alone.raw_lm_outputs["a"].startswith("```")
    assert "The text of a." in str(alone.prompts["a"])
    assert "BatchReflectionLM" in {base.__name__ for base in _protocols(one)}


def _protocols(reflection: object) -> list[type]:
    from gepa.proposer.reflective_mutation.reflection_lm import BatchReflectionLM, ReflectionLM

    return [protocol for protocol in (BatchReflectionLM, ReflectionLM) if isinstance(reflection, protocol)]


@pytest.mark.parametrize(("count", "calls", "levels"), [(1, 1, 1), (8, 1, 1), (40, 11, 2), (400, None, 3)])
def test_the_tree_has_few_levels_and_no_call_is_overloaded(count: int, calls: int | None, levels: int) -> None:
    lm = Asked(fenced)
    _, figures = reflect(lm, count)
    assert figures["calls"] == len(lm.prompts)
    assert calls is None or figures["calls"] == calls
    assert figures["levels"] == levels
    assert all(prompt.count("\nRecord ") + prompt.count("\nVersion ") <= 16 for prompt in lm.prompts)


def test_each_record_is_read_twice_and_never_twice_by_one_call() -> None:
    lm = Asked(fenced)
    reflect(lm, 40)
    for n in range(40):
        counts = [prompt.count(f"Inputs: case {n}\n") for prompt in lm.prompts if "Inputs: " in prompt]
        assert Counter(counts)[1] == 2
        assert max(counts) == 1


def test_all_calls_of_all_components_and_jobs_run_at_the_same_time() -> None:
    gate = threading.Barrier(4, timeout=100)

    def answer(prompt: str) -> str:
        gate.wait()
        return fenced(prompt)

    lm = Asked(answer)
    job = (CANDIDATE, {"a": records(3), "b": records(3)}, ["a", "b"])
    with CombeeReflection(lm) as reflection:
        assert len(reflection.reflect_many([job, job])) == 2
    assert lm.at_once == 4


def test_one_failing_map_call_costs_its_record_only_and_nothing_is_bought_twice() -> None:
    def answer(prompt: str) -> str:
        if "XK-007" in prompt:
            raise ConnectionError("gone")
        return fenced(prompt)

    lm = Asked(answer)
    text, figures = reflect(lm, 40, copies=1)
    assert text.startswith("A better text")
    assert len(figures["failed"]) == 1
    assert "ConnectionError: gone" in figures["failed_calls"][0]
    assert set(Counter(lm.prompts).values()) == {1}
    good = [prompt for prompt in lm.prompts if "Record 1:" in prompt and "XK-007" not in prompt]
    assert sum(prompt.count("Inputs: case") for prompt in good) == 39  # every other record was read once


def test_where_all_fails_the_error_is_clear_and_the_second_time_it_reaches_gepa() -> None:
    def answer(prompt: str) -> str:
        raise ConnectionError("no route to host")

    with CombeeReflection(answer) as reflection:
        with pytest.raises(RunError, match="no route to host"):
            reflection.reflect(CANDIDATE, {"a": records(3)}, ["a"])
        proposal, _ = reflection.reflect(CANDIDATE, {"a": records(3)}, ["a"])
        with pytest.raises(RunError, match="no route to host"):
            bool(proposal.new_texts)


def test_a_model_that_never_answers_is_not_asked_for_ever() -> None:
    def answer(prompt: str) -> str:
        raise ConnectionError("down")

    lm = Asked(answer)
    with CombeeReflection(lm, concurrency=4) as reflection, pytest.raises(RunError, match="in a row failed"):
        reflection.reflect(CANDIDATE, {"a": records(400)}, ["a"])
    assert len(lm.prompts) < 100


def test_a_job_that_failed_beside_others_says_why_and_the_others_count() -> None:
    def answer(prompt: str) -> str:
        if "text of b" in prompt:
            raise ValueError("bad b")
        return fenced(prompt)

    with CombeeReflection(answer) as reflection:
        found = reflection.reflect_many([(CANDIDATE, {"a": records(3)}, ["a"]), (CANDIDATE, {"b": records(3)}, ["b"])])
    assert [set(proposal.new_texts) for proposal, _ in found] == [{"a"}, set()]
    assert "bad b" in found[1][0].metadata["combee:b"]["error"]


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ("", "```\nnew\n```", "new"),
        ("```\nnever closed", "```\nnew\n```", "new"),
        ("```\na\n```\n```\nb\n```", "<new_text>\nnew\n</new_text>", "new"),
        ("```\na\n```\n```\nb\n```", "```\na\n```\n```\nb\n```", "b"),
        ("<think>hm", "<think>hm</think>```\nnew\n```", "new"),
    ],
)
def test_a_reply_of_no_use_is_asked_about_once(first: str, second: str, text: str) -> None:
    for lm in (ScriptedModel([first, second]), iter([first, second]).__next__):
        found, figures = reflect(lm if isinstance(lm, ScriptedModel) else lambda _, lm=lm: lm(), 2)
        assert found == text
        assert figures["calls"] == 1


def test_two_replies_of_no_use_are_an_error_and_no_text() -> None:
    model = ScriptedModel(lambda request: "```\nnever closed")
    with CombeeReflection(model) as reflection, pytest.raises(RunError, match="never closed"):
        reflection.reflect(CANDIDATE, {"a": records(1)}, ["a"])
    assert [request.role for request in model.requests] == ["reflection/map", "reflection/map/again"]


def test_two_refusals_in_a_row_are_an_error_and_no_text() -> None:
    replies = iter(["I'm sorry, but I can't assist with that request.", "Lo siento, no puedo ayudar con eso."])
    model = ScriptedModel(lambda _: next(replies))
    with CombeeReflection(model) as reflection, pytest.raises(RunError, match="the model refused"):
        reflection.reflect(CANDIDATE, {"a": records(1)}, ["a"])
    assert len(model.requests) == 2


def test_an_error_text_with_a_good_status_is_no_text() -> None:
    replies = iter(["API Error: 529 overloaded"] * 2)
    with CombeeReflection(lambda prompt: next(replies)) as reflection, pytest.raises(RunError, match="529"):
        reflection.reflect(CANDIDATE, {"a": records(1)}, ["a"])


def test_same_seed_same_text_in_any_order_of_completion_and_another_seed_shuffles_anew() -> None:
    def slowly(prompt: str) -> str:
        time.sleep((sum(map(ord, prompt)) % 7) / 500)
        return fenced(prompt)

    first = reflect(fenced, 60, seed=1)[0]
    assert reflect(slowly, 60, seed=1, concurrency=3)[0] == first
    assert reflect(fenced, 60, seed=2)[0] != first


async def test_it_works_where_a_loop_runs_already_with_async_models_and_ends_its_thread() -> None:
    async def answer(prompt: str) -> str:
        await asyncio.sleep(0)
        return fenced(prompt)

    def loops() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "combee-gepa"}

    before = loops()
    assert reflect(answer, 12)[0] == reflect(fenced, 12)[0]
    assert loops() <= before


def test_it_may_be_used_again_after_it_was_closed() -> None:
    reflection = CombeeReflection(fenced)
    for _ in range(2):
        assert reflection.reflect(CANDIDATE, {"a": records(2)}, ["a"])[0].new_texts
        reflection.close()


def test_components_without_records_or_text_are_left_as_they_are() -> None:
    with CombeeReflection(fenced) as reflection:
        proposal, _ = reflection.reflect(CANDIDATE, {"a": [], "c": records(2)}, ["a", "b", "c"])
    assert proposal.new_texts == {}


def test_the_coverage_says_how_much_of_the_records_is_in_the_new_text() -> None:
    every = "\n".join(f"- It must name part XK-{n:03d}." for n in range(40))
    few = "\n".join(f"- It must name part XK-{n:03d}." for n in range(10))
    assert reflect(lambda prompt: f"```\n{every}\n```")[1]["coverage"] == 1.0
    assert reflect(lambda prompt: f"```\n{few}\n```")[1]["coverage"] == pytest.approx(0.25)


def test_the_preset_of_the_paper_has_two_levels_and_sqrt_n_groups() -> None:
    _, figures = reflect(fenced, 40, preset="paper")
    assert (figures["groups"], figures["calls"], figures["levels"], figures["reads"]) == (6, 7, 2, 80)


def test_a_template_of_the_users_takes_the_place_of_ours() -> None:
    lm = Asked(fenced)
    reflect(lm, 2, prompt_template="NOW <curr_param> SEEN <side_info> END")
    assert lm.prompts[0].startswith("NOW The text of a. SEEN Record 1:")
    with pytest.raises(UsageError, match="<side_info>"):
        CombeeReflection(lm, prompt_template="NOW <curr_param>")


def test_texts_and_records_that_hold_placeholders_or_fences_stay_as_they_are() -> None:
    lm = Asked(fenced)
    with CombeeReflection(lm) as reflection:
        record = {"Inputs": "<curr_param> and ````x````", "Feedback": "<side_info>"}
        reflection.reflect({"a": "Keep <side_info>.\n```\ncode\n```"}, {"a": [record]}, ["a"])
    assert lm.prompts[0].count("Keep <side_info>.") == 1
    assert "`````\nInputs: <curr_param> and ````x````" in lm.prompts[0]


def test_of_an_image_the_prompt_says_that_there_is_one_and_the_user_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """gepa's own sends it along; models here read text."""
    shown = [
        Image(path="plots/p1.png"),
        Image(url="https://example.org/p2.png"),
        Image(base64_data="aGFsbG8=", media_type="image/png"),
    ]
    lm = Asked(fenced)
    with CombeeReflection(lm) as reflection:
        record = {"Inputs": "draw it", "Drawn": {"all": shown}, "Feedback": "The colours of XK-1 are too muted."}
        proposal, _ = reflection.reflect({"a": "Draw."}, {"a": [record, record]}, ["a"])
    assert proposal.new_texts["a"].startswith("A better text")
    assert "[an image that is not shown: plots/p1.png]" in lm.prompts[0]
    assert "[an image that is not shown: https://example.org/p2.png]" in lm.prompts[0]
    assert "aGFsbG8=" not in lm.prompts[0]
    assert proposal.metadata["combee:a"]["notes"] == ["6 images in the records were not shown to the model"]
    assert "describe them in words" in caplog.text


def test_the_ledger_has_every_call_by_phase() -> None:
    def answer(request: Request) -> str:
        if "XK-003" in request.messages[0].content and "Record 1:" in request.messages[0].content:
            raise CallError("broken", kind=CallErrorKind.SERVER)
        return fenced(request.messages[0].content)

    model = ScriptedModel(answer)
    with CombeeReflection(model, copies=1) as reflection:
        reflection.reflect(CANDIDATE, {"a": records(40)}, ["a"])
    by_role = reflection.ledger.by_role
    assert sum(totals.calls for totals in by_role.values()) == len(model.requests)
    assert by_role["reflection/map"].outcomes["server"] >= 1
    assert by_role["reflection/combine"].ok >= 1


def test_the_cost_is_known_from_a_price_or_from_the_function_and_else_there_is_none() -> None:
    class Counts:
        total_cost = 0.0

        def __call__(self, prompt: str) -> str:
            self.total_cost += 0.25
            return fenced(prompt)

    with CombeeReflection(Counts()) as counting, CombeeReflection(fenced, price=Price(1000, 1000)) as priced:
        for reflection in (counting, priced):
            assert reflection.total_cost == 0.0
            reflection.reflect(CANDIDATE, {"a": records(2)}, ["a"])
            assert reflection.total_cost > 0.0
    assert counting.total_cost == 0.25
    assert not hasattr(CombeeReflection(fenced), "total_cost")
    assert hasattr(CombeeReflection(ScriptedModel(["x"])), "total_cost")


@pytest.mark.parametrize(
    ("options", "said"),
    [({"max_item": 3}, "max_items"), ({"max_items": 1}, "at least 2"), ({"copies": 0}, "at least 1"),
     ({"playbooks": "all"}, "auto")],
)  # fmt: skip
def test_a_wrong_option_is_refused_with_what_is_right(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        CombeeReflection(fenced, **options)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(UsageError, match="no language model"):
        CombeeReflection(42)  # type: ignore[arg-type]  # the point of the test


def test_without_gepa_the_import_says_how_to_install_it() -> None:
    code = "import sys; sys.modules['gepa'] = None\nimport combee.gepa"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "UsageError" in done.stderr
    assert "In a clone: .venv/bin/pip install -e '.[gepa]'" in done.stderr


def test_new_texts_alone_serve_callers_that_take_a_proposal_function() -> None:
    with CombeeReflection(fenced) as one, CombeeReflection(fenced) as other:
        job = (CANDIDATE, {"a": records(12)}, ["a"])
        assert one.propose(*job) == other.reflect(*job)[0].new_texts
    with CombeeReflection(lambda prompt: "") as silent:
        for _ in range(2):
            with pytest.raises(RunError):
                silent.propose(*job)


def test_a_reflection_that_ended_early_and_is_tried_again_pays_no_call_twice() -> None:
    left = [6]

    def answer(prompt: str) -> str:
        left[0] -= 1
        if left[0] < 0:
            raise BudgetError("the limit of 6 calls is reached")
        return fenced(prompt)

    lm = Asked(answer)
    with CombeeReflection(lm, concurrency=1) as reflection:
        with pytest.raises(BudgetError):
            reflection.reflect(CANDIDATE, {"a": records(40)}, ["a"])
        paid = lm.prompts[:6]
        left[0] = 100
        assert reflection.reflect(CANDIDATE, {"a": records(40)}, ["a"])[0].new_texts
    assert not set(paid) & set(lm.prompts[6:])


FACTS = re.compile(r"part (XK-\d{4})")


def capped(limit: int) -> Callable[[str], str]:
    """A model that forgets nothing, behind an endpoint that cuts replies at so many characters, and says nothing."""

    def answer(prompt: str) -> str:
        facts = dict.fromkeys(FACTS.findall(prompt))
        reply = "\n".join(["<new_text>", "Do the task.", *(f"- name part {fact}" for fact in facts), "</new_text>"])
        return reply[:limit]

    return answer


@pytest.mark.parametrize("count", [600, 2000])
def test_no_paid_lesson_is_lost_where_a_reply_cannot_hold_them_all(count: int) -> None:
    cases = [{"Inputs": f"case {n}", "Feedback": f"It must name part XK-{n:04d}."} for n in range(count)]
    with CombeeReflection(capped(4096)) as reflection:  # 240 facts fit into one reply
        proposal, _ = reflection.reflect({"a": "Do the task."}, {"a": cases}, ["a"])
    text, figures = proposal.new_texts["a"], proposal.metadata["combee:a"]
    assert len(set(re.findall(r"XK-\d{4}", text))) == count
    assert figures["coverage"] == 1.0
    assert any("put below the text by code" in note for note in figures["notes"])
    assert text.count("Do the task.") == 1


@pytest.mark.parametrize(("old", "limit", "count"), [(600, 4096, 40), (600, 4096, 400), (60, 1300, 40), (600, 4096, 5)])
def test_a_text_that_no_reply_can_hold_is_added_to(old: int, limit: int, count: int) -> None:
    text = "\n".join(["Do the task.", *(f"- name part XK-{9000 + n}" for n in range(old))])
    model = capped(limit)

    def answer(prompt: str) -> str:
        return model(prompt[prompt.index("Record 1:") :] if "Do not repeat it" in prompt else prompt)

    cases = [{"Inputs": f"case {n}", "Feedback": f"It must name part XK-{n:04d}."} for n in range(count)]
    with CombeeReflection(answer) as reflection:
        proposal, _ = reflection.reflect({"a": text}, {"a": cases}, ["a"])
    assert proposal.new_texts["a"].startswith(text)
    assert len(re.findall(r"XK-\d{4}", proposal.new_texts["a"])) == old + count
    assert proposal.metadata["combee:a"]["coverage"] == 1.0


def test_where_there_is_nothing_to_add_a_long_text_stays_as_it_is() -> None:
    text = "\n".join(f"- name part XK-{9000 + n}" for n in range(600))
    again = [{"Inputs": f"case {n}", "Feedback": f"It must name part XK-{9000 + n}."} for n in range(40)]
    for reply in ("<new_text>\n(nothing)\n</new_text>", "<new_text>\n- name part XK-9001\n</new_text>"):
        with CombeeReflection(lambda _, said=reply: said) as reflection:
            assert reflection.reflect({"a": text}, {"a": again}, ["a"])[0].new_texts == {"a": text}


def test_a_text_has_a_largest_size_and_what_had_no_room_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    cases = [{"Inputs": f"case {n}", "Feedback": f"It must name part XK-{n:04d}."} for n in range(600)]
    with CombeeReflection(capped(4096), token_budget=3000) as reflection:
        proposal, _ = reflection.reflect({"a": "Do the task."}, {"a": cases}, ["a"])
    text = proposal.new_texts["a"]
    kept = len(set(re.findall(r"XK-\d{4}", text)))
    assert count_tokens(text) <= 3000
    assert any(f"{600 - kept} lines were left out" in note for note in proposal.metadata["combee:a"]["notes"])
    assert "lines were left out" in caplog.text


def test_the_papers_method_shows_what_its_calls_do() -> None:
    cases = [{"Inputs": f"case {n}", "Feedback": f"It must name part XK-{n:04d}."} for n in range(400)]

    def forgets(prompt: str) -> str:
        facts = list(dict.fromkeys(FACTS.findall(prompt)))[:20]
        return "\n".join(["<new_text>", *(f"- name part {fact}" for fact in facts), "</new_text>"])

    with CombeeReflection(forgets, preset="paper") as paper, CombeeReflection(forgets) as ours:
        job = ({"a": "Do the task."}, {"a": cases}, ["a"])
        assert len(FACTS.findall(paper.reflect(*job)[0].new_texts["a"])) == 20
        assert len(FACTS.findall(ours.reflect(*job)[0].new_texts["a"])) == 400


def test_records_that_are_too_long_for_the_window_are_read_in_smaller_groups() -> None:
    def answer(prompt: str) -> str:
        if len(prompt) > 80_000:
            raise ValueError("This model's maximum context length is 20000 tokens.")
        return capped(10**6)(prompt)

    cases = [{"Inputs": "x" * 20_000, "Feedback": f"It must name part XK-{n:04d}."} for n in range(60)]
    with CombeeReflection(answer) as reflection:
        proposal, _ = reflection.reflect({"a": "Do the task."}, {"a": cases}, ["a"])
    assert len(set(re.findall(r"XK-\d{4}", proposal.new_texts["a"]))) == 60
