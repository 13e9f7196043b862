"""Random playbooks, operations and votes for the property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from combee.kernel.playbook import SECTIONS, Add, Bullet, Merge, Operation, Playbook, Remove, Update, Vote, VoteKind

ANY_TEXT = st.text(
    st.one_of(
        st.sampled_from("ab \\n\n\r\t[]:#-=0159|`*<>!\u0303\u2028\x85\x0c\x1c"),
        st.characters(),
        st.characters(categories=["Cs"]),
    ),
    max_size=40,
)
FEW_TEXTS = st.sampled_from(
    ["alpha", "beta two", "beta  two ", "gamma\nthree", "Alpha", "use `x` for 3", "a long lesson " * 9]
)
SOURCES = st.lists(st.sampled_from(["r1", "r2", "r3", "r4"]), max_size=3).map(tuple)
SECTION = st.sampled_from([*SECTIONS, "Tax rules", "tax_rules", "Ü"])
IDS = [f"misc-{number:05d}" for number in range(1, 8)]
BULLET_ID = st.sampled_from([*IDS, "calc-99999"])

OPERATION: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Add, SECTION, FEW_TEXTS, SOURCES),
    st.builds(Update, BULLET_ID, FEW_TEXTS, SOURCES),
    st.builds(Merge, st.lists(BULLET_ID, min_size=1, max_size=3).map(tuple), FEW_TEXTS, SOURCES),
    st.builds(Remove, BULLET_ID, SOURCES),
)
OPERATIONS = st.lists(OPERATION, max_size=12)
VOTES = st.lists(
    st.builds(Vote, st.sampled_from(["r1", "r2", "r3"]), BULLET_ID, st.sampled_from(list(VoteKind))), max_size=8
)


@st.composite
def books(draw: st.DrawFn, texts: st.SearchStrategy[str] = FEW_TEXTS) -> Playbook:
    """Draw a book of up to seven bullets, equal texts and scattered sections included."""
    ids = draw(st.lists(st.sampled_from(IDS), unique=True, max_size=7))
    count = st.integers(0, 11)
    bullets = tuple(
        Bullet(
            bullet_id,
            draw(SECTION),
            draw(texts),
            draw(count),
            draw(count),
            draw(SOURCES),
            draw(count),
            draw(st.none() | count),
        )
        for bullet_id in ids
    )
    return Playbook(bullets, draw(st.sampled_from([0, 7, 40])), draw(st.sampled_from(["chars/4", "words"])))
