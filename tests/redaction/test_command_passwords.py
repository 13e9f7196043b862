"""Passwords in the words of commands are taken out, whatever the tool, the quotes and the text around."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.redaction import find_secrets, redact
from combee.redaction.options import OPERANDS, OPTIONS, SINKS, Form, Option, Sink

SECRETS = ["hunter2", "letmein", "S3cr3t!x&y", "p@ss:w0rd%,=x", 'it\'s my "big" kangaroo']
AROUND: dict[str, Callable[[str], str]] = {
    "plain": lambda command: command,
    "line": lambda command: f"set -e\n{command} && echo done | tee log\n",
    "json": lambda command: json.dumps({"command": f"cd /srv\n{command}", "timeout": 5}),
    "json in json": lambda command: json.dumps({"arguments": json.dumps({"command": command})}),
    "lesson": lambda command: f"First run `{command}`, then look at the log.",
    "path": lambda command: f"sudo -u app /usr/bin/{command}",
}
FORMS: dict[Form, str] = {
    "value": "hunter2",
    "pair": "bob:hunter2",
    "login": "bob:hunter2",
    "target": "bob:hunter2@h",
    "comma": "bob,hunter2",
    "percent": "bob%hunter2",
    "slash": "bob/hunter2@db",
    "assigned": "k=hunter2",
    "named": "db_password=hunter2",
    "pass": "pass:hunter2",
    "auth": "'AUTH hunter2'",
    "header": "X-Api-Key:hunter2",
    "cookie": "sid=hunter2",
}
PIECES = [
    "curl ",
    "curl 'curl ",
    'curl \\"curl "',
    "echo a | ",
    "sudo <<< a ",
    "docker login -x ",
    "curl -u a:",
    "vault put a=",
    "net use ",
    "PASSWORD=",
    "--password ",
    "cookie: a=",
    "x-api-key: ",
    "my password is ",
    "password for a is ",
    "login a password ",
    "'\\''",
    "$(curl ",
    "-token ",
    "x-",
    "['curl', ",
]
FRAGMENTS = [
    *(
        "curl ",
        "-u ",
        "admin:",
        "hunter2",
        "'",
        '"',
        '\\"',
        "\\n",
        "\n",
        " ",
        "|",
        "echo ",
        "sudo -S ",
        "<<<",
        "mysql ",
        "-p",
    ),
    *("--password=", "password", " is ", "my ", "with ", "=", ":", "Cookie: ", "a=b;", "X-Api-Key: ", "abc12345", "`"),
    *("$(", "$X", "[", "]", ",", "net use ", "docker login ", "PASSWORD=", "pass=", "pw: ", "bob", "/", "@h", "@tcp("),
    *(
        "identified by ",
        "auth=('a', ",
        "TOKEN=",
        "--token ",
        "(",
        ")",
        "{",
        "}",
        "<",
        ">",
        "\\",
        "'\\''",
        "://u:",
        "@h.io",
    ),
    *(
        "the password",
        " as the password",
        'send "',
        '\\r"',
        "login bob ",
        "credentials: ",
        "Bearer ",
        "/home/bob/",
        "--auth ",
    ),
]
COMMANDS = [
    "curl -u admin:{} http://h/x",
    "curl -sSLu admin:{} http://h/x",
    "curl -uadmin:{} http://h/x",
    "curl -s --user admin:{} --retry 3 http://h/x",
    "curl --user=admin:{} http://h/x",
    "curl -x http://proxy:3128 --proxy-user bob:{} http://h/x",
    "curl -U bob:{} http://h/x",
    "curl --cert c.pem --pass {} https://h/x",
    "wget --user=bob --password={} http://h/x",
    "wget --http-user=bob --http-password={} http://h/x",
    "wget --ftp-password {} ftp://h/x",
    "http -a admin:{} GET h/x",
    "http --auth=admin:{} GET h/x",
    "redis-cli -h h -a {} ping",
    "redis-cli --pass {} ping",
    "redis-cli AUTH {}",
    "redis-cli config set requirepass {}",
    "sshpass -p {} ssh -p 22 bob@h ls",
    "sshpass -p{} scp -P 22 a bob@h:",
    "docker login -u bob -p {} registry.local",
    "docker login --username bob --password={} registry.local",
    "podman login -p {} quay.io",
    "podman pull --creds bob:{} quay.io/x",
    "mysql -u root -p{} -e 'select 1'",
    "mysqldump -uroot -p{} --all-databases",
    "mysqladmin --password={} status",
    "mariadb -p{} db",
    "psql --pass {} -h db",
    "mongo -u root -p {} admin",
    "mongosh -u root -p{} admin",
    "mongodump --username root --password {}",
    "vault kv put secret/app pw={}",
    "vault write auth/userpass/users/bob password={}",
    "vault login {}",
    "az login -u bob -p {}",
    "az login --service-principal -u id --password={} --tenant t",
    "gcloud sql users create bob --instance=i --password={}",
    "aws configure set aws_secret_access_key {}",
    "aws rds create-db-instance --master-username bob --master-user-password {}",
    "heroku config:set DB_PASSWORD={}",
    "npm config set //registry.local/:_authToken {}",
    "npm publish --_auth={}",
    "gh secret set DB_PASSWORD --body {}",
    "gh secret set DB_PASSWORD -b {}",
    "htpasswd -b .htpasswd bob {}",
    "htpasswd -bc .htpasswd bob {}",
    "htpasswd -nbB bob {}",
    "openssl rsa -in k.pem -passin pass:{} -out o.pem",
    "openssl pkcs12 -export -passout pass:{} -in c.pem",
    "openssl enc -aes-256-cbc -k {} -in f -out g",
    "openssl passwd -6 {}",
    "zip -r -P {} a.zip dir",
    "unzip -P {} a.zip",
    "7z x -p{} a.7z",
    "unrar x -p{} a.rar",
    "rar a -hp{} a.rar dir",
    "net use Z: //srv/share {} /user:bob",
    "net user bob {} /add",
    "ldapsearch -x -D cn=admin -w {} -b dc=x",
    "ldapsearch -xw {} -b dc=x",
    "ldappasswd -x -D cn=admin -w{} -S cn=bob",
    "smbclient //srv/share -U bob%{} -c ls",
    "lftp -u bob,{} ftp.local",
    "ncftpput -u bob -p {} ftp.local / f",
    "kubectl create secret generic s --from-literal=k={}",
    "kubectl create secret docker-registry s --docker-username=u --docker-password={}",
    "kubectl --token={} get pods",
    "kubectl config set-credentials bob --password {}",
    "helm repo add r https://h --username bob --password {}",
    "helm registry login -u bob -p {} h",
    "helm install r chart --set auth.rootPassword={}",
    "oc login -u bob -p {} https://h",
    "twine upload -u bob -p {} dist/x",
    "svn checkout --username bob --password {} http://h/x",
    "gpg --batch --passphrase {} -c f",
    "keytool -list -keystore k.jks -storepass {}",
    "sqlcmd -S h -U sa -P {}",
    "rabbitmqctl add_user bob {}",
    "rclone obscure {}",
    "nmcli dev wifi connect net password {}",
    "wpa_passphrase net {}",
    "terraform apply -var db_password={}",
    "mosquitto_pub -h h -u bob -P {} -t x",
    "plink -ssh bob@h -pw {}",
    "useradd -m -p {} bob",
    "any-tool --admin-password {} --verbose",
    "any-tool --db-password={} --verbose",
    "any-tool --passphrase={} --verbose",
    "PGPASSWORD={} psql -h db",
    "MYSQL_PWD={} mysql -u root",
    "SSHPASS={} sshpass -e ssh h",
    "docker run -e POSTGRES_PASSWORD={} -p 5432:5432 postgres",
    "REDISCLI_AUTH={} redis-cli ping",
    "DB_PASS={} ./run.sh",
    "echo {} | sudo -S apt-get update",
    "echo {} | sudo -kS -p '' apt-get update",
    "echo -n {} | docker login -u bob --password-stdin",
    "printf '%s\\n' {} | sudo -S ls",
    "echo {} | gh auth login --with-token",
    "echo {} | passwd --stdin bob",
    "echo bob:{} | sudo chpasswd",
    "echo -n admin:{} | base64",
    "sudo -S ls <<< {}",
    "docker login -u bob --password-stdin <<<{}",
    "sqlplus bob/{}",
]


def leftovers(secret: str, text: str) -> list[str]:
    """The parts of a secret, as quotes may have split it, that a text still holds."""
    return [part for part in re.split(r"[\s'\"\\]+", secret) if len(part) > 2 and part in text]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_part_of_a_password_in_a_command_is_left(command: str, around: str) -> None:
    for secret in SECRETS:
        if "sqlplus" in command and "@" in secret:
            continue  # there `@` begins the host
        text = AROUND[around](command.format(shlex.quote(secret)))
        found = redact(text)
        assert not leftovers(secret, found.text), text
        assert set(found.counts) == {"password"}, text
        assert redact(found.text).text == found.text
        assert "password" in find_secrets(text)
        assert find_secrets(found.text) == ()


@pytest.mark.parametrize("row", OPTIONS, ids=lambda row: f"{row.tools.split()[0]} {row.options}")
def test_every_option_of_the_table_hides_what_is_given_to_it(row: Option) -> None:
    for tool in row.tools.split():
        for option in row.options.split():
            name = option.rstrip("+.")
            value = FORMS[row.form]
            given = [f"{name} {value}"] if not option.endswith("+") else []
            given += [f"{name}:{value}"] if name[0] == "/" else []
            given += [f"{name}={value}"] if name.startswith("--") else []
            given += [f"{name}{value}"] if option.endswith("+") else []
            for said in given:
                text = f"{tool} {row.within.split(' ')[0]} -x {said} rest"
                assert SECRETS[0] not in redact(text).text, text


@pytest.mark.parametrize("row", SINKS, ids=lambda row: f"{row.tools} {row.word}")
def test_every_program_that_reads_a_password_hides_what_echo_gives(row: Sink) -> None:
    words = {r"-\w*S\w*|--stdin": "-S", "": "", "-?stdin|fd:0": "stdin"}
    word = words.get(row.word) or row.word.partition("|")[0]
    for tool in row.tools.split() or ["tool"]:
        text = f"echo {FORMS[row.form]} | {tool} {word} rest"
        assert SECRETS[0] not in redact(text).text, text


def test_the_docs_name_every_tool_of_the_tables() -> None:
    page = (Path(__file__).parents[2] / "docs" / "evidence" / "redaction.md").read_text(encoding="utf-8")
    named = set(re.findall(r"[\w.-]+", page))
    tools = {tool for row in (*OPTIONS, *OPERANDS, *SINKS) for tool in row.tools.split()}
    assert tools - named == set()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (["curl", "-u", "admin:hunter2", "http://h"], "http://h"),
        (["sshpass", "-p", "hunter2", "ssh", "-p", "22", "bob@h"], "22"),
        (["/usr/bin/mysql", "-uroot", "-phunter2", "db"], "-uroot"),
        (["mongodump", "--password", "hunter2", "--out", "d"], "d"),
        (["any-tool", "--db-password", "hunter2"], "any-tool"),
    ],
)
def test_a_command_as_a_list_is_read_too(text: list[str], kept: str) -> None:
    for form in (json.dumps(text), json.dumps(json.dumps(text)), repr(text), json.dumps(text, indent=2)):
        found = redact(f"subprocess.run({form}, check=True)").text
        assert "hunter2" not in found
        assert kept in found


@pytest.mark.parametrize(
    "text",
    [
        "docker exec -i db sh -c 'mysql -u root -p{} db < dump.sql'",
        'ssh -p 2222 bob@h "redis-cli -a {} flushall"',
        "bash -lc \"cd x && sshpass -p '{}' scp -P 22 a b:\"",
        "kubectl exec -it pod -- mysql -uroot -p{} -e 'show tables'",
        "sudo -u postgres env X=1 mongosh -u root -p {} --port 27017",
        "sshpass -p {} rsync -e 'ssh -p 22' a b:",
        "until redis-cli -a {} ping; do sleep 1; done",
        "for i in 1 2; do curl -u bob:{} http://h/$i; done",
        "x=$(curl -su bob:{} http://h)",
        "curl -H 'A: b' \\\n  -u bob:{} \\\n  http://h",
        "PS> curl.exe -u bob:{} http://h",
        'curl -sS "http://h/a?b=c&d=e" 2>/dev/null -u bob:{}',
        "<password>{}</password>",
        "mysql://ignored root:{}@tcp(db:3306)/x",
        "machine h login bob password {}",
    ],
)
def test_a_command_in_a_command_is_read_too(text: str) -> None:
    for secret in ("hunter2", "letmein", "S3cr3t!x"):
        for around in ("plain", "json", "json in json"):
            said = AROUND[around](text.format(secret))
            assert secret not in redact(said).text, said


@pytest.mark.parametrize(
    "said",
    [
        "-H 'Cookie: session={}; theme=dark'",
        '-H "Cookie: a={}"',
        '{{"Cookie": "session={}"}}',
        "headers = {{'cookie': 'session={}; x=1'}}",
        'setRequestHeader("Cookie", "a={}")',
        "< Set-Cookie: sid={}; Path=/; HttpOnly",
        "> cookie: sid={}",
        "curl -b 'session={}' http://h",
        "curl --cookie session={} http://h",
        "-H 'X-Api-Key: {}'",
        '--header="api-key: {}"',
        "-H X-Auth-Token:{}",
        "-H 'PRIVATE-TOKEN: {}'",
        "-H 'X-Vault-Token: {}'",
        '{{"X-API-Key": "{}"}}',
        '"{{\\"x-api-key\\": \\"{}\\"}}"',
        "headers['X-Api-Key'] = '{}'",
        "Ocp-Apim-Subscription-Key: {}",
        "http GET h X-API-Key:{}",
        "curl -H 'Authorization: {}' h",
        "curl -H 'Authorization: ApiKey {}' h",
        "> Authorization: ApiKey {}",
        '{{"Authorization": "Negotiate {}", "n": 1}}',
        "Authorization: AWS4-HMAC-SHA256 Credential=x/eu, SignedHeaders=host, Signature={}",
        'authorization: OAuth oauth_nonce="a", oauth_token="{}"',
        "git -c http.extraheader='AUTHORIZATION: basic {}' fetch",
    ],
)
@pytest.mark.parametrize("secret", ["0a1b2c3d4e5f60718293a4b5c6d7e8f9", "Zm9vOmJhcg1", "abc123def"])
def test_a_secret_in_a_header_is_taken_out_however_it_is_quoted(said: str, secret: str) -> None:
    text = said.format(secret)
    found = redact(text)
    assert secret not in found.text
    assert redact(found.text).text == found.text
    assert secret not in redact(json.dumps({"command": text})).text


def test_of_a_cookie_only_the_values_go() -> None:
    found = redact("Set-Cookie: sid=abc123; Path=/; Max-Age=10\nCookie: a=1x; b=2y")
    assert found.text == (
        "Set-Cookie: sid=[redacted:cookie]; Path=/; Max-Age=10\nCookie: a=[redacted:cookie]; b=[redacted:cookie]"
    )


@pytest.mark.parametrize(
    "said",
    [
        "my password is {}",
        "My password is {}.",
        "The password is: {}",
        "the password for bob is {}, use it",
        "the root password on the server is {}",
        "our passphrase was {} until today",
        "passwords are {}",
        'the password is "{}"',
        "the password is `{}`",
        "the password is **{}**",
        "Log in as bob with password {}.",
        "log in with the password {} please",
        "user bob, password {}",
        "username: bob, password: {}",
        "the passphrase: {}",
        "the passcode is {}",
        "the DB password's {}",
    ],
)
@pytest.mark.parametrize("secret", ["hunter2", "S3cr3t!x", "p@ssw0rd", "correct1-horse", "71029"])
def test_a_password_in_a_sentence_is_taken_out(said: str, secret: str) -> None:
    found = redact(said.format(secret))
    assert secret not in found.text
    assert found.counts == {"password": 1}
    assert redact(found.text).text == found.text
    assert secret not in redact(json.dumps({"text": said.format(secret) + "\nThanks"})).text


@pytest.mark.parametrize(
    "text",
    ["my password is swordfish", "Our root password is swordfish.", "the password is 'sword fish'", "it is swordfish"],
)
def test_a_plain_word_is_a_password_only_where_it_is_called_mine_or_stands_in_quotes(text: str) -> None:
    assert ("fish" in redact(text).text) is (text == "it is swordfish")


@pytest.mark.parametrize(
    "said",
    [
        "ALTER USER 'root'@'%' IDENTIFIED BY '{}';",
        "create user bob identified by '{}'",
        "ALTER USER bob WITH PASSWORD '{}';",
        "SET PASSWORD FOR bob = '{}'",
        "requirepass {}",
        "ENV DB_PASSWORD {}",
        'os.environ["DB_PASSWORD"] = "{}"',
        "auth=('bob', '{}')",
        "requests.get(u, auth=HTTPBasicAuth('bob', '{}'))",
        'cookies={{"session": "{}"}}',
        'expect "assword:"; send "{}\\r"',
        "user=bob&pass={}&x=1",
        '{{"user": "bob", "pass": "{}"}}',
        "ansible_ssh_pass={}",
        "//registry.local/:_authToken={}",
        "use {} as the password",
        "{} is the root password.",
        "credentials: bob / {}",
        "password {}",
        "CREATE ROLE bob LOGIN PASSWORD '{}'",
        "**Password**: {}7",
        "`password`: `{}7`",
        'password: str = "{}"',
        'let password: String = "{}";',
        'password2 = f"{}"',
        "tool --api_key {}7",
        "tool --client_secret={}7",
        "API key: {}7890",
        "echo 'AUTH {}' | redis-cli",
        "az sql server create -u bob -p {} -n x",
        "zip -rP {} a.zip d",
    ],
)
def test_a_password_in_a_query_a_setting_or_a_call_is_taken_out(said: str) -> None:
    for secret in ("Zq7hunter", "w9Hq3xTt"):
        for text in (said.format(secret), json.dumps({"command": said.format(secret)})):
            found = redact(text)
            assert secret not in found.text
            assert redact(found.text).text == found.text


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join))
def test_redacting_pieces_of_commands_twice_changes_nothing_more(text: str) -> None:
    once = redact(text)
    assert redact(once.text).text == once.text
    assert once.text.count("[redacted:") == sum(once.counts.values())


def test_a_long_line_of_beginnings_is_read_to_its_end() -> None:
    """Each piece begins what another would end: were it read again for each, a line of a megabyte would take hours."""
    for piece in PIECES:
        line = piece * (20_000 // len(piece))
        assert redact(redact(line).text).counts == {}
