"""Names of programs, by what matters about them: lists of words, read once."""

from __future__ import annotations

_READERS = """
[ awk cat cd clear command diff dir du echo env export false file find fold grep egrep head history id jobs
kill less locate ls md5sum more nl pgrep pkill printf printenv ps pwd read readlink realpath rg rm sed set
sha256sum sleep sort source stat strings tail tee test time top touch tr tree true type ulimit umask uname
uniq unset wait watch wc whereis which whoami xargs xxd hexdump od df free lsof mkdir cp mv ln chmod chown
find_file open goto scroll_down scroll_up search_dir search_file submit create exit date seq shopt trap alias
dpkg-query nproc hostname groups
"""
READERS = frozenset(_READERS.split())
"""Programs that look or tidy up: their failures are questions answered "no", not lessons."""

RUNNERS = frozenset({"python3", "node", "bash", "sh", "ruby", "perl", "java"})
"""Programs that run a script: their first argument is what is called."""

INTERPRETERS = (RUNNERS - {"java"}) | frozenset(
    ["zsh", "dash", "ksh", "php", "pwsh", "powershell", "Rscript", "lua", "tsx", "ts-node", "source", "."]
)
"""Programs whose first argument that is no option is the script that is called."""

_JUDGES = """
pytest jest vitest mocha rspec phpunit tox nox nosetests unittest ctest pylint flake8 mypy pyright ruff eslint tsc
stylelint rubocop golangci-lint shellcheck hadolint bandit phpstan psalm ktlint detekt credo clippy ava playwright
cypress behave runtests.py
"""
JUDGES = frozenset(_JUDGES.split())
"""Programs that judge the work: that they complain is no failure of the call."""

_LAUNCHERS = """
npx; bunx; pnpx; npm exec; pnpm exec; pnpm dlx; yarn exec; yarn dlx; bundle exec; uv run; uvx; pipx run; poetry run
pipenv run; pdm run; hatch run; rye run; conda run; mamba run; micromamba run; xvfb-run; winpty; wine; busybox; rlwrap
docker exec; docker-compose exec; podman exec; kubectl exec; go run; deno run; accelerate launch; torchrun
"""
LAUNCHERS = frozenset(tuple(each.split()) for each in _LAUNCHERS.strip().replace("\n", ";").split(";"))
"""What stands before a call and runs it elsewhere or with other packages."""

_CARRIERS = """
su ssh xargs script tmux screen expect runuser gosu parallel watch find docker podman kubectl at flock strace make
eval chroot nsenter unshare pkexec sg fakeroot proot taskset ionice chrt numactl systemd-run nix nix-shell vagrant lxc
srun mpirun mpiexec
"""
CARRIERS = INTERPRETERS | frozenset(_CARRIERS.split())
"""Programs in whose arguments another call may stand that they run."""

WRAPPERS = {
    "sudo": frozenset({"-u", "-g", "-h", "-p", "-C", "-U"}),
    "doas": frozenset({"-u", "-C"}),
    "env": frozenset({"-u", "-C"}),
    "nice": frozenset({"-n"}),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "timeout": frozenset({"-s", "-k"}),
    **dict.fromkeys(("nohup", "exec", "time", "setsid", "unbuffer", "command"), frozenset[str]()),
}
"""Programs that run the rest of the line as it is, with those of their options that take a word."""

ONLY_ASKS = frozenset({"--help", "-help", "--usage", "--version", "-version", "--dry-run", "-dry-run", "--dryrun"})
"""Options with which a program does nothing of what it is for."""

_WITH_VERB = """
git pip apt-get npm yarn pnpm cargo go docker kubectl conda mamba uv poetry systemctl service aws gcloud az
openssl ip brew yum dnf apk gem bundle terraform helm tmux gh svn hg rustup dotnet mvn gradle pipx opam
jupyter huggingface-cli mix cabal stack composer snap dpkg
"""
WITH_VERB = frozenset(_WITH_VERB.split())
"""Programs whose first argument says what they do: `git merge`."""

_TWO_WORDS = """
env compose s3 s3api pip remote stash submodule worktree config sts addr link route
"""
TWO_WORDS = frozenset(_TWO_WORDS.split())
"""First arguments that need a second one to say what is done: `conda env create`."""

_KEYWORDS = """
for while until if then else elif fi do done case esac function select
"""
KEYWORDS = frozenset(_KEYWORDS.split())
"""Words of the shell's own language."""

_ALIKE = """
wget curl
python python3
netstat ss lsof
vim vi nano
telnet nc ncat
ifconfig ip
service systemctl
xxd hexdump od
file od hexdump
7z 7za 7zr p7zip unar
docker podman
nslookup dig host getent
make cmake ninja
node nodejs bun
source .
ps pgrep pidof top
pkill killall kill
gcc g++ cc c++ clang tcc
rsync cp scp
which command type
rg grep egrep ag ack
fd fdfind find
bat batcat cat
gawk awk mawk
shasum sha256sum
md5 md5sum
gmake make
gtar tar
gsed sed
mamba conda micromamba
npm yarn pnpm
gradle gradlew
mvn mvnw
bazel bazelisk
terraform tofu
"""
ALIKE = tuple(frozenset(line.split()) for line in _ALIKE.strip().splitlines())
"""Programs that can stand in for each other."""

_CODE = """
curl urllib requests http.client httpx aiohttp fetch
wget urllib requests http.client httpx aiohttp fetch
jq json JSON
yq yaml
unzip zipfile shutil
zip zipfile shutil
7z zipfile py7zr
tar tarfile
gunzip gzip
zcat gzip
sqlite3 sqlite3
xxd binascii hex open
hexdump binascii hex open
md5sum hashlib
sha256sum hashlib
nc socket
telnet socket
dig gethostbyname getaddrinfo
nslookup gethostbyname getaddrinfo
"""
CODE = {line.split()[0]: tuple(line.split()[1:]) for line in _CODE.strip().splitlines()}
"""What a line of Python, Node or another language uses that does what the program does."""

