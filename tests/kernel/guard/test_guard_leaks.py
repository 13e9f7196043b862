"""Held-out answers and secrets do not get into a lesson; ordinary numbers and labels do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.kernel.guard import Evidence, GuardLimits, GuardState, HeldOut, LeakIndex, judge, screen
from combee.kernel.guard.leaks import distinctive
from combee.kernel.playbook import Add, Delta, Operation, Remove, Update, delta_of
from combee.redaction import find_secrets

LABELS = ["DebtInstrumentFaceAmount", "LineOfCredit", "InterestExpense", "Revenues", "OperatingLeaseCost"]
HELD_OUT = [
    HeldOut("t1", "48,213.77"),
    HeldOut("t2", "5"),
    HeldOut("t3", "DebtInstrumentFaceAmount,LineOfCredit"),
    HeldOut("t4", "the treaty of Tordesillas"),
    HeldOut("t5", "2019"),
    HeldOut("t6", "7", "How many bolts does the left flange of pump number nine need when it is cold?"),
    HeldOut("t7", "DebtInstrumentFaceAmount,LineOfCredit,InterestExpense,Revenues"),
]
INDEX = LeakIndex(HELD_OUT, known=LABELS)


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("For such bonds the answer is $48213.770.", ("t1",)),
        ("the answer is 48,213.77", ("t1",)),
        ("The answer is 148,213.77, or 48,213.775.", ()),
        ("Remember The Treaty of  Tordesillas!", ("t4",)),
        ("There are 5 steps in 2019; use DebtInstrumentFaceAmount, LineOfCredit for loans.", ()),
        ("DebtInstrumentFaceAmount, LineOfCredit, InterestExpense, Revenues in this order", ("t7",)),
        ("The left flange of pump number nine need when: 7", ("t6",)),
        ("The left flange of pump number nine need when: 8", ()),
        ("A pump needs 7 bolts", ()),
        ("", ()),
    ],
)
def test_what_counts_as_quoting_a_held_out_answer(text: str, tasks: tuple[str, ...]) -> None:
    assert INDEX.find(text) == tasks


@pytest.mark.parametrize(
    ("target", "is_distinctive"),
    [
        ("5", False),
        ("0.25", False),
        ("1000", False),
        ("100,000", False),
        ("1998", False),
        ("2,019", False),
        ("20.19", True),
        ("48213", True),
        ("yes", False),
        ("appropriately", False),
        ("EquityInstrument", True),
        ("ab12cd34", True),
        ("New York", False),
        ("the treaty of Tordesillas", True),
        ("", False),
        ("---", False),
        # Codes: letters with digits, capitals joined, capitals inside.
        ("LLAMA-2882", True),
        ("QX-71", True),
        ("zx81q", True),
        ("7b3f9", True),
        ("Unit B7-22", True),
        ("v2.10.3", True),
        ("CVE-2021-44228", True),
        ("GPT-4", True),
        ("iPhone", True),
        ("XK-QRZT", True),
        ("net_income", True),
        ("555-0199", True),
        ("10.0.0.1", True),
        ("北京大学附中", True),
        # Years, labels that are counted, amounts and plain words are none.
        ("FY2023", False),
        ("Q4-2023", False),
        ("2019-2020", False),
        ("2021-05-17", False),
        ("1960s", False),
        ("step-10", False),
        ("Type-2", False),
        ("COVID-19", False),
        ("100km", False),
        ("5-year", False),
        ("100th", False),
        ("$1.5M", False),
        ("401(k)", False),
        ("well-known", False),
        ("X-RAY", False),
        ("NASDAQ", False),
        ("未知", False),
    ],
)
def test_short_and_common_targets_are_not_distinctive(target: str, is_distinctive: bool) -> None:
    assert distinctive(target) is is_distinctive


@pytest.mark.parametrize(
    ("target", "text", "found"),
    [
        ("LLAMA-2882", "The code is llama-2882.", True),
        ("LLAMA-2882", "The code is `LLAMA2882`", True),
        ("LLAMA2882", "write LLAMA 2882", True),
        ("LLAMA-2882", "LLAMA-28821 or XLLAMA-2882", False),
        ("B7-0022", "It is b7 0022 there.", True),
        ("北京大学附中", "答案是北京大学附中。", True),
        ("Unit B7-22", "Look in unit B7-22 first.", True),
        ("Unit B7-22", "Look in the unit first.", False),
    ],
)
def test_a_code_is_found_however_it_is_written(target: str, text: str, found: bool) -> None:
    assert LeakIndex([HeldOut("t", target)]).find(text) == (("t",) if found else ())
    assert LeakIndex([HeldOut("t", target)], known=[target]).find(text) == ()
    assert LeakIndex([HeldOut("t", target)], seen=[f"In training: {target}."]).find(f"It is {target}.") == ()


def test_a_target_of_training_or_of_three_held_out_tasks_is_a_label() -> None:
    tasks = [HeldOut(f"t{i}", "IncomeTaxExpense2") for i in range(3)]
    assert LeakIndex(tasks).find("use IncomeTaxExpense2") == ()
    assert LeakIndex(tasks[:2]).find("use IncomeTaxExpense2") == ("t0",)
    assert LeakIndex(tasks[:2], known=["Revenues,IncomeTaxExpense2"]).find("use IncomeTaxExpense2") == ()


def test_instructions_that_questions_share_are_no_quotation() -> None:
    text = "Answer with a numerical answer with two decimal places and no other text"
    tasks = [HeldOut("a", "7", text), HeldOut("b", "8", text)]
    assert LeakIndex(tasks).find(f"{text}: 7") == ()
    assert LeakIndex(tasks[:1]).find(f"{text}: 7") == ("a",)
    assert LeakIndex(tasks[:1], seen=[f"Training: {text}."]).find(f"{text}: 7") == ()


def test_a_reflection_that_quotes_the_answer_is_not_learned() -> None:
    items = {"r1": "I should have said 48,213.77.", "r2": "Divide by the shares outstanding first."}
    delta = delta_of([Add("OTHERS", text, (item,)) for item, text in items.items()])
    kept, refused = screen(delta, INDEX)
    assert [op.sources for op in kept] == [("r2",)]
    assert refused[0][1] == "it quotes the held-out answer of t1"
    assert screen(delta, INDEX, allow_leaks=True) == (delta, ())


SECRETS = ["sk-abcdefgh1234567890ABCDEFGH", "AKIAABCDEFGHIJKLMNOP", "password=xK7qPz93mW4t", "ann@example.com"]


@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_are_found(secret: str) -> None:
    assert find_secrets(f"log in with {secret} first")


@pytest.mark.parametrize(
    "text",
    [
        "Pass: 12 of 14 checks",
        "password=get_password(user)",
        "the password is never shown",
        "PASS 1234567",
        "bypass: route66-a",
        "ask for [redacted:password]",
    ],
)
def test_talk_about_passwords_is_no_secret(text: str) -> None:
    assert find_secrets(text) == ()


def test_the_users_own_secrets_are_found_by_kind() -> None:
    assert find_secrets("ask for PROJ-7 first", {"project": r"PROJ-\d+"}) == ("project",)


@given(
    secret=st.sampled_from(SECRETS),
    before=st.text(max_size=20),
    after=st.text(max_size=20),
    kind=st.sampled_from(["add", "section", "update"]),
    allow=st.booleans(),
    attempt=st.integers(0, 3),
)
def test_no_verdict_ever_lets_a_secret_through(
    *, secret: str, before: str, after: str, kind: str, allow: bool, attempt: int
) -> None:
    text = f"{before} {secret} {after}"
    choices: dict[str, Operation] = {
        "add": Add("OTHERS", text, ("r1",)),
        "section": Add(text, "a fine lesson about 42 apples", ("r1",)),
        "update": Update("calc-00001", text, ("r1",)),
    }
    bad = choices[kind]
    items = {"r1": text, "r2": "use 1234 here"}
    seen = Evidence(
        0, items, Delta((bad, Add("OTHERS", "use 1234 here", ("r2",)), Remove("x", ("r2",)))), attempt=attempt
    )
    verdict = judge(seen, GuardState(), GuardLimits(allow_leaks=allow, find_secrets=find_secrets), index=INDEX)
    for operation in verdict.delta:
        said = f"{getattr(operation, 'section', '')} {getattr(operation, 'text', '')}"
        assert secret not in said
    assert not any(secret in reason for reason in verdict.reasons)


@given(st.text(max_size=60), st.text(max_size=30))
def test_any_text_can_be_looked_through(text: str, target: str) -> None:
    index = LeakIndex([HeldOut("t", target, text)])
    assert index.find(text) in {(), ("t",)}
    if distinctive(target):
        assert index.find(f"so: {target} .") == ("t",)


@pytest.mark.parametrize("shown", ["Zorgon\u200bTax12", "ＺｏｒｇｏｎＴａｘ１２", "zorgontax12", "Zorgon\u00adTax12"])
def test_a_target_is_found_in_any_form_that_reads_the_same(shown: str) -> None:
    index = LeakIndex([HeldOut("t1", "ZorgonTax12")])
    assert index.find(f"The answer is {shown}, always.") == ("t1",)
