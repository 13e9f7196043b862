"""One text and one hash for equal values; nothing that is not JSON gets in; no text is refused for its characters."""

from __future__ import annotations

import json
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import UsageError
from combee.kernel.journal import JSON, JSONLike, canonical_json, clean_text, hash_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_a_value_comes_back_as_it_went_in(value: JSON) -> None:
    assert json.loads(canonical_json(value)) == value


@given(st.dictionaries(st.text(), st.integers(), max_size=6))
def test_the_order_of_keys_does_not_change_the_hash(value: dict[str, int]) -> None:
    assert hash_json(value) == hash_json(dict(reversed(value.items())))


@given(st.text(st.characters(codec=None, categories=None)))
def test_every_text_can_be_stored_and_cleaning_twice_is_cleaning_once(text: str) -> None:
    cleaned = clean_text(text)
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned
    assert clean_text(cleaned) == cleaned


def test_a_lone_surrogate_is_replaced_and_a_pair_is_joined() -> None:
    assert clean_text("Σ\ud800x\ude00") == "Σ\ufffdx\ufffd"
    assert clean_text("\ud83d\ude00") == "\U0001f600"


def test_tuples_and_read_only_mappings_are_stored_as_lists_and_dicts() -> None:
    assert canonical_json({"b": (1, 2), "a": MappingProxyType({"c": 1})}) == '{"a":{"c":1},"b":[1,2]}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", {"a": object()}, {1: 1, "a": 2}])
def test_what_is_not_json_is_refused_with_a_hint(value: JSONLike) -> None:
    with pytest.raises(UsageError, match="cannot be stored") as caught:
        canonical_json(value)
    assert caught.value.hint


def test_a_circle_is_refused() -> None:
    circle: list[JSON] = []
    circle.append(circle)
    with pytest.raises(UsageError):
        canonical_json(circle)