_BRINGS = """
cv2 opencv-python opencv-python-headless
PIL pillow
yaml pyyaml
sklearn scikit-learn
bs4 beautifulsoup4
Crypto pycryptodome
dateutil python-dateutil dateutil
dotenv python-dotenv
pkg_resources setuptools
websocket websocket-client
xxd vim-common xxd
hexdump bsdmainutils
netstat net-tools
ifconfig net-tools
ps procps
pkill procps
pgrep procps
top procps
ping iputils-ping
nc netcat netcat-openbsd netcat-traditional
dig dnsutils
nslookup dnsutils
ip iproute2
ss iproute2
7z p7zip-full p7zip
gcc build-essential
g++ build-essential
make build-essential
pip python3-pip
pip3 python3-pip
cc build-essential
killall psmisc
convert imagemagick
java default-jdk default-jre
npm nodejs
node nodejs
pdftotext poppler-utils
crontab cron
python python-is-python3
git git
psql postgresql-client
"""
BRINGS = {line.split()[0]: frozenset(line.split()[1:]) for line in _BRINGS.strip().splitlines()}
"""The packages that bring a program or module of another name."""

_FIXERS = """
ruff black isort autopep8 yapf prettier eslint stylelint biome gofmt goimports rustfmt clang-format terraform cargo
rubocop standardrb mix dart ktlint swiftformat sqlfluff pre-commit npm yarn pnpm npx make just buf shfmt djlint taplo
"""
FIXERS = frozenset(_FIXERS.split())
"""Tools that can put code in order; `FIXES` are the words with which they do, `FIX_ALWAYS` those that need none."""
FIXES = frozenset({"--fix", "--write", "-w", "-i", "-A", "-a", "-F", "fmt", "format", "fix", "lint:fix", "autocorrect"})
FIX_ALWAYS = frozenset({"black", "isort", "autopep8", "yapf", "rustfmt", "standardrb", "swiftformat"})

_LOOKING = """
git status log diff show branch remote blame rev-parse ls-files describe shortlog reflog config grep
docker ps images logs inspect version info top stats port
docker-compose ps logs config images top port
podman ps images logs inspect version info
kubectl get describe logs top explain version config
npm ls list view info outdated why audit config root prefix
yarn list why info outdated config
pnpm ls list why outdated
pip list show freeze check config
uv tree
poetry show check env
conda list info
cargo tree metadata search
go list env version doc
gem list
bundle list show outdated
composer show outdated
terraform show output providers version
systemctl status list-units is-active
service status
brew list info
apt-get changelog
apt-cache search policy show
gh status
dotnet list
mvn dependency:tree
helm list
"""
LOOKING = {line.split()[0]: frozenset(line.split()[1:]) for line in _LOOKING.strip().splitlines()}
"""Words with which a program that may do much only shows something."""

_PROJECT_TOOLS = """
node: npm yarn pnpm bun npx deno lerna turbo nx rush playwright puppeteer cypress husky tsc vite webpack
python: pip pip-sync uv poetry pipenv pdm hatch rye conda mamba micromamba manage.py setup.py alembic flask
django-admin pre-commit invoke nox tox dbt
go, rust: go cargo rustup buf protoc mockgen sqlc templ wasm-pack cross maturin
ruby, php: bundle bundler rails rake gem composer artisan console symfony pod
jvm, net: mvn mvnw gradle gradlew sbt lein ant dotnet nuget paket cake
infra: terraform tofu terragrunt docker docker-compose podman helm helmfile ansible-galaxy vagrant pulumi kubectl
minikube kind supabase wrangler serverless cdk sam skaffold tilt localstack
native: make gmake cmake meson ninja bazel bazelisk conan vcpkg configure autogen.sh autoreconf xmake scons just task
others: mix rebar3 dart flutter stack cabal swift carthage opam dune luarocks cpanm nimble shards zig vcpkg git
data: prisma drizzle-kit sequelize sequelize-cli knex typeorm mikro-orm hardhat forge foundryup sqlx diesel dbmate
goose migrate flyway liquibase atlas graphql-codegen openapi-generator openapi-generator-cli openapi orval initdb
createdb
versions: nvm fnm volta pyenv rbenv rvm asdf mise sdk jenv nodenv
system: service systemctl brew apt-get apk
"""
PROJECT_TOOLS = frozenset(word for word in _PROJECT_TOOLS.split() if not word.endswith((":", ",")))
"""Tools that set a project up, by family: what they are told to do stands in `SETS_UP`."""

_SETS_UP = """
add all apply assemble bindings bootstrap build_ext cache ci clean-install collectstatic component configure create
dependencies dependency develop download dump-autoload dumpautoload env fetch get get-deps grammar head headers i
import init install-test installdeps instantiate key:generate latest lfs link lock makemigrations package parser
postinstall prepare pull push rebuild reload restore start stubs submodule sync target tidy tool toolchain up update
upgrade use vendor workload wrapper
"""
SETS_UP = frozenset(_SETS_UP.split())
"""Words with which such a tool installs, syncs, migrates, builds, generates or starts something."""
_BEGINNINGS = "install migrat gen build compile setup codegen db deps proto assets schema seed resolve ecto."
SETS_UP_BY = tuple(_BEGINNINGS.split())
"""The same by the beginnings of words: `db:migrate`, `build-ext`, `generateProto`."""
