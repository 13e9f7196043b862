"""A reply is found again in a journal exactly where all that it depends on is the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.scripted_models import ScriptedModel
from combee.model import Message, Request
from combee.model.asking import request_hash

ASKED = Request((Message("system", "Be brief."), Message("user", "What is it?")), max_tokens=100, seed=1)
MODEL = ScriptedModel(["x"])


@pytest.mark.parametrize(
    "other",
    [
        replace(ASKED, max_tokens=101),
        replace(ASKED, temperature=0.5),
        replace(ASKED, seed=2),
        replace(ASKED, messages=(Message("system", "Be brief.What"), Message("user", " is it?"))),
        replace(ASKED, messages=ASKED.messages[1:]),
    ],
)
def test_what_a_reply_depends_on_changes_the_hash(other: Request) -> None:
    assert request_hash(other, MODEL) != request_hash(ASKED, MODEL)


def test_another_model_or_other_parameters_change_the_hash_and_its_purpose_does_not() -> None:
    class Tuned(ScriptedModel):
        parameters = {"top_p": 0.5}  # noqa: RUF012 - as models have it

    assert request_hash(ASKED, Tuned(["x"])) != request_hash(ASKED, MODEL)
    assert request_hash(replace(ASKED, role="map", item="r0/l0/g1"), MODEL) == request_hash(ASKED, MODEL)
