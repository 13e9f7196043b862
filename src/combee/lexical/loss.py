"""What one call loses: simulated forgetting (the paper's loss, as chance), or what an output limit leaves no room for.

Forgetting: each lesson that enters a call of m items is kept with probability exp(-m/m0); a hash of the seed, the place
in the tree and the lesson decides: order and repetition change nothing. m0 = 40 fits the paper's entry counts.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence

from combee.kernel.playbook import Operation, count_tokens
from combee.lexical.features import features
from combee.lexical.lesson import read_lesson

__all__ = ["OPERATION_TOKENS", "fitting", "remembered"]

OPERATION_TOKENS = 16
"""What one operation costs in a reply besides its text: type, section, sources, punctuation."""


def remembered(seed: str, lesson: str, m: int, m0: float) -> bool:
    """Return whether a call over `m` items keeps this lesson; `seed` names the run, the step and the node."""
    data = f"{seed}\0{lesson}".encode("utf-8", "replace")
    draw = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") / 2**64
    return draw < math.exp(-m / m0)


def fitting(operations: Sequence[Operation], limit: int) -> list[Operation]:
    """Return the operations that a reply of `limit` tokens holds, in their order.

    Where not all fit, a curator writes the common and drops the precise: operations are taken by how many of the call's
    lessons share their words (the mean over the words; highest first, then by text), until the next would not fit.
    """
    texts = [getattr(operation, "text", "") for operation in operations]
    cost = [OPERATION_TOKENS + count_tokens(text) for text in texts]
    if sum(cost) <= limit:
        return list(operations)
    words = [_words(text) for text in texts]
    spread = Counter(word for found in words for word in found)
    common = [sum(spread[word] for word in found) / (len(found) or 1) for found in words]
    taken: set[int] = set()
    room = limit
    for place in sorted(range(len(texts)), key=lambda place: (-common[place], texts[place])):
        if cost[place] > room:
            break
        room -= cost[place]
        taken.add(place)
    return [operation for place, operation in enumerate(operations) if place in taken]


def _words(text: str) -> frozenset[str]:
    lesson = read_lesson(text)
    seen = lesson.features() if lesson else features(text)[0]
    return frozenset(name for name in seen if name[0] == "w")
