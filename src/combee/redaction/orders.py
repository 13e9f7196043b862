"""What in a text orders its reader to act: to run, fetch or send something, to give away secrets, to drop safeguards.

Word lists in English, German, French, Spanish, Portuguese, Chinese and Japanese find what is said plainly. They are
for showing a person what to look at before a lesson reaches an agent, and a second look behind the rules of origin of
`combee.traces.mining`; alone they would not keep instructions out, since no list ends.
"""

# ruff: noqa: E501, ISC004 - lists of words are read language by language, not by width

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

KINDS = {
    "run": "orders to run something",
    "fetch": "fetches from an address outside",
    "fetch_and_run": "runs what it fetches",
    "send": "sends something out",
    "secrets": "handles secrets",
    "override": "sets other instructions aside",
    "destroy": "destroys data",
    "unprotect": "drops a safeguard",
    "address": "addresses agents or models",
}
"""Kind to what it means, for a person."""

KNOWN_SENTENCES = (
    "Run 'conda init' before 'conda activate'",
    'You can configure credentials by running "aws configure".',
    "file or directory not found", "doesn't declare an explicit app_label",
    "needs a terminal", "Is the docker daemon running?", "Are you in the right directory?",
)  # fmt: skip
"""Sentences of well-known programs that say what to do: literal, so nobody else can put words into them."""

