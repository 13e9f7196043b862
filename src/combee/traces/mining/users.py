"""Who the user of a run is, and what a developer set right in it.

A developer's words about the work are worth learning. A customer's are claims and wishes, and a grader's or harness's
are the same in every run: neither is quoted. Who speaks is judged by the run (the agent's tools, the setting, how the
user speaks) unless it is given. What code alone cannot tell to be a correction or not is counted, for a model to judge.
"""

# ruff: noqa: E501 - lists of words are read language by language, not by width

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from combee.redaction import Step, Trace
from combee.redaction.orders import KINDS, names_a_place, orders
from combee.traces.mining.faults import signature
from combee.traces.mining.lesson import HeldBack, MinedLesson, first_words
from combee.traces.mining.quoting import quoted

Users = Literal["developers", "customers", "graders"]
USERS: tuple[Users, ...] = get_args(Users)

_WORKSHOP = re.compile(
    r"(?:.*[._/-])?(?:bash|shell|terminal|exec\w*|run_\w*|command\w*|cmd|computer_terminal|apply_patch|str_replace\w*|edit\w*|write\w*|"
    r"create_file|read(?:_?file)?|view|open|grep|glob|ls|search_(?:dir|file)|notebook\w*|multiedit|cell|python|ipython\w*|git\w*|pytest|"
    r"swe_agent_action|submit|todo\w*|local_shell)(?:[._/-].*)?\Z",
    re.IGNORECASE,
)
_GRADED = frozenset({"harbor", "terminal_bench", "swe_agent", "mini_swe_agent", "inspect_ai", "swarm"})
_SERVICE = re.compile(
    r"\b(?:customer (?:service|support|care)|support agent|service agent|call cent(?:er|re)|help ?desk agent|concierge|"
    r"human agent|transfer to (?:a )?human|loyalty|refunds?|reservations?|bookings?|orders? (?:id|number)|membership|"
    r"kundenservice|kundendienst|atención al cliente|service client|客服)\b|客服|客户服务",
    re.IGNORECASE,
)
_CUSTOMER = re.compile(
    r"\bmy (?:order|reservation|flight|booking|account|card|refund|ticket|subscription|package|delivery|bill|invoice|membership|user "
    r"id|profile|phone|line|plan|trip|insurance|payment)\b|###STOP###|\b(?:i(?:'d| would) like to|i want to) (?:return|exchange|"
    r"cancel|book|change my|buy|order|speak)|\bmein(?:e|en|er)? (?:bestellung|buchung|flug|konto|rechnung)\b|"
    r"\bmi (?:pedido|reserva|vuelo|cuenta|tarjeta)\b|\bma (?:commande|réservation|carte)\b|我的(?:订单|预订|航班|账户|账号|卡|退款)",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"`[^`]+`|\b[\w/-]+\.(?:py|js|ts|tsx|go|rs|java|c|h|cpp|rb|php|sh|toml|json|ya?ml|md|sql|css|html)\b|\b(?:repo(?:sitory)?|commit|branch|"
    r"pull request|merge|refactor|unit tests?|test suite|function|class|module|compile|lint|typescript|python|docker|npm|pip|stack ?trace|"
    r"traceback|endpoint|config|codebase|linter|formatter|code|files?|folder|directory|script|variable|tests?|makefile|build|database|api|deploy|schema|migration)\b|代码|函数|测试|编译|仓库|"
    r"分支|提交|テスト|コード|リポジトリ",
    re.IGNORECASE,
)
_LONGEST, _SHORTEST = 300, 4
_MOST_READ = 40

