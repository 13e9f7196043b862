"""Only what a model answers counts: no thoughts in any markup, no refusal, no error that a proxy put in its mouth."""

from __future__ import annotations

import pytest

from combee.model.answer_text import is_error_text, is_refusal, strip_thinking, why_unusable


@pytest.mark.parametrize(
    "text",
    [
        "<think>hm</think>42", "<think>\nhm\n</think>\n\n42", "hm</think>42", "<THINK>hm</THINK> 42",
        "<thinking>hm</thinking>42", "<thought>hm</thought>42", "<thoughts>hm</thoughts>42",
        "<reasoning>hm</reasoning>\n42", '<think time="3">hm</think>42', "[THINK]hm[/THINK]42", "hm[/THINK]42",
        "◁think▷hm◁/think▷42", "hm◁/think▷42", "<seed:think>hm</seed:think>42", "<scratchpad>hm</scratchpad>42",
        "<|begin_of_thought|>hm<|end_of_thought|>42", "<|START_THINKING|>hm<|END_THINKING|>42",
        "<unused94>hm<unused95>42",
        "<think>a</think><think>b</think>42", "<think>a</think>\n<thinking>b</thinking>\n42",
        "<think>uses ``` and ```</think>42", "<think>hm</think>42\n<think>was that right?</think>",
        "<think>hm</think>42\n<think>and it never ends", "42\n<thinking>hm</thinking>",
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>42",
        "<|start|>assistant<|channel|>final<|message|>42<|return|>",
        "<|channel|>commentary<|message|>hm<|end|><|channel|>final <|constrain|>json<|message|>42",
        "analysisWe need 42. No more.assistantfinal42", "analysis We think.\nassistant final 42",
        "<|channel>thought\nhm<channel|>42",
        "42<|im_end|>", "42 <|eot_id|>\n", "42<end_of_turn>\n<start_of_turn>user\nwhy?", "42<|endoftext|><|endoftext|>",
        "<think>hm</think>42<|im_end|>\n<|im_start|>user\nand?<|im_end|>", "42<｜end▁of▁sentence｜>",
    ],
)  # fmt: skip
def test_thoughts_in_any_markup_are_no_part_of_the_answer(text: str) -> None:
    assert strip_thinking(text).strip() == "42"


@pytest.mark.parametrize(
    "text",
    [
        "<think>hm",
        "  <thinking>never ends",
        "[THINK]hm",
        "<|channel|>analysis<|message|>We need",
        "◁think▷hm",
        "hm</think>",
    ],
)
def test_thoughts_alone_are_no_answer(text: str) -> None:
    assert strip_thinking(text).strip() == ""


@pytest.mark.parametrize(
    "text",
    [
        "Write <think>x</think> so.", "Close it with `</think>` at the end.",
        '{"reasoning": "a</think>b", "answer": 1}',
        "I think so.", "analysis of variance: 42", "Wrap it:\n```xml\n<think>\nx\n</think>\n```\nDone.",
        "Use the reasoning of chapter 3.", "plain",
    ],
)  # fmt: skip
def test_an_answer_that_speaks_of_thinking_is_left_alone(text: str) -> None:
    assert strip_thinking(text) == text


REFUSALS = """
I'm sorry, but I can't assist with that request.
I’m sorry, but I can’t help with that.
I cannot fulfill this.
I am unable to provide that information.
Unfortunately, I can't comply with this request.
I apologize, but I cannot generate that.
As an AI language model, I cannot give opinions.
I must decline to write this.
I'm not able to help with that.
I would rather not.
Sorry, I can't do that.
Es tut mir leid, aber ich kann dabei nicht helfen.
Leider kann ich diese Anfrage nicht beantworten.
Je suis désolé, mais je ne peux pas vous aider.
Désolée, je ne peux pas répondre à cette demande.
Lo siento, no puedo ayudar con eso.
No puedo cumplir con esa solicitud.
Desculpe, não posso ajudar com isso.
Mi dispiace, non posso aiutarti.
Het spijt me, daar kan ik niet mee helpen.
Przykro mi, nie mogę pomóc.
Извините, я не могу помочь с этим.
К сожалению, я не могу выполнить этот запрос.
很抱歉，我无法满足您的请求。
抱歉,我不能协助处理此内容。
對不起，我無法提供這個。
申し訳ありませんが、お答えできません。
죄송하지만 도와드릴 수 없습니다.
Üzgünüm, bu konuda yardımcı olamam.
क्षमा करें, मैं इसमें मदद नहीं कर सकता।
عذراً، لا أستطيع مساعدتك في ذلك.
"""


@pytest.mark.parametrize("text", REFUSALS.strip().splitlines())
def test_refusals_are_known_in_several_languages(text: str) -> None:
    assert is_refusal(text)
    assert why_unusable(text)


@pytest.mark.parametrize(
    "text",
    [
        "42", "No", "Unfortunately, revenue fell by 3 %.", "I don't have enough information to answer.",
        "Apologize to the customer before you offer a refund.",
        "The agent said sorry, but cannot refund after 30 days.",
        "Never tell a customer that you cannot help: name the next step.", "无法计算时写 N/A", "Leider falsch: 42",
        "Sorry, the answer is 42.", "I can help with that: use units.", "When asked to help, cannot is no answer.",
        "I'm sorry, but I can't assist with that. " + "Still, here is how it is done, step by step. " * 20,
    ],
)  # fmt: skip
def test_an_answer_is_no_refusal(text: str) -> None:
    assert why_unusable(text) is None


ERRORS = """
API Error: 529 overloaded
Error code: 429 - {'error': {'message': 'slow down'}}
HTTP 503 Service Unavailable
503 Service Temporarily Unavailable
429 Too Many Requests
Internal Server Error
HTTP/1.1 502 Bad Gateway
litellm.RateLimitError: GroqException - slow down
openai.BadRequestError: Error code: 400
RateLimitError: x
Request failed with status code 500
The server is currently overloaded. Please try again.
[Error] status: 500
Rate limit exceeded, please try again later
An error occurred while processing your request.
You exceeded your current quota, please check your plan.
{"error": {"message": "slow down", "code": 429}}
{"error": "model not loaded"}
upstream connect error or disconnect/reset before headers
"""


@pytest.mark.parametrize("text", ERRORS.strip().splitlines())
def test_an_error_in_the_mouth_of_the_model_is_an_error(text: str) -> None:
    assert is_error_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "Error handling: retry at 429, and wait when overloaded.", "On 429 Too Many Requests wait for Retry-After.",
        "Error: division by zero", '{"error": "the total is wrong", "answer": 42}', '{"error_identification": "none"}',
        "Internal Server Error means that the server failed, so retry.", "503", "Rate limits: keep under 5 a second.",
    ],
)  # fmt: skip
def test_an_answer_about_errors_is_no_error(text: str) -> None:
    assert not is_error_text(text)


@pytest.mark.parametrize("text", ["429 Too Many Requests", "Internal Server Error", "openai.RateLimitError"])
def test_a_text_that_was_generated_may_name_an_error(text: str) -> None:
    assert not is_error_text(text, generated=True)
    assert is_error_text("API Error: 529 overloaded", generated=True)
