"""Which words of a command hold a password, as data: tool, sub-command, form, options or place.

An option written `-p+` takes its value in the same word only (`mysql -pPW`; `mysql -p db` asks for the password), `-k.`
in the next word only. Other short options take it in either, long ones after `=` or in the next word. `commands` reads
the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Form = Literal[
    "value",
    "pair",
    "login",
    "target",
    "comma",
    "percent",
    "slash",
    "assigned",
    "named",
    "pass",
    "auth",
    "header",
    "cookie",
]
"""What of the word is secret.

`value`: all; `pair`, `comma`, `percent`, `slash`: what follows the first `:`, `,`, `%`, or the `/` up to `@`; `login`:
as `pair`, or all where no `:` is; `target`: as `pair` up to `@`;
`assigned`: what follows `=`; `named`: the same where the name says so (`DB_PASSWORD=x`); `pass`: what follows `pass:`;
`auth`: the last word behind `AUTH`;
`header`: a header line with a secret name; `cookie`: the values of `name=value` pairs.
"""


@dataclass(frozen=True, slots=True)
class Option:
    """Options of some tools; `within` are sub-commands of which one has to stand before."""

    tools: str
    options: str
    form: Form = "value"
    within: str = ""


@dataclass(frozen=True, slots=True)
class Operand:
    """A word without an option: the one at `index` behind words that match `after`; -1 is the last, None each."""

    tools: str
    after: str
    index: int | None
    form: Form = "value"


@dataclass(frozen=True, slots=True)
class Sink:
    """A command that takes what `echo` gives it as a password, if one of its words matches `word` (empty: always)."""

    tools: str
    word: str = ""
    form: Form = "value"


_MYSQL = "mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlcheck mysqlslap mariadb mariadb-dump mariadb-admin"
_MONGO = "mongo mongosh mongodump mongorestore mongoexport mongoimport mongostat mongotop"
_LDAP = "ldapsearch ldapadd ldapmodify ldapdelete ldappasswd ldapwhoami ldapcompare ldapmodrdn"
_MOSQUITTO = "mosquitto_pub mosquitto_sub mosquitto_rr"
_WINDOWS = "schtasks tasklist taskkill systeminfo driverquery getmac setx eventcreate gpresult"
_PDF = "pdfinfo pdffonts pdfimages pdfdetach pdftotext pdftoppm pdftocairo pdftohtml pdfseparate"
_IMPACKET = (
    "psexec.py smbexec.py wmiexec.py atexec.py dcomexec.py smbclient.py secretsdump.py mssqlclient.py reg.py "
    "rpcdump.py lookupsid.py samrdump.py services.py GetADUsers.py GetNPUsers.py GetUserSPNs.py getTGT.py getST.py "
    "addcomputer.py impacket-psexec impacket-wmiexec impacket-smbexec impacket-smbclient impacket-secretsdump"
    " impacket-mssqlclient"
)
_SAMBA = "smbclient rpcclient smbget smbcacls nmblookup"

OPTIONS = (
    Option("curl", "-u --user -U --proxy-user", "pair"),
    Option("curl", "--pass --proxy-pass --oauth2-bearer --tlspassword --proxy-tlspassword"),
    Option("curl", "-b --cookie", "cookie"),
    Option("curl wget grpcurl", "-H --header --proxy-header", "header"),
    Option("lwp-request", "-C", "pair"),
    Option("httping", "-P"),
    Option("wget wget2", "--password --http-password --ftp-password --proxy-password --http-passwd --proxy-passwd"),
    Option("aria2c", "--http-passwd --ftp-passwd --all-proxy-passwd --http-proxy-passwd --https-proxy-passwd"),
    Option("aria2c", "--header", "header"),
    Option("http https xh xhs", "-a --auth", "login"),
    Option("redis-cli valkey-cli keydb-cli redis-benchmark", "-a --pass"),
    Option("redis-server valkey-server", "--requirepass --masterauth"),
    Option("sshpass", "-p"),
    Option("docker podman nerdctl buildah skopeo crane oras", "-p --password", within="login"),
    Option("skopeo", "--creds --src-creds --dest-creds", "pair"),
    Option("podman buildah", "--creds", "pair"),
    Option(_MYSQL, "-p+ --password --pass"),
    Option("mycli pgcli litecli", "-p+ --password --pass"),
    Option("psql pg_dump pg_restore createdb", "--pass"),
    Option(_MONGO, "-p --password"),
    Option("cqlsh", "-p --password"),
    Option("clickhouse-client", "--password"),
    Option("influx", "-password --password -token --token"),
    Option("sqlcmd bcp isql tsql mssql-cli", "-P"),
    Option("az", "-p --password --admin-password --client-secret", within="login"),
    Option("az", "-p", within="server flexible-server"),
    Option("az", "--admin-password --account-key --connection-string --sas-token --secret --value"),
    Option("gcloud", "--password --root-password --key"),
    Option("aws", "--secret-access-key --master-user-password --password --temporary-password --secret-string"),
    Option("aws", "--value", within="put-parameter"),
    Option("aliyun", "--access-key-secret"),
    Option("s3cmd", "--secret_key --access_token"),
    Option("heroku", "--token --api-key"),
    Option("npm yarn pnpm", "--_auth --_authToken --otp --password"),
    Option("gh", "-b --body", within="secret"),
    Option("gh glab", "-t --token", within="login"),
    Option("twine poetry", "-p --password"),
    Option("cargo uv hatch vercel firebase surge supabase hf huggingface-cli", "--token"),
    Option("vercel", "-t"),
    Option("netlify", "--auth"),
    Option("doctl", "-t --access-token"),
    Option("flyctl fly", "-t --access-token"),
    Option("nuget dotnet", "-k --api-key -ApiKey --store-password", within="push"),
    Option("openssl", "-passin -passout -pass", "pass"),
    Option("openssl", "-k.", within="enc"),
    Option("gpg gpg2", "--passphrase"),
    Option("zip unzip zipcloak", "-P --password"),
    Option("7z 7za 7zr 7zz", "-p+"),
    Option("rar unrar", "-p+ -hp+"),
    Option("qpdf", "--password"),
    Option(_PDF, "-upw -opw"),
    Option("mupdf mutool stegsnow", "-p"),
    Option("steghide", "-p --passphrase"),
    Option("keytool jarsigner", "-storepass -keypass -srcstorepass -deststorepass -srckeypass -destkeypass -new"),
    Option(_LDAP, "-w"),
    Option("ldappasswd", "-s -a"),
    Option(_SAMBA, "-U --user", "percent"),
    Option(_SAMBA, "--password"),
    Option("cmdkey wmic", "/pass /password"),
    Option(_WINDOWS, "/p /P /rp /RP"),
    Option("xfreerdp wfreerdp xfreerdp3", "/p"),
    Option("rdesktop", "-p"),
    Option("plink pscp psftp putty", "-pw"),
    Option("lftp", "-u --user", "comma"),
    Option("lftp", "--password"),
    Option("ncftp ncftpput ncftpget ncftpls", "-p"),
    Option("kubectl oc", "--token --password --docker-password"),
    Option("kubectl oc", "--from-literal", "assigned", within="secret"),
    Option("oc cf ibmcloud argocd rancher", "-p --password --token --apikey", within="login"),
    Option("helm", "--password --token"),
    Option("helm", "-p", within="login"),
    Option("helm", "--set --set-string", "named"),
    Option("terraform tofu", "-var --var", "named"),
    Option("vault", "-token -password"),
    Option("consul nomad", "-token"),
    Option("svn git-svn hg", "--password"),
    Option("p4", "-P"),
    Option("git", "-c --config", "header"),
    Option(f"ipmitool {_MOSQUITTO}", "-P"),
    Option(f"snmpwalk snmpget snmpset snmpbulkwalk {_MOSQUITTO}", "-A -X --pw"),
    Option("yt-dlp youtube-dl", "-p --password --video-password --ap-password"),
    Option("restic borg duplicity", "--password --passphrase"),
    Option("cryptcat ss-local ss-server", "-k"),
    Option("swaks", "-ap --auth-password"),
    Option("sendEmail sendemail", "-xp"),
    Option("crackmapexec nxc netexec evil-winrm enum4linux medusa hydra psexec", "-p"),
    Option(
        "security",
        "-p -w -P",
        within="unlock-keychain create-keychain add-generic-password add-internet-password import",
    ),
    Option("useradd usermod", "-p --password"),
    Option("elasticsearch-users", "-p --password"),
)
OPERANDS = (
    Operand("aws", r"configure set (?:profile\.\S+\.)?aws_(?:secret_access_key|session_token)", 0),
    Operand("htpasswd mosquitto_passwd", r"-\w*b\w*", -1),
    Operand("net", "use", 1),
    Operand("net", "user", 1),
    Operand("redis-cli valkey-cli keydb-cli", "(?i:auth)", -1),
    Operand("redis-cli valkey-cli keydb-cli", "(?i:config) (?i:set) (?i:requirepass|masterauth)", 0),
    Operand("rabbitmqctl", "add_user|change_password|authenticate_user", 1),
    Operand("npm yarn pnpm", r"set \S*(?:_auth|[tT]oken|password)", 0),
    Operand("npm yarn pnpm", "set", None, "named"),
    Operand("mc", "alias|host set|add", 3),
    Operand("vault", "put|write|patch|login", None, "assigned"),
    Operand("vault wandb", "login", 0),
    Operand("cargo", "login", 0),
    Operand("cf", "auth", 1),
    Operand("rclone", "obscure", 0),
    Operand("openssl", "passwd", -1),
    Operand("wpa_passphrase", "", 1),
    Operand("nmcli", r"password|(?:802-11-wireless-security|wifi-sec)\.psk", 0),
    Operand("heroku", "config:set|config:add", None, "named"),
    Operand("poetry", r"config pypi-token\.\S+", 0),
    Operand("poetry", r"config http-basic\.\S+", 1),
    Operand("pulumi", "config set --secret", 1),
    Operand("sqlplus sqlldr expdp impdp rman", "", 0, "slash"),
    Operand("http https xh xhs", "", None, "header"),
    Operand("git", r"config \S+extra[hH]eader", 0, "header"),
    Operand(_IMPACKET, "", None, "target"),
    Operand("netsh", "", None, "named"),
    Operand("oathtool", "", -1),
    Operand("grafana grafana-cli", "reset-admin-password", 0),
    Operand("qpdf", "--encrypt", 0),
    Operand("qpdf", "--encrypt", 1),
    Operand("pdftk", "input_pw|user_pw|owner_pw", 0),
    Operand("dscl", r"-passwd \S+", 0),
)
SOURCES = frozenset({"echo", "printf", "yes"})
SINKS = (
    Sink("sudo", r"-\w*S\w*|--stdin"),
    Sink("passwd su smbpasswd kinit cryptsetup argon2"),
    Sink("pass gopass passage", "insert"),
    Sink("redis-cli valkey-cli keydb-cli", "", "auth"),
    Sink("chpasswd", "", "pair"),
    Sink("base64", "", "pair"),
    Sink("docker podman", "secret"),
    Sink("openssl", "-?stdin|fd:0"),
    Sink("vault", "-"),
    Sink("gh", "secret"),
    Sink("", r"--password-stdin|--passphrase-fd(?:=0)?|--with-token|--stdin|--pass-stdin"),
)
_STARTERS = (
    "sudo su ssh sshpass scp sftp rsync docker podman nerdctl kubectl oc heroku fly npm yarn pnpm poetry uv hatch"
)
STARTERS = SOURCES.union(_STARTERS.split())
"""Programs behind which another tool's name begins that tool's command (`sshpass -p PW ssh -p 22`)."""

BUNDLES = {"curl": "sSkvLfiIgGNjJ0123#", "zip": "rqjem9", "unzip": "oqjn", **dict.fromkeys(_LDAP.split(), "xLvZnc")}
"""Letters of options without a value that may stand before a letter of the table in one word (`curl -sSu u:PW`)."""