_SETS_RIGHT = re.compile(
    # English
    r"^(?:no\b[,.!—-]|nope\b|nah\b|wrong\b|not like (?:that|this)\b|stop\b|don'?t\b|do not\b|please (?:don'?t|do not|stop|keep|never|always)\b|"
    r"i (?:said|asked|meant|told|wanted)\b|undo\b|revert\b|why (?:did|are|do|would) you\b|you (?:forgot|missed|broke|keep|ignored|"
    r"should(?:n't| not)? (?:have|be|not)|were (?:supposed|meant))|instead[, ]|(?:please )?(?:use|run|put|keep|call|write|add|name|place|move) "
    r".{1,80}\b(?:instead|not|rather than|and not)\b|let'?s (?:not|keep|use|stick)|never\b|always\b|remember (?:to|that)\b|make sure\b|"
    r"it (?:still )?(?:fails|doesn'?t work|does not work|is (?:still )?(?:broken|wrong))|hmm+,? (?:no|that|this))|"
    r"\bthat(?:'s| is| was) (?:not (?:right|what|how|correct|it)|wrong|incorrect|the wrong)|\bnot what i (?:asked|meant|wanted)|"
    r"\b(?:instead of|rather than|should (?:be|have been|go|live|not|never|always)|shouldn'?t) .{2,}|"
    r"\bwe (?:never|always|don'?t|do not|only|usually|normally|prefer|use|keep|put|write|name|run|pin|mock|commit|format)\b.{2,}|"
    r"\bthis (?:repo\w*|project|codebase) (?:uses|has|expects|requires|wants)|"
    r"\bour (?:convention|style|rule|policy|standard|practice|team)\b|\bthe (?:convention|rule|style) (?:here|is)\b|"
    r"\bi(?:'d| would) (?:rather|prefer|have expected)\b|\bi prefer\b|\bfrom now on\b|\bnext time\b|\bin (?:the )?future\b|"
    r"\b(?:no|without any) need (?:to|for)\b|\bwe already have\b|\bbelongs? (?:in|to|under)\b|\b(?:could|can) (?:you|we) (?:not|please not)\b|"
    r"\bas i (?:said|mentioned)\b|\bi(?:'d| would)? (?:really )?(?:appreciate|like) it if you (?:didn'?t|did not|kept|used|wouldn'?t)\b|"
    r"\bmust (?:not|never|always)\b|\bplease (?:use|run) .{1,60}\b(?:first|before|for (?:this|that|it))\b|"
    r"\b(?:run|use|call|do|write|add) .{1,60}\b(?:first|before (?:you|that|any|each|every|committing|pushing))\b|"
    # German
    r"^(?:nein\b|nicht so\b|falsch\b|stopp?\b|halt\b|doch nicht\b|bitte (?:nicht|kein\w*|nie|immer|nur)\b|ändere? nicht|mach das (?:nicht|rückgängig)|"
    r"lass (?:das|die)\b|nie(?:mals)?\b|immer\b|so nicht\b)|\b(?:das (?:ist|war) (?:falsch|nicht)|stimmt (?:so )?nicht|stattdessen|statt(?: dessen| "
    r"\w+)|anstatt|anstelle|sondern|lieber|bei uns|wir (?:nutzen|verwenden|benutzen|mocken|committen|schreiben|testen|machen|nehmen|haben)\b"
    r".{0,40}\b(?:nie|niemals|immer|hier|kein\w*|nicht|nur)|in diesem (?:projekt|repo\w*)|du (?:hast|solltest|sollst) .{0,40}(?:vergessen|nicht|übersehen|"
    r"erst|zuerst)|ich (?:sagte|meinte|wollte|hatte gesagt)|(?:erst|zuerst) .{1,60}(?:ausführen|laufen|lassen|dann)|nicht (?:die|den|das|der) .{1,60}"
    r"(?:ändern|anfassen|löschen|bearbeiten))\b|"
    # French
    r"^(?:non\b|pas comme ça|arrête\b|n['e]\s?\w+|annule\b|jamais\b|toujours\b|stp,? (?:ne|n')|merci de ne pas)|\b(?:c'est faux|ce n'est pas|"
    r"ça ne va pas|plutôt|au lieu d|il ne faut (?:pas|jamais)|il faut (?:d'abord|toujours)|(?:ici|chez nous),? on|on (?:n'|ne )\w+ (?:pas|jamais|que)|"
    r"on (?:utilise|lance|écrit|met|garde) (?:toujours|ici|d'abord)|tu (?:as oublié|aurais dû|ne dois pas|dois d'abord)|j'ai dit|je voulais|je préfère|"
    r"dans ce (?:projet|dépôt)|d'abord)\b|"
    # Spanish and Portuguese
    r"^(?:no,|no\s+(?:uses?|modifiques?|toques?|cambies?|hagas?|borres?|mockees|edites?|añadas?|lo)\b|así no\b|para\b[,!.]|nunca\b|siempre\b|revierte\b|"
    r"deshaz\b|não\b)|\b(?:está mal|eso no (?:es|está)|incorrecto|en (?:lugar|vez) de|mejor (?:usa|utiliza|haz|pon)|aquí (?:usamos|nunca|siempre|no|se)|"
    r"nunca (?:usamos|se|hacemos|simulamos|mockeamos)|siempre (?:usamos|se|ejecutamos)|olvidaste|te (?:dije|pedí)|dije que|quería que|preferimos|prefiero|"
    r"en este (?:proyecto|repositorio|repo)|primero (?:ejecuta|corre|haz|lanza)|no (?:debes|deberías|hace falta)|em vez de|neste projeto)\b|"
    # Chinese
    r"^(?:不对|不是|错了|错误|别|不要|不用|不能|停|住手|先别|请不要|请勿|又错|还是不对)|不要(?:改|动|用|删|加|直接|再|mock|提交|修改|使用)|别(?:改|动|用|删|再|直接)|"
    r"而不是|应该(?:是|用|先|放)|不应该|不该|改成|换成|用.{1,30}(?:不要用|别用|代替)|我(?:说|要|想要|指)的是|我们(?:这里|从不|从来|一直|都|统一|项目|只|不)|"
    r"先(?:跑|运行|执行|做|写|用).{1,40}|(?:撤销|还原|回滚|退回)|统一(?:用|使用)|必须(?:先|用|使用)|下次|以后(?:都|请|要|不要)|这个项目|本项目|"
    # Japanese
    r"(?:違う|違い|ちがう|間違|ではなく|じゃなくて|でなく|しないで|やめて|使わないで|変えないで|触らないで|ないでください|代わりに|べき(?:です|では)|まず.{1,40}(?:して|実行)|"
    r"先に.{1,40}(?:して|実行)|ここでは|このプロジェクト|元に戻|必ず|いつも|常に)|"
    # Korean
    r"^(?:아니[요오]?\b|틀렸|잘못|그게 아니)|지 (?:말고|마세요|마십시오|않습니다|않아요)|하지 ?마|대신|(?:쓰|사용하)지 말|항상|절대|먼저 .{1,40}(?:하세요|실행|해야)|"
    r"이 프로젝트|우리는|되돌려|"
    # Italian, Dutch, Polish, Russian
    r"^(?:non (?:usare|modificare|toccare|cambiare)|sbagliato|nee\b|niet\b|fout\b|nie\b|źle\b|нет\b|неправильно|не надо|не нужно|не (?:меняй|трогай|используй)\w*)|"
    r"\b(?:invece di|piuttosto che|in questo progetto|qui usiamo|in plaats van|wij gebruiken|in dit project|zamiast|w tym projekcie|używamy|"
    r"вместо|в этом проекте|мы (?:используем|никогда|всегда)|сначала (?:запусти|выполни)\w*)\b",
    re.IGNORECASE,
)  # fmt: skip
_HERE = re.compile(r"\b(?:in|for) this (?:repo\w*|project|codebase|team|code base)\b", re.IGNORECASE)
_REQUEST = re.compile(
    r"^(?:(?:please|now|then|also|next|ok(?:ay)?|can you|could you|let'?s)[, ]+)*(?:run|count|list|find|search|explore|plan|create|analy[sz]e|review|"
    r"generate|start|launch|spawn|scan|map|fix|implement|build|summari[sz]e|explain|show|look|check|tell|give|write|add|make|set up|get|go)\b",
    re.IGNORECASE,
)
"""What begins so asks for something new, also where it names the place: `count the files in this repo`."""
_TASTE = re.compile(
    r"\b(?:(?:twice|half|much|a bit|a little|slightly|more|less|far)? ?(?:longer|shorter|bigger|smaller|larger|wider|narrower|brighter|darker|bolder|funnier|"
    r"simpler words|friendlier)|bold|italics?|underlined|cent(?:er|re)d|upper ?case|lower ?case|red|blue|green|yellow|orange|purple|pink|black|white|gr[ae]y|"
    r"fonts?|colou?rs?|titles?|headings?|headlines?|paragraphs?|sentences?|stanzas?|verses?|rhymes?|poems?|stor(?:y|ies)|essays?|tone|wording|emojis?|slides?|"
    r"logos?|pictures?|images?|länger|kürzer|größer|kleiner|fett|rot|blau|grün|überschrift|absätze?|sätze?|farbe|schrift|plus (?:long|court|grand|petit)s?|"
    r"rouge|bleu|titre|paragraphes?|couleur|más (?:largo|corto|grande|pequeño)s?|rojo|azul|título|párrafos?)\b|长一点|短一点|更长|更短|大一点|小一点|字体|颜色|红色|蓝色|"
    r"标题|段落|句子|もっと(?:長く|短く)|赤|青|タイトル|段落|더 (?:길게|짧게)|빨간|제목",
    re.IGNORECASE,
)
"""How one piece of work should look or read: a wish about it, and no rule for others."""
_RULE = re.compile(
    r"\b(?:we|our|always|never|from now on|next time|convention|wir|bei uns|immer|nie(?:mals)?|chez nous|toujours|jamais|siempre|nunca|"
    r"usamos)\b|我们|总是|一直|从不|统一|以后|下次|いつも|常に|必ず|항상|절대",
    re.IGNORECASE,
)
"""What makes a wish a rule: it holds for more than this piece of work."""
_CLOSING = re.compile(
    r"^(?:(?:no|nope|nah|nein|non|ok(?:ay)?|yes|great|perfect|nice|cool|good|alright|all right|不|没有|いいえ)[,.! ]+)*(?:that(?:'s| is|'ll be| will be| "
    r"should be)? (?:all|it|everything|fine|okay|good|alright|great)|nothing else|i'?m (?:good|done|all set)|thank|thanks|thx|cheers|bye|goodbye|looks? "
    r"good|lgtm|well done|never ?mind|das (?:war|ist|wär)(?:'s| alles)|danke|passt|alles gut|merci|c'est (?:tout|bon|parfait)|gracias|eso es todo|"
    r"perfecto|obrigad|谢谢|好的|没事|不用了|就这些|可以了|ありがとう|以上です|大丈夫)\b",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"\b(?:but|aber|mais|pero|except|however|jedoch|sin embargo)\b|但|不过|只是|けど|でも", re.IGNORECASE
)
_ASKS_MORE = re.compile(
    r"^(?:(?:ok(?:ay)?|great|good|nice|perfect|cool|yes|sure|now|next|then|and|also|please|actually|can|could|would|let'?s|jetzt|nun|als nächstes|bitte|"
    r"kannst|maintenant|ensuite|peux|ahora|luego|puedes|por favor|现在|接下来|然后|再|请|帮我|次に|今度は)\b[, ]*)*(?:also |please |you |du |tu )*(?:add|write|make|"
    r"create|implement|fix|show|explain|tell|give|help|continue|proceed|go ahead|do (?:it|that|the)|look|check|open|update|rename|build|deploy|release|push|"
    r"commit|document|summari[sz]e|füge|schreib|erstelle|zeig|erklär|mach weiter|ajoute|écris|crée|montre|explique|añade|escribe|crea|muestra|explica|"
    r"what|how|where|which|who|when|why (?:is|does)|is there|are there|does|was|wie|wo|quel|comment|qué|cómo)\b|^(?:加|写|实现|修复|解释|看看|继续|添加|新增)|[?？]\s*$",
    re.IGNORECASE,
)  # fmt: skip
_HARNESS = re.compile(
    r"returncode|exit code|<\w+>|EXACTLY ONE|```|Observation:|\bformat\b.*\bresponse\b|^\[?(?:message|broadcast|system|reminder|notification|idle|"
    r"tool|hook|observation|error|request interrupted)\b[^\n]{0,60}[\]:]|###STOP###|\bmini-swe|\bYour (?:score|answer|submission)\b|"
    r"^please continue (?:working|on)|^continue working",
    re.IGNORECASE,
)
_PEER = re.compile(r"^\W*(?:\[\w+\] )?(?:from )?[\w.-]{1,30} (?:to|->|→|an|a) [\w.-]{1,30}:", re.IGNORECASE)
_COMMAND = re.compile(
    r"\b(?:curl|wget|ssh|scp|nc|ncat|rsync|eval|sudo|chmod|chown|bash|sh|zsh|powershell|iex|dd|mkfs|crontab|systemctl|nohup|base64)\s+[-\w./~$'\"]|\|\s*\w",
    re.IGNORECASE,
)


