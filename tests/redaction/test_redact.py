"""Secrets leave a text before it is stored, by kind, and plain text and code stay as they are."""

from __future__ import annotations

import base64
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import UsageError
from combee.redaction import Outcome, Step, ToolCall, Trace, redact, redact_trace

ALNUM = "A1b2C3d4E5f6G7h8J9k0L1m2N3p4Q5r6S7t8U9v0"
HEX = "0123456789abcdef" * 4
# Written in parts, so that no scanner takes the test for a leak.
PROVIDER_KEYS = {
    "openai": "sk-" + "proj-" + ALNUM,
    "anthropic": "sk-" + "ant-api03-" + ALNUM,
    "deepseek": "sk-" + HEX[:32],
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "github": "ghp_" + ALNUM[:36],
    "github_fine": "github_pat_" + ALNUM,
    "gitlab": "glpat-" + ALNUM[:20],
    "slack": "xoxb-" + "123456789012-" + ALNUM[:24],
    "google": "AIza" + ALNUM[:35],
    "google_oauth": "ya29." + ALNUM,
    "stripe": "sk_live_" + ALNUM[:24],
    "huggingface": "hf_" + ALNUM[:34],
    "npm": "npm_" + ALNUM[:36],
    "pypi": "pypi-AgEIcHlwaS5vcmc" + ALNUM + ALNUM,
    "sendgrid": "SG." + ALNUM[:22] + "." + ALNUM[:30],
    "groq": "gsk_" + ALNUM,
    "langsmith": "lsv2_pt_" + HEX[:32] + "_abcdef0123",
    "digitalocean": "dop_v1_" + HEX,
    "databricks": "dapi" + HEX[:32],
    "shopify": "shpat_" + HEX[:32],
    "linear": "lin_api_" + ALNUM,
    "twilio": "AC" + HEX[:32],
    "telegram": "1234567890:AA" + ALNUM[:33],
    "slack_hook": "https://hooks.slack.com/services/T00000000/B00000000/" + ALNUM[:24],
}
JWT = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=")
    for part in (b'{"alg":"HS256","typ":"JWT"}', b'{"sub":"1234567890"}', b"0123456789abcdef0123456789abcdef")
)
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nq3Zz+/9x\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize("name", PROVIDER_KEYS)
@pytest.mark.parametrize("around", ["{}", "key is {} ok", '{{"env": "{}"}}', "export X={}\n", '\\"{}\\"', "({})"])
def test_a_provider_key_is_taken_out_wherever_it_stands(name: str, around: str) -> None:
    key = PROVIDER_KEYS[name]
    found = redact(around.format(key))
    secret = key.rpartition("/")[2] if name == "slack_hook" else key[-20:]
    assert secret not in found.text
    assert found.counts == {"api_key": 1}


