"""What of a model's text is its answer: thoughts are taken out, refusals and errors told as answers are recognised.

Thinking comes in many spellings (`<think>`, `[THINK]`, `◁think▷`, harmony channels, ...), without its opening tag where
the chat template wrote it, or without an end where the reply was cut.
"""

from __future__ import annotations

import json
import re
from typing import Any

from combee.errors import CallError, CallErrorKind

_NAME = r"(?:\w+[:_])?(?:think(?:ing)?|thoughts?|reasoning|scratchpad|inner_monologue|cot)"
_TAG = (
    rf"<{_NAME}(?:\s[^<>]*)?>|\[THINK(?:ING)?\]|◁think▷|<unused94>|"
    r"<\|(?:start|begin)_(?:of_)?(?:thinking|thought)\|>"
)
_END = rf"</{_NAME}\s*>|\[/THINK(?:ING)?\]|◁/think▷|<unused95>|<\|end_(?:of_)?(?:thinking|thought)\|>"
_OPEN = re.compile(_TAG, re.IGNORECASE)
_CLOSE = re.compile(rf"(?<!['\"])(?:(?<!`)|(?<=```))(?:{_END})", re.IGNORECASE)
_LATER = re.compile(rf"(?<=\n)[ \t]*(?:{_TAG}).*?(?:{_END}|\Z)\s*", re.IGNORECASE | re.DOTALL)
_MARKS = ("think", "thought", "reasoning", "scratchpad", "monologue", "cot>", "<unused9", "channel")
_CHANNEL = re.compile(
    r"<\|channel\|>\s*(\w+)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>(.*?)"
    r"(?=<\|(?:end|return|call|start|channel)\|>|\Z)",
    re.DOTALL,
)
_CHANNEL_OF_GEMMA = re.compile(r"\A\s*<\|channel>thought\b.*?(?:<channel\|>|\Z)", re.DOTALL)
_CHANNEL_WITHOUT_MARKS = re.compile(r"\A\s*analysis(?=[A-Z\s]).*?assistant\s?final\s*", re.DOTALL)


# What some servers leave of a model's end of turn, and what it then made up of the next one.
_TURN = re.compile(
    r"\s*(?:<\|(?:im_end|eot_id|eom_id|endoftext|end_of_text|end_of_turn)\|>|<end_of_turn>|<｜end▁of▁sentence｜>)+"
    r"(?:\s*\Z|\s*(?:<\|(?:im_start|start_header_id)\|>|<start_of_turn>).*\Z)",
    re.DOTALL,
)


def strip_thinking(text: str) -> str:
    """Return the answer without thinking and marks of its end; "" where nothing else was said.

    A tag inside a sentence is part of the answer, which may speak of tags.
    """
    if "|>" in text or "_turn>" in text or "｜>" in text:
        text = _TURN.sub("", text)
    if not _may_think(text):  # the usual case, and quick
        return text
    if "<|channel|>" in text:
        return "".join(said for name, said in _CHANNEL.findall(text) if name == "final").strip()
    text = _CHANNEL_WITHOUT_MARKS.sub("", _CHANNEL_OF_GEMMA.sub("", text))
    text = _without_first(text)
    for block in reversed(list(_LATER.finditer(text))):
        if text.count("```", 0, block.start()) % 2 == 0:  # not an example of such a tag
            text = text[: block.start()] + text[block.end() :]
    return text


def _may_think(text: str) -> bool:
    """Whether a text may hold thinking: looked for without patterns, since this is done for each reply."""
    if "<" in text:
        lowered = text.lower()
        if any(mark in lowered for mark in _MARKS):
            return True
    return (
        "[THINK" in text
        or "[/THINK" in text
        or "◁" in text
        or "[think" in text
        or text[:40].lstrip().startswith("analysis")
    )