_DELICATE = re.compile(
    r"invites? système|sauvegardes?|vérification|certificat|jetons?|mots? de passe|variables? d'environnement|"
    r"copias? de seguridad|verificación|contraseñas?|cópias? de segurança|verificação|prompt do sistema|senhas?|"
    r"tokens? de acess?o|sicherung\w*|systemprompt|zertifikat\w*|umgebungsvariable\w*|certificato|prompt di sistema|"
    r"системн\w+ (?:подсказк|промпт|сообщ)\w*|резервн\w+|сертификат\w*|токен\w*|парол\w*|ключ\w*|"
    r"システムプロンプト|バックアップ|証明書|環境変数|トークン|パスワード|备份|证书|令牌|密码|环境变量|系统提示|"
    r"시스템 프롬프트|백업|인증서|환경 ?변수|토큰|비밀번호",
    re.IGNORECASE,
)
"""What a message in a language whose orders code does not know may be about without being repeated: held, to be read."""


@dataclass(slots=True)
class UserTurns:
    """What the users of a run said after the agent had acted.

    `unjudged` are the steps of which code cannot tell whether they set something right.
    """

    corrections: list[MinedLesson] = field(default_factory=list)
    held: list[HeldBack] = field(default_factory=list)
    unjudged: list[int] = field(default_factory=list)