@pytest.mark.parametrize(
    ("text", "kind", "secret"),
    [
        (f"Authorization: Bearer {ALNUM}", "bearer_token", ALNUM),
        (f"-H 'authorization: token {ALNUM}'", "bearer_token", ALNUM),
        (f'{{"Authorization": "Basic {ALNUM}="}}', "bearer_token", ALNUM),
        (f"got {JWT} back", "jwt", JWT),
        (PEM, "private_key", "MIIEowIBAAKCAQEA"),
        (PEM.replace("\n", "\\n"), "private_key", "MIIEowIBAAKCAQEA"),
        (PEM.replace("-----END RSA PRIVATE KEY-----", ""), "private_key", "q3Zz"),
        (PEM.replace("RSA ", "OPENSSH "), "private_key", "q3Zz"),
        (PEM.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"), "private_key", "q3Zz"),
        ("postgres://app:hunter2@db.local:5432/x", "url_password", "hunter2"),
        ("https://user:p@ss:w0rd@host/path", "url_password", "p@ss:w0rd"),
        ("write to jane.doe+x@example.co.uk now", "email", "jane.doe"),
        ("/home/jane/project/a.py", "home_path", "jane"),
        ("/Users/jane/project", "home_path", "jane"),
        ("C:\\Users\\jane\\x", "home_path", "jane"),
        ('"C:\\\\Users\\\\jane\\\\x"', "home_path", "jane"),
        ('password = "hunter2!"', "password", "hunter2!"),
        ('{"password": "hunter2!"}', "password", "hunter2!"),
        ('"{\\"password\\": \\"hunter2!\\"}"', "password", "hunter2!"),
        ("DB_PASSWORD=hunter2", "password", "hunter2"),
        ("CREATE ROLE bob LOGIN PASSWORD 'abc1'", "password", "abc1"),
        ("mysql --password=hunter2 -u x", "password", "hunter2"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "api_key", "wJalr"),
        ("api_key: 'abc123def456ghi7'", "api_key", "abc123def456ghi7"),
        ("https://x.io/?access_token=abc123def456ghi7", "api_key", "abc123def456ghi7"),
    ],
)
def test_each_kind_of_secret_is_taken_out_and_counted(text: str, kind: str, secret: str) -> None:
    found = redact(text)
    assert secret not in found.text
    assert found.counts == {kind: 1}
    assert f"[redacted:{kind}]" in found.text


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=4096, total_tokens: 123456789",
        'api_key=os.environ["OPENAI_API_KEY"]',
        "self.token = tokenizer.next_token(1)",
        "password = getpass()",
        "def login(user: str, password: str) -> None:",
        'PASSWORD="$DB_PASSWORD"',
        "git@github.com:org/repo.git",
        "npm install lodash@4.17.21 react@18.2.0",
        "@app.route('/x')",
        "a task-force, disk-usage, sk-learn, sk-spinner-bounce-delay-of-words",
        "http://localhost:8080/a:b",
        "https://example.com/home/page and ./var/home",
        "the secret is to keep calm; token by token; key: value",
        "sha256:" + HEX,
        "commit " + HEX[:40],
        "AC/DC and SKU 12",
    ],
)
def test_code_and_prose_stay_as_they_are(text: str) -> None:
    assert redact(text).text == text


# What stands after a name, by how it is written: prose, settings, commands, queries, code.
SAID = [
    "log in with user bob and password={}",
    "password={}\n",
    "the password={}, then press enter",
    "passwd: {}",
    "passwd:{}",
    "Password: {}",
    "db_password: {}",
    "db-password = {}",
    "secret={}",
    "client_secret={}&grant=1",
    "secret: {}",
    "pwd={};Server=db",
    "passphrase: {}",
    "- **password:** {}",
    "password: `{}`",
    "password => {}",
    "connect(password={})",
    "login(user=u, password={}, timeout=3)",
    "https://x.io/login?user=bob&password={}&x=1",
    '{{"cmd": "curl -d password={} http://x"}}',
    "password = b'{}'",
]


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("secret", ["hunter2", "S3cr3t!x", "p@ssw0rd", "1234", "horse-9x"])
def test_a_password_in_prose_settings_or_code_is_taken_out(said: str, secret: str) -> None:
    found = redact(said.format(secret))
    assert secret not in found.text
    assert found.counts == {"password": 1}
    assert redact(found.text).text == found.text


@pytest.mark.parametrize(
    "text",
    [
        "password=letmein",
        "user=bob password=letmein\n",
        "the password=swordfish.",
        "?a=1&password=letmein&b=2",
        "db:\n  user: bob\n  password: swordfish\n  host: x",
        "password: swordfish  # for tests",
        "secret=letmein",
    ],
)
def test_a_password_without_a_digit_is_taken_out_where_only_a_value_can_stand(text: str) -> None:
    found = redact(text)
    assert found.counts == {"password": 1}
    assert "letmein" not in found.text
    assert "swordfish" not in found.text