def _without_first(text: str) -> str:
    """Return the text behind the thinking that it begins with, also where only the end of that was sent."""
    while True:
        opened, closed = _OPEN.search(text), _CLOSE.search(text)
        first = opened is not None and not text[: opened.start()].strip()
        if closed is None:
            return "" if first else text
        if not first and opened is not None and opened.start() < closed.start():
            return text  # a tag that is opened after real text is part of the answer, not thinking
        if not first and text.lstrip()[:1] in {"{", "["}:
            return text  # the tag stands in a text of the object
        text = text[closed.end() :].lstrip()


_STATUS = (
    r"(?:\w+ Error|Too Many Requests|Service (?:Temporarily )?Unavailable|Bad Gateway|Gateway Time-?out|Overloaded|"
    r"Unauthorized|Forbidden|Payment Required)"
)
_SURE_ERRORS = re.compile(
    r"\s*(?:"
    + "|".join((
        r"API Error: \d{3}\b",
        r"upstream connect error or disconnect",
        r"\[?(?:(?:HTTP|API|Server|Request|Upstream|Provider|Stream) )?Error\]?:? ?(?:code|status):? [45]\d\d\b",
        r"(?:litellm|openai|anthropic|groq|httpx|requests|aiohttp|google)\.[\w.]*(?:Error|Exception|Timeout): ",
        r"(?:\w+\.)*(?:RateLimit|API\w*|InternalServer|ServiceUnavailable|BadRequest|Authentication)Error: ",
        r"Request failed with status(?: code)? \d{3}",
    ))
    + ")",
    re.IGNORECASE,
)  # fmt: skip
_LIKELY_ERRORS = re.compile(
    r"\s*(?:"
    + "|".join((
        rf"(?:HTTP(?:/\d(?:\.\d)?)? )?(?:Error:? )?[45]\d\d:? {_STATUS}\b",
        r"(?:Internal Server Error|Bad Gateway|Service (?:Temporarily )?Unavailable|Gateway Time-?out)\.?\s*\Z",
        r"Too Many Requests\.?\s*\Z",
        r"(?:The )?(?:model|server|engine|service) is (?:\w+ly )?(?:overloaded|at capacity|unavailable)",
        r"(?:Error: )?Rate limit (?:reached|exceeded)\b",
        r"(?:You (?:have )?exceeded|Quota exceeded for) .{0,40}(?:quota|rate|limit|metric)",
        r"An? (?:\w+ )?error (?:has )?occurred (?:while|during|when) (?:processing|generating|calling)",
    ))
    + ")",
    re.IGNORECASE,
)  # fmt: skip
_LONGEST = 600  # characters of an error or a refusal that is a whole text
_ERROR_KEYS = {"error", "code", "type", "message", "status", "param", "request_id", "detail", "object", "user_id"}


def is_error_text(text: str, *, generated: bool = False) -> bool:
    """Whether a whole text is an error of a proxy or a provider, served as if the model had said it.

    Where the endpoint counts tokens that were `generated`, a text that may be the right answer to a question about
    errors ("429 Too Many Requests") is one.
    """
    if len(text) >= _LONGEST:
        return False
    if _SURE_ERRORS.match(text) or (not generated and _LIKELY_ERRORS.match(text)):
        return True
    if not text.lstrip().startswith("{") or '"error"' not in text:
        return False
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and bool(data.get("error")) and set(data) <= _ERROR_KEYS


