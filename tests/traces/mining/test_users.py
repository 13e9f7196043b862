"""Who the user of a run is, and what of his words is learned: a developer's corrections, and nobody else's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from combee.redaction import Step, ToolCall, Trace
from combee.traces.mining import survey, users_of, what_users_said
from tests.traces.mining.runs import lessons, recorded

SUPPORT = "You are a customer service agent of an airline. Follow the policy. You may transfer to a human agent."


def developer(*turns: str, name: str = "t1") -> Trace:
    """Return a coding session: two calls, then what the user says."""
    run = recorded(("git status", "clean", 0), ("npm install", "added 3 packages", 0), name=name)
    steps = [*run.steps]
    for turn in turns:
        steps.append(Step(len(steps), "user", turn))
        steps.append(Step(len(steps), "assistant", "ok"))
    return replace(run, steps=tuple(steps))


def customer(*turns: str, calls: tuple[tuple[str, str, str], ...] = (), name: str = "t1") -> Trace:
    """Return a conversation with a service desk."""
    steps = [
        Step(0, "system", SUPPORT),
        Step(1, "user", "Hi, I want to change my reservation."),
        Step(2, "assistant", "Sure?"),
    ]
    for number, (tool, arguments, answer) in enumerate(calls):
        steps.append(Step(len(steps), "assistant", "", (ToolCall(f"{name}{number}", tool, arguments),)))
        failed = answer.startswith("Error")
        steps.append(Step(len(steps), "tool", answer, answers=f"{name}{number}", is_error=failed))
    for turn in turns:
        steps += [Step(len(steps), "user", turn), Step(len(steps) + 1, "assistant", "I see.")]
    return Trace(name, "change my reservation", tuple(steps))


CORRECTIONS = {
    "en": (
        "No, use pnpm instead of npm in this repository",
        "we never mock the database here",
        "No emojis in our release notes, we never use them",
        "No, always write headings in sentence case",
        "Don't edit the generated files",
        "in this repo the tests go in tests/unit, not next to the code",
        "I'd rather you didn't touch the lock file",
        "that's not what I asked for: only rename the class",
        "our convention is snake_case for config keys",
        "please run make fmt before you commit",
        "You forgot to update the changelog",
        "this project uses poetry, so no pip install",
        "Next time keep the public signature as it is",
        "there is no need to add a new dependency for that",
        "We already have a retry helper in utils/http.py",
        "Stop. You keep reformatting files that have nothing to do with this.",
        "The helper belongs in lib/, and should not import the app",
    ),
    "de": (
        "Nein, nimm pnpm statt npm",
        "nicht die Tests ändern, bitte erst make fmt laufen lassen",
        "Wir mocken die Datenbank hier nie",
        "Das ist falsch, die Datei gehört nach src/",
        "Bitte nicht die generierten Dateien anfassen",
        "Bei uns heißen die Zweige feature/NAME",
        "du hast das Changelog vergessen",
        "Ich meinte nur die Klasse, nicht die Datei",
    ),
    "fr": (
        "Non, utilise pnpm au lieu de npm",
        "ne modifie pas les tests, lance d'abord make fmt",
        "ici on ne simule jamais la base de données",
        "Ce n'est pas ça : renomme seulement la classe",
        "tu as oublié de mettre à jour le changelog",
    ),
    "es": (
        "No, usa pnpm en lugar de npm",
        "no modifiques los tests, primero ejecuta make fmt",
        "aquí nunca usamos mocks de la base de datos",
        "Eso está mal, el archivo va en src/",
        "olvidaste actualizar el changelog",
    ),
    "zh": (
        "不要改测试，先跑 make fmt",
        "不对，应该用 pnpm 而不是 npm",
        "我们这里从不 mock 数据库",
        "别动生成的文件",
        "我说的是只改类名",
        "这个项目统一用 poetry",
    ),
    "ja": (
        "違います、npmではなくpnpmを使ってください",
        "テストを変えないで、先にmake fmtを実行して",
        "ここではデータベースをモックしません",
        "生成されたファイルは触らないでください",
    ),
}
OTHERS = (
    "Thanks, that looks good",
    "No, that's all for now. Thanks for your help!",
    "great, now add a test for the parser",
    "Can you also update the README?",
    "Nein, das war alles, danke!",
    "gracias, eso es todo",
    "谢谢，就这些",
    "ありがとう、以上です",
    "ok, continue",
    "What does this function do?",
    "<returncode>1</returncode> no, that is wrong",
    "[message] bob to lead: no, use the other branch",
    "Each paragraph should be twice longer",
    "No, make the title red",
    "Nein, die Überschrift bitte größer",
    "不对，标题应该用红色",
    "run subagent to count swift files in this repo",
    "plan counting all html files in this repo",
)


@pytest.mark.parametrize("language", CORRECTIONS)
def test_a_developers_corrections_are_quoted_in_every_language(language: str) -> None:
    missed = [said for said in CORRECTIONS[language] if f"`{said}`" not in str(lessons(developer(said)))]
    assert missed == []


@pytest.mark.parametrize("said", OTHERS)
def test_a_goodbye_a_question_or_a_new_wish_is_no_correction(said: str) -> None:
    assert lessons(developer(said)) == []


@pytest.mark.parametrize(
    "said",
    [
        "No, that's all for now. Thanks for your help!",
        "As a silver member, I should be getting a full refund regardless of the insurance.",
        "Actually, I booked the flight just 10 hours ago, so it should still be within the window.",
        "No, I don't want to be transferred. Use my gift card instead of my credit card.",
        "The refund should be sent to my original payment method, not a gift card.",
        "I told you that members never pay for bags",
    ],
)
def test_what_a_customer_says_is_neither_correction_nor_policy(said: str) -> None:
    run = customer(said)
    assert users_of(run) == "customers"
    assert lessons(run) == []
    assert what_users_said(run, "customers").unjudged == []


def test_who_the_user_is_can_be_given() -> None:
    run = customer("No, always quote the fare before you book")
    assert survey([run], "developers").support() == {
        "The user corrected the agent: `No, always quote the fare before you book`": 1
    }
    assert survey([developer("No, use pnpm")], "customers").support() == {}
    assert survey([developer("No, use pnpm")], "graders").support() == {}


def test_who_the_user_is_by_the_run() -> None:
    assert users_of(developer("No, use pnpm")) == "developers"
    assert users_of(replace(developer("x"), meta={"format": "terminal_bench"})) == "graders"
    plain = Trace(
        "t", "hi", (Step(0, "user", "hi"), Step(1, "assistant", "hello"), Step(2, "user", "No, not like that"))
    )
    assert users_of(plain) == "customers"  # who cannot be told to be a developer is none
    code = replace(plain, steps=(*plain.steps, Step(3, "user", "put it in src/app.py and run the unit tests")))
    assert users_of(code) == "developers"


def test_what_code_cannot_judge_is_counted() -> None:
    odd = "hmm the second variant reads nicer to me"
    assert what_users_said(developer(odd), "developers").unjudged == [5]
    assert what_users_said(developer(odd), "customers").unjudged == []
    assert lessons(developer(odd)) == []


def test_a_tool_lesson_names_no_card_order_or_flight() -> None:
    def call(card: str) -> str:
        return f'{{"reservation_id": "4WQ150", "payment_id": "{card}"}}'

    refused = "Error: certificate cannot be used to update reservation"
    tool = "update_reservation_flights"
    run = customer(calls=((tool, call("certificate_7504069"), refused), (tool, call("gift_card_5634230"), "done")))
    ((kind, text),) = lessons(run)
    assert kind == "repair"
    assert text == (
        f"The tool `{tool}` failed with `{refused}`; it worked when `payment_id` was `gift_card_…` instead of "
        "`certificate_…`."
    )
    poor = "Error: not enough balance in payment method gift_card_5094406"
    other = customer(calls=((tool, call("gift_card_5094406"), poor), (tool, call("gift_card_8190333"), "done")))
    assert lessons(other) == []  # one card instead of another says nothing of any other customer
    missing = "Error: payment method not found"
    other = customer(calls=((tool, call("credit_card_5634230"), missing), (tool, call("gift_card_8190333"), "done")))
    assert lessons(other) == []  # the error is not about the kind of card


def test_a_rule_that_a_tool_states_in_three_runs_is_a_lesson_without_the_sums() -> None:
    def run(name: str, total: int) -> Trace:
        said = f"Error: payment amount does not add up, total price is {total}, but paid {total - 50}"
        return customer(calls=(("book_reservation", '{"flights": ["HAT223"]}', said),), name=name)

    runs = [run("a", 305), run("b", 375), run("c", 1002)]
    assert survey(runs).support() == {
        "The tool `book_reservation` refused calls with `Error: payment amount does not add up, total price is N, but "
        "paid N` in run after run.": 3
    }
    assert survey(runs[:2]).support() == {}


def test_a_message_of_a_peer_is_never_a_correction() -> None:
    run = developer("x")
    peer = replace(run, steps=(*run.steps, Step(9, "user", "No, use the other branch instead", agent="bob")))
    assert lessons(peer) == []