_ALIKE = str.maketrans(
    "аеорсухіѕјһԁԛԝвкмнтзАЕОРСУХІЅЈВКМНТαορντικεηΑΒΕΗΙΚΜΝΟΡΤΧ",
    "aeopcyxisjhdqwbkmht3AEOPCYXISJBKMHTaopvtikenABEHIKMNOPTX",
)
_UNSEEN = re.compile(
    "[\u00ad\u0300-\u036f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
)
_OTHER_LETTERS = re.compile("[\u0370-\u03ff\u0400-\u052f]+")
_DISGUISED = re.compile(
    f"{_UNSEEN.pattern}|{_OTHER_LETTERS.pattern}|[\u1d00-\u1dbf\u2000-\u200a\u2100-\u214f\u2460-\u24ff\uff01-\uff5e\U0001d400-\U0001d7ff]"
)
_URL = r"(?:https?|ftps?|wss?|ssh|git|s3|gs)://|\bwww\."
_LOCAL = re.compile(
    r"^(?:localhost|127\.|0\.0\.0\.0|::1|\[::1\]|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|[\w-]+(?::\d+)?(?:/|$))"
)
_PLACE = re.compile(
    rf"(?:{_URL})(?P<host>[^\s/'\"`)<>\]]+)|[\w.+-]+@(?P<mail>[\w-]+(?:\.[\w-]+)+)|"
    r"\b(?P<ip>(?!0\.0\.0\.0|127\.)\d{1,3}(?:\.\d{1,3}){3})\b|"
    r"(?<![a-zA-Z0-9./@_-])(?P<bare>(?:[a-z0-9-]+\.)+(?:com|net|org|io|example|xyz|ru|cn|info|biz|top|site|online|cc|tk|onion|"
    r"invalid))(?![a-zA-Z0-9_(-]|\.[a-zA-Z0-9])",
    re.IGNORECASE,
)  # fmt: skip
_PRIVATE = (
    r"(?:(?:all|every|each|any|the) keys?\b|(?:api|access|secret|private|ssh|signing|encryption|deploy|license)[-_ ]?keys?|secrets?|credentials?|passwords?|"
    r"passphrases?|(?:auth|access|bearer|session|api|github|refresh)[-_ ]?tokens?|\btokens?|cookies?|id_rsa|id_ed25519|"
    r"\.env\b|\.aws\b|\.ssh\b|\.netrc|\.npmrc|/etc/(?:passwd|shadow)|environment variables|system (?:prompt|message)|"
    r"schlüssel\w*|passw[oö]rt\w*|kennw[oö]rt\w*|zugangsdaten|anmeldedaten|geheimnis\w*|systemprompt|mensaje del sistema|instrucciones del sistema|prompt (?:del sistema|système)|"
    r"clés?\b|mots? de passe|identifiants?|jetons?|secrets|claves?|contraseñas?|credencial\w*|secretos?|llaves?|"
    r"chaves?|senhas?|segredos?|chiav[ei]|密钥|密鑰|密码|密碼|口令|令牌|凭证|凭据|憑證|秘密|机密|环境变量|秘钥|系统提示|系統提示|システムプロンプト|"
    r"キー|鍵|パスワード|トークン|認証情報|資格情報)"
)
_SEND = (
    r"(?:\b(?:send|sends|upload|uploads|post|posts|mail|e-?mail|forward|transmit|exfiltrate|leak|share|publish|paste|submit|"
    r"report|beacon|push|dm|deliver|transfer|copy|relay|sende|sendet|senden|schick\w*|übermitt\w*|hochladen|lade|leite\w*|"
    r"poste\w*|teile\w*|übertrag\w*|envoi\w*|envoy\w*|transme\w*|téléverse\w*|publi\w*|partage\w*|transfèr\w*|"
    r"env[ií]\w*|mand\w*|sub[ea]\w*|compart\w*|reenv\w*|transfier\w*|carreg\w*|invi\w*|carica\w*)\b|"
    r"发送|發送|上传|上傳|发到|发给|發給|寄到|寄给|提交(?:到|给)|转发|轉發|传到|传给|传送|泄露|公布|分享|推送|贴到|送信|送って|送る|アップロード|転送|投稿|共有)"
)
_TELL = (
    r"(?:\b(?:print|reveal|show|tell|disclose|display|dump|expose|output|include|list|read|cat|echo|give|add|append|write|store|"
    r"save|zeige?n?|gib|verrate?n?|nenne?n?|ausgeben|speicher\w*|schreib\w*|füge|révèle\w*|affiche\w*|montre\w*|donne\w*|"
    r"écri\w*|ajoute\w*|muestr\w*|revel\w*|imprim\w*|escrib\w*|añad\w*|incluy\w*|d[ai]me|mostr\w*)\b|"
    r"打印|输出|显示|透露|告诉|写入|写到|写进|展示|列出|读取|附上|表示して|教えて|出力|書き込)"
)
_RUNS = (
    r"(?:run|execute|launch|start|invoke|eval(?:uate)?|call|install|download|fetch|clone|"
    r"führe?n?|ausführen|starte?n?|rufe?|installiere?n?|lade|"
    r"exécute[rz]?|lance[rz]?|installe[rz]?|télécharge[rz]?|"
    r"ejecut(?:a|e|ar|en|ad)|corr(?:e|er|a)|instal(?:a|e|ar|en)|descarg(?:a|ue|ar)|lanz(?:a|ar)|execut(?:a|e|ar|em)|rode|baix(?:e|ar)|"
    r"esegu(?:i|ire|a))"
)
_RUNS_FAR_EAST = r"(?:请|必须|应该|先|务必|需要|都要|立即|再)?(?:执行|執行|运行|運行|下载|安装|跑)|実行|ダウンロード|インストールして"
_BEFORE = (
    r"(?:^|[.!?;:,\n(\"'`—–-]\s*|\b(?:please|always|must|should|shall|then|first|and|now|to|you|just|immediately|never forget to|"
    r"remember to|bitte|immer|zuerst|dann|sofort|müssen|sollen|und|veuillez|toujours|d'abord|il faut|doivent|devez|"
    r"por favor|siempre|primero|debe[ns]?|deben|luego|hay que|sempre|primeiro|devem)\s+)"
)
_AGENTS = (
    r"(?:\b(?:all|every|any|each|other|future|fellow|dear|hey|attention|note to|to|for|important)\b[^.\n]{0,20}\b(?:agents?|assistants?|"
    r"models?|bots?|llms?|ais?|claude|gpt|codex|copilot)\b|\b(?:agents?|assistants?|models?|llms?|ais?)\b\s*(?::|,|must|should|have to|"
    r"shall|need to|are required)|\b(?:an|alle|jeder|jeden|für alle|liebe|künftige|andere)\b[^.\n]{0,16}\b(?:agent\w*|assistent\w*|ki\b|"
    r"ki-\w+|modelle?|sprachmodell\w*)|\b(?:tous les|chaque|aux|pour les|autres|chers)\b[^.\n]{0,12}\b(?:agents?|assistants?|ia|modèles?)\b|"
    r"\b(?:todos los|todas las|cada|para los|a los|otros|estimados|todos os|cada)\b[^.\n]{0,12}\b(?:agentes?|asistentes?|assistentes?|ias?|"
    r"modelos?)\b|language model|as an ai\b|sprachmodell|modèle de langage|modelo de lenguaje|"
    r"(?:所有|全部|各位|每个|每位|其他|任何|各|致|给|對|对|请)[^。\n]{0,6}(?:代理|智能体|智慧體|助手|助理|机器人|模型)|(?:代理|智能体|助手|机器人)(?:们|：|:|必须|应|请|都)|"
    r"人工智能|大模型|语言模型|(?:すべて|全て|全|各|他)の?(?:エージェント|アシスタント|モデル)|エージェント(?:は|へ|に|の皆)|ai(?:は|へ|アシスタント))"
)
_OTHERS = (
    r"(?:instructions?|rules?|prompts?|guidelines?|polic(?:y|ies)|orders|directions?|constraints?|anweisung\w*|regeln?|vorgaben?|"
    r"anleitung\w*|richtlinie\w*|consignes?|règles?|directives?|instrucciones|reglas?|órdenes|directrices|instruções|regras?|"
    r"istruzioni|regole|指令|指示|规则|規則|说明|提示|要求|命令|约束|指示|ルール|命令|制約)"
)
_ASIDE = (
    r"(?:\b(?:ignor\w*|disregard\w*|forget|overrid\w*|overrule\w*|bypass\w*|vergiss|vergesst|missacht\w*|übergeh\w*|oubli\w*|"
    r"olvid\w*|esquec\w*|dimentic\w*)\b|忽略|无视|無視|忘记|忘掉|不要理会|跳过|不理会|無視|忘れ)"
)
_SAME = r"(?:[^.!?。！？\n]|\.(?=\S))"  # within one sentence
_FROM = r"(?:curl|wget|iwr|irm|invoke-webrequest|invoke-restmethod|fetch|aria2c|httpie|http)"
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(expression, re.IGNORECASE | re.MULTILINE))
    for kind, expression in (
        ("fetch_and_run", rf"\b{_FROM}\b[^\n|]{{0,300}}\|\s*(?:sudo\s+)?(?:\S*/)?(?:env\s+)?(?:(?:ba|z|da|k|fi)?sh|python[\d.]*|"
                          r"node|perl|ruby|php|iex|pwsh|powershell)\b"),
        ("fetch_and_run", rf"(?:<\(|\$\()\s*{_FROM}\b|base64\s+(?:-d|--decode|-D)\b[^\n|]{{0,80}}\|\s*(?:ba|z|da)?sh|"
                          rf"\b(?:eval|exec)\b[^\n]{{0,60}}(?:{_FROM}|urlopen|requests\.get)|"
                          rf"\b(?:pip3?|uv pip|npm|npx|pnpm|yarn|gem|cargo|go)\b[^\n]{{0,60}}(?:git\+)?(?:https?|ssh)://(?!\S*(?:pypi\.org|"
                          r"registry\.npmjs\.org|pytorch\.org)\b)|"
                          rf"\b{_FROM}\b[^\n]{{0,300}}(?:&&|;|\band\b|und|et|y|然后|并|再)\s*(?:then\s+)?(?:chmod|(?:ba|z)?sh|\./|run|execute|"
                          r"执行|运行)"),
        ("send", r"\bcurl\b[^\n|]*\s(?:-d|--data\S*|-F|--form|-T|--upload-file|-X\s*(?:POST|PUT)|--request\s+(?:POST|PUT))\b|"
                 r"\b(?:scp|sftp|rsync|ncat|nc|netcat|socat|ftp|sendmail|mail|mailx|mutt)\s[^\n]*[\w.-]+(?:@|:|\s\d{2,5}\b)|"
                 r"\b(?:aws s3|gsutil|rclone|az storage)\s+(?:cp|sync|mv|copy|put)\b|\bgh gist create\b|\bgit push\s+(?:https?|ssh|git@)|"
                 r"\bgit remote (?:add|set-url)\b|\brequests\.(?:post|put)\(|/dev/tcp/"),
        ("secrets", rf"{_SEND}{_SAME}{{0,80}}{_PRIVATE}|{_PRIVATE}{_SAME}{{0,60}}{_SEND}|{_TELL}{_SAME}{{0,60}}{_PRIVATE}|"
                    rf"{_PRIVATE}{_SAME}{{0,24}}{_TELL}"),
        ("override", rf"{_ASIDE}[^.!?。！？\n]{{0,50}}{_OTHERS}|\bsystem prompt\b|\byou are now\b|\bnew instructions?\b|\bdeveloper mode\b|"
                     r"\bjailbreak|</?(?:system|user|assistant|instructions?)>|\[/?(?:inst|system)\]|<\|im_(?:start|end)\|>|"
                     rf"{_OTHERS}[^.!?。！？\n]{{0,12}}(?:を|は)?{_ASIDE}"),
        ("destroy", r"\brm\s+(?:-\w+\s+)*-\w*[rf]\w*\s+(?:-\w+\s+)*(?:/(?![\w.-]+/)|~|\*|\$HOME)|\bmkfs\b|\bdd\b[^\n]*\bof=/dev/|:\(\)\s*\{|"
                    r"\bdrop\s+(?:table|database|schema)\b|\btruncate\s+table\b|\bgit push\b[^\n]*(?:--force\b|-f\b)|\bterraform destroy\b|"
                    r"\b(?:delete|erase|wipe|destroy|remove|purge|lösch\w*|entfern\w*|supprim\w*|efface\w*|borr\w*|elimin\w*|apag\w*)\b"
                    r"[^.\n]{0,24}\b(?:all|every|everything|entire|whole|database|backups?|production|logs?|history|alle\w*|sämtliche\w*|"
                    r"tou(?:s|tes?)|tod[oa]s?|history)\b|(?:删除|清空|清除|抹掉|刪除)[^。\n]{0,8}(?:所有|全部|数据库|日志|备份|记录)|(?:すべて|全て)[^。\n]{0,10}削除"),
        ("unprotect", r"\b(?:disable|turn off|switch off|deactivate|bypass|skip|circumvent|deaktivier\w*|umgeh\w*|schalte\w*|désactiv\w*|"
                      r"contourn\w*|desactiv\w*|deshabilit\w*|desabilit\w*)\b[^.\n]{0,30}\b(?:security|auth\w*|ssl|tls|certificate\w*|"
                      r"verif\w*|sandbox\w*|firewall|antivirus|approval\w*|guard\w*|safe\w*|permission\w*|confirmation\w*|sicherheit\w*|"
                      r"zertifikat\w*|prüfung\w*|sécurité|vérification\w*|seguridad|verificación\w*|segurança)\b|"
                      r"--no-verify\b|\bchmod\s+(?:-R\s+)?[0-7]?777\b|--dangerously-\S+|\bverify\s*=\s*False\b|\bcurl\b[^\n|]*\s(?:-k|--insecure)\b|"
                      r"sslverify[= ]+false|REJECT_UNAUTHORIZED=0|--trusted-host\b|--allow-root\b|--privileged\b|"
                      r"(?:关闭|禁用|绕过|跳过|停用)[^。\n]{0,8}(?:安全|验证|认证|校验|防火墙|沙箱|审批|权限|检查)|(?:無効|バイパス)"),
        ("address", _AGENTS),
        ("run", rf"{_BEFORE}{_RUNS}\b\s+(?:[^.!?\n]{{0,60}}?)(?:`|\$\s|\./|\bscript\b|\bcommand\b|\bbefehl\b|\bskript\b|\bcommande\b|\bcomando\b|"
                r"\w+\.(?:sh|py|js|exe|bat|ps1|rb|pl)\b|https?://|\b(?:sudo|curl|wget|bash|sh|python3?|node|npm|npx|yarn|pnpm|pip3?|uv|make|git|"
                rf"docker|cargo|go|eval|chmod|rm|ssh|nc|powershell|cmd)\b)|(?:{_RUNS_FAR_EAST})[^。！？\n]{{0,30}}[a-z./`]|"
                rf"[a-z./`][^。！？\n]{{0,40}}を実行"),
    )
)  # fmt: skip
_OF_SECRETS = tuple(re.compile(each, re.IGNORECASE | re.MULTILINE) for each in (_PRIVATE, f"{_SEND}|{_TELL}"))
"""Both stand in whatever handles secrets; searched one by one they take a tenth of the time of the whole."""
_LONG_NAME = re.compile(r"[\w-]{16,}")
_MARKED_WORDS = re.compile(r"(?:['\"`*]+[^\W_]+['\"`*]+\s+){2,}")
_WORD_IN_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_HOME = re.compile(r"\blocalhost\b|\b127\.0\.0\.1\b|\[::1\]|\b0\.0\.0\.0\b")
_SENDS_TO = re.compile(rf"{_SEND}", re.IGNORECASE)
_FETCHES = re.compile(
    rf"\b(?:{_FROM}|git\s+clone|download|fetch|load|open|visit|browse|herunterlad\w*|lade|télécharg\w*|descarg\w*|visit\w*|abre|"
    r"git\s+submodule|pip3?|npm|docker\s+pull)\b|下载|访问|打开|获取|抓取|ダウンロード|アクセス|開い",
    re.IGNORECASE,
)
_REGISTRY = re.compile(
    r"(?:^|\.)(?:pypi\.org|npmjs\.org|pytorch\.org|crates\.io|golang\.org|rubygems\.org|example\.com)$"
)