_SORRY = (
    r"(?:(?:(?:i['’]?m|i am|we['’]?re|we are) )?(?:really |very |so |truly )?sorry|i apologi[sz]e|apologies|"
    r"unfortunately|regrettably)[^.!\n]{0,30}[,.!:;—–-]* ?(?:but |however,? )?"
)
_CANNOT = (
    r"(?:can(?:not|['’]?t| not)|could(?: not|n['’]t)|won['’]?t|will not|must not|(?:['’]m|am) (?:not able|unable)|"
    r"(?:['’]m|am) not (?:comfortable|permitted|allowed)|(?:must|have to|need to) (?:decline|refuse)|would rather not)"
)
_DO_IT = (
    r"(?:help|assist|comply|fulfil|do that|provide|answer (?:that|this|your)|discuss|continue with|create|generate|"
    r"write|produce|engage|support|share|process|complete|to do (?:that|this)|request)"
)
_REFUSALS = re.compile(
    r"[\s\"“*_]*(?:"
    + "|".join((
        rf"(?:{_SORRY})?(?:i|we) ?{_CANNOT}\b.{{0,60}}?\b{_DO_IT}",
        r"(?:i|we) would rather not\b",
        rf"{_SORRY}(?:this|that|your) (?:request|content|prompt|question)\b",
        rf"as an? (?:ai|large language|language)\b.{{0,40}}\b{_CANNOT}",
        r"(?:(?:es )?tut mir leid|entschuldigung|leider)\b.{0,60}\b(?:kann|darf|werde) .{0,60}\b(?:nicht|keine)",
        r"(?:dabei|das|hierbei) kann ich .{0,30}\bnicht\b",
        r"ich kann .{0,60}\bnicht (?:helfen|beantworten|erfüllen|unterstützen|weiterhelfen)",
        r"(?:je suis désolée?|désolée?|je regrette|malheureusement)\b.{0,60}\b(?:peux|puis|impossible)",
        r"je ne (?:peux|puis) pas (?:vous |t['’])?(?:aider|répondre|fournir|faire|satisfaire)",
        r"(?:lo siento|lo lamento|disculpa|lamentablemente)\b.{0,60}\bno\b.{0,20}\bpued",
        r"no puedo (?:ayudar|cumplir|proporcionar|responder|hacer)",
        r"(?:desculpe|sinto muito|lamento|infelizmente)\b.{0,60}\bn[ãa]o\b.{0,20}\bpo(?:sso|demos)",
        r"n[ãa]o posso (?:ajudar|atender|fornecer|responder)",
        r"(?:mi dispiace|purtroppo)\b.{0,60}\bnon\b.{0,20}\bpo(?:sso|ssiamo)",
        r"(?:het spijt me|helaas)\b.{0,60}\bkan\b.{0,60}\bniet\b",
        r"(?:przepraszam|przykro mi|niestety)\b.{0,60}\bnie (?:mog|jestem)",
        r"(?:üzgünüm|maalesef)\b",
        r"(?:извините|простите|к сожалению).{0,60}\bне\b|я не могу (?:помочь|выполнить|ответить|предоставить)",
        r"(?:很抱歉|非常抱歉|抱歉|对不起|對不起).{0,30}(?:无法|無法|不能|不可以|不便)",
        r"(?:作为.{0,12})?我(?:无法|無法|不能)(?:满足|提供|回答|协助|協助|帮助|幫助|完成|继续|處理|处理)",
        r"(?:申し訳|すみません|ごめんなさい|恐れ入りますが).{0,60}(?:できません|できかねます|お答え|お手伝い|対応)",
        r"(?:죄송|미안).{0,60}(?:없|못|어렵)",
        r"(?:क्षमा|माफ).{0,60}(?:नहीं|असमर्थ)",
        r"(?:عذر|آسف|أعتذر).{0,60}(?:لا |لن )|لا (?:أستطيع|يمكنني) (?:مساعد|تقديم|الإجابة)",
    ))
    + ")",
    re.IGNORECASE | re.DOTALL,
)  # fmt: skip


def is_refusal(text: str) -> bool:
    """Whether a whole text only says that the model will not do it, in any of the languages known here."""
    said = " ".join(text[: 2 * _LONGEST].split())
    return 0 < len(said) < _LONGEST and _REFUSALS.match(said) is not None


def why_refused(text: str) -> CallError | None:
    """Return the error of an answer that is a refusal; None where it is an answer."""
    if not is_refusal(text):
        return None
    return CallError(f"the model refused: {' '.join(text.split())[:160]!r}", kind=CallErrorKind.CONTENT_FILTER)


def why_unusable(text: str) -> CallError | None:
    """Return the error of a text that is meant as a lesson or an instruction and is a refusal or an error."""
    if is_error_text(text):
        said = " ".join(text.split())[:160]
        return CallError(f"an error stands where the text should: {said!r}", kind=CallErrorKind.ERROR_IN_BODY)
    return why_refused(text)