def users_of(trace: Trace) -> Users:
    """Return who the user of a run seems to be; who cannot be told to be a developer counts as a customer."""
    if trace.meta.get("format") in _GRADED:
        return "graders"
    if trace.meta.get("format") == "tau_bench":
        return "customers"
    names = {call.name for step in trace.steps for call in step.tool_calls}
    workshop = sum(map(is_workshop, names))
    said = [step.text[:2000] for step in trace.steps[:_MOST_READ] if _is_turn(step)]
    setting = " ".join(step.text[:4000] for step in trace.steps[:3] if step.role == "system")
    service = len(set(map(str.casefold, _SERVICE.findall(setting)))) + len(_CUSTOMER.findall(" ".join(said)))
    if workshop and 2 * workshop >= len(names) and service < 3:
        return "developers"
    if service >= 1 or not any(map(_CODE.search, said)):
        return "customers"
    return "developers"


def is_workshop(tool: str) -> bool:
    """Whether a tool is one of a developer's trade, by its name: a shell, an editor, a search in files."""
    return _WORKSHOP.match(tool) is not None


def _is_turn(step: Step) -> bool:
    return step.role == "user" and step.answers is None and step.agent is None


def what_users_said(trace: Trace, users: Users) -> UserTurns:
    """Return what a developer set right in this run, what is held back, and what code cannot judge."""
    found = UserTurns()
    acted, first = False, True
    for step in trace.steps:
        if step.role == "assistant":
            acted = acted or bool(step.tool_calls) or bool(step.text.strip())
        if step.role != "user" or step.answers is not None:
            continue
        text = " ".join(step.text.split())
        if step.agent is not None or _PEER.match(text):
            _hold(found, trace, step, step.agent or "a peer", text)
        elif first:
            first = False
        elif acted:
            _turn(found, trace, step, users, text)
    return found