def flattened(text: str) -> str:
    """Return a text as it is read: without invisible characters, letters of other scripts that look alike as Latin."""
    if text.isascii() or not _DISGUISED.search(text):
        return text
    plain = unicodedata.normalize("NFKC", text)
    if _UNSEEN.search(plain):
        plain = "".join(char for char in plain if unicodedata.category(char) not in {"Cf", "Mn"})
    return _OTHER_LETTERS.sub(lambda match: match[0].translate(_ALIKE), plain)


def names_a_place(text: str) -> tuple[str, ...]:
    """Return the hosts outside (of URLs, mail addresses, bare domains) that a text names; loopback and private ones not."""
    found: dict[str, None] = {}
    for match in _PLACE.finditer(flattened(text)):
        host = next(filter(None, (match["host"], match["mail"], match["ip"], match["bare"])))
        host = host.rpartition("@")[2].casefold()
        if not _LOCAL.match(host):
            found[host.partition(":")[0]] = None
    return tuple(found)


def _spelled_out(name: str) -> str:
    """Return the words of a name that may be a sentence in disguise; empty for a short one."""
    words = _WORD_IN_NAME.findall(name)
    return "" if len(words) < 5 else f"\n{' '.join(words)}"


@lru_cache(maxsize=4096)
def orders(text: str) -> tuple[str, ...]:
    """Return the kinds (see `KINDS`) of what a text orders or does that a person should look at, sorted."""
    read = flattened(text)
    for known in KNOWN_SENTENCES:
        read = read.replace(known, "")
    read = _MARKED_WORDS.sub(lambda match: re.sub(r"['\"`*]", "", match[0]), read)
    read = " ".join([read, *(_spelled_out(name) for name in _LONG_NAME.findall(read))])
    places = names_a_place(read)
    no_matter: set[str] = set()
    if not places and _HOME.search(read):
        no_matter |= {"send", "fetch_and_run"}
    if not all(pattern.search(read) for pattern in _OF_SECRETS):
        no_matter.add("secrets")
    found = {kind for kind, pattern in _PATTERNS if kind not in no_matter and pattern.search(read)}
    if places and _SENDS_TO.search(read):
        found.add("send")
    if places and _FETCHES.search(read) and not all(map(_REGISTRY.search, places)):
        found.add("fetch")
    return tuple(sorted(found))