@pytest.mark.parametrize(
    "text",
    [
        "the password is required",
        "password: required",
        "Password: incorrect, try again",
        "error: password: must be at least 8 characters",
        "the secret: keep calm and carry on",
        "passwd: command not found",
        "passwd: password updated successfully",
        "passwd: ",
        "Enter your password: ",
        "cat: /etc/passwd: Permission denied",
        "/etc/passwd:1:root:x:0:0",
        "/etc/passwd:12:daemon4:x:0:0",
        "user ALL=(ALL) NOPASSWD: /usr/bin/apt",
        "class User:\n    password: str\n    secret: SecretStr\n    pwd: bytes32",
        "password: str = None",
        "def f(password: Optional[str] = None, secret: int64 = 0): ...",
        "connect(user=user, password=password)",
        "connect(\n    password=word,\n    secret=secret,\n)",
        "connect(\n    password=db_password or fallback,\n)",
        "password=config.db1.password",
        "password = args.password",
        "secret=uuid4()",
        "secret = os.environ['X1234']",
        "password=$DB_PASSWORD1 secret=${S3} pwd=$(cat p1)",
        "password=%s secret={0} pwd=<yours1>",
        "WHERE password = $1 AND secret != :secret1",
        "if password == expected1: pass",
        "password=None secret=True pwd=null password=required",
        "PWD=/testbed OLDPWD=/root/x1 pwd=/home",
        '"PWD": "/testbed/x1", "OLDPWD": "/root"',
        "password: ******** secret=******",
        "k8s:\n  secret: my-db-name\n",
        "keep it secret; secrets: 12345; secretary=bob1",
        "POST /forgot-password: 200",
        "app:\n  password: !vault |\n    x\n  secret: !secret db_pw1\n",
        "password: !ENV ${X1}",
        "password: &main1\nother: {password: *main1}",
        "Enter password: root@host:~# ls",
        "Enter password: bob@host-1:/app1$ ls",
        "image: app/forgot-password:v1.2.3, secret: v1.2.3",
        "password: op://vault1/item/pw2",
        '{"password": "string", "secret": "required"}',
        "self.password = password1\nthis.password = password2;",
    ],
)
def test_what_only_speaks_of_passwords_stays_as_it_is(text: str) -> None:
    assert redact(text).text == text


@given(
    st.lists(
        st.sampled_from(
            ["password", "passwd", "secret", "pwd", "=", ": ", ":", " ", "hunter2", "word", "'", "`", "(", "\n"]
        )
    ).map("".join)
)
def test_redacting_passwords_twice_changes_nothing_more(text: str) -> None:
    once = redact(text).text
    assert redact(once).text == once


def test_several_secrets_in_one_text_are_each_counted_once() -> None:
    text = f"Authorization: Bearer {PROVIDER_KEYS['openai']} by a@b.io in /home/al/x and /home/al/y"
    found = redact(text)
    assert found.text == (
        "Authorization: Bearer [redacted:api_key] by [redacted:email] in /home/[redacted:home_path]/x"
        " and /home/[redacted:home_path]/y"
    )
    assert found.counts == {"api_key": 1, "email": 1, "home_path": 2}


def test_user_patterns_come_on_top_named_or_not_and_may_mark_a_group() -> None:
    assert redact("ticket ACME-1234", ["ACME-[0-9]+"]).text == "ticket [redacted:custom]"
    found = redact("host=db7.corp x", {"host": r"host=(\S+)"})
    assert (found.text, found.counts) == ("host=[redacted:host] x", {"host": 1})


@pytest.mark.parametrize("pattern", ["(", "a*", "[z-a]"])
def test_a_useless_user_pattern_is_the_users_error(pattern: str) -> None:
    with pytest.raises(UsageError) as caught:
        redact("x", [pattern])
    assert caught.value.hint


@given(
    st.lists(
        st.sampled_from(
            [*PROVIDER_KEYS.values(), JWT, PEM, "a@b.io", "://u:pw@h", "/home/x/", "key=", "Bearer ", "\\", '"']
        )
        | st.text(max_size=12)
    ).map("".join)
)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact(text)
    again = redact(once.text)
    assert again.text == once.text
    assert again.counts == {}
    assert once.text.count("[redacted:") - text.count("[redacted:") == sum(once.counts.values())


def test_the_lower_case_of_a_text_may_be_longer_than_the_text() -> None:
    assert redact("\u0130" * 50 + ' password = "hunter2!"').text.endswith('password = "[redacted:password]"')


def test_every_text_of_a_trace_is_redacted_and_its_id_kept() -> None:
    key = PROVIDER_KEYS["github"]
    step = Step(0, "assistant", f"use {key}", (ToolCall("c1", "run", json.dumps({"token": key})),))
    trace = Trace(
        "t-1", key, (step,), Outcome(detail=key, tests={key: True}), {"tenant": "a"}, {"source": f"/home/jo/{key}"}
    )
    clean, counts = redact_trace(trace)
    assert counts == {"api_key": 6, "home_path": 1}
    assert key not in repr(clean)
    assert (clean.id, clean.labels) == ("t-1", {"tenant": "a"})
    assert not re.search("gh[p]_", repr(clean))