def _turn(found: UserTurns, trace: Trace, step: Step, users: Users, text: str) -> None:
    if _hold(found, trace, step, "the user", text) or users != "developers" or _HARNESS.search(text):
        return
    if len(text) < _SHORTEST or (_CLOSING.match(text) and not _GOES_ON.search(text)):
        return
    sets_right = _SETS_RIGHT.search(text) or (_HERE.search(text) and not _REQUEST.match(text))
    is_taste = _TASTE.search(text) and not (_CODE.search(text) or _RULE.search(text) or _HERE.search(text))
    if len(text) <= _LONGEST and sets_right and not is_taste and not text.endswith(("?", "？")):
        said = f"The user corrected the agent: {quoted(text, _LONGEST)}"
        found.corrections.append(MinedLesson("correction", f"correction/{signature(text)}", said, (step.index,)))
    elif not _ASKS_MORE.search(text):
        found.unjudged.append(step.index)


def _hold(found: UserTurns, trace: Trace, step: Step, who: str, text: str) -> bool:
    """Hold a message back that orders more than the work at hand; return whether it was."""
    if len(text) > 4 * _LONGEST:
        return False
    kinds: Sequence[str] = [kind for kind in orders(text) if kind != "run"]
    reason = ", ".join(KINDS[kind] for kind in kinds)
    if not reason and (places := names_a_place(text)):
        reason = f"names {places[0]}"
    if not reason and _COMMAND.search(text):
        reason = KINDS["run"]
    if not reason and _DELICATE.search(text):
        reason = KINDS["secrets"]
    if reason:
        found.held.append(HeldBack(trace.id, step.index, who, reason, first_words(text)))
    return bool(reason)
