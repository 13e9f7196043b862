"""The vocabulary of error messages: what of a tool's own words a lesson may hold. No word of it orders anything."""

from __future__ import annotations

_NOUNS = """
a about above access account action active actual additional address admission ahead airport already also ambiguous
amd64 amount amounts an and any api app application appointment architecture archive are arg args argument arguments
arm64 array arrays arrival as ascii assembly assert assertion assignment at attempt attribute attributes auth
authentication authorization available aware backend bad baggage balance base basic be been before below between
billing binary binding block body booking bookings boolean brace bracket branch branches broadcast broken buffer bug
build business but by byte bytes cabin cache cached calendar call callable calls canceled cancelled card cards cargo
cart case catalog category certificate channel char character characters check checkout checksum child choice choices
circular city class classpath cli client clock closing cluster code codec codepoint collection color column columns
command commit commits compatible compiler complete component conda config configuration conflict conflicts connection
connections constant constraint constraints constructor contacts container content contents context contract
conversion convertible core corrupt corrupted count country coupon cpu crate crates credential credentials credit css
cuda currency current customer customers cycle daemon data database dataset date dates datetime day days dead deadline
deadlock debug declaration decorator default definition delivered delivery denied departure dependencies dependency
deprecated depth descriptor descriptors destination device dict dictionary different digit dimension dimensional
dimensions directories directory discount disk distance diverged dns docker does domain double down driver dumped
duplicate duplicated during each early economy edition editor element elements eligible email empty encoding end
endpoint engine engines enough entry enum environment environments eof eol equal errno error errors escape event exact
exceeded exception exceptions exec executable exit expected experimental expired explicit expression extension extra
failed failure false fare fatal few field fields file filename files filesystem first flag flight flights float folder
following for forbidden foreign format formatting fraction framework from frozen function functions gcc generator gift
git global gpu gradle greater group had handle handler hardware has hash have head header headers heads heap height
hint host hostname hosts hours html http https id identical identifier identity ids image implicit import in inactive
incompatible incomplete inconsistent incorrect indent indentation indented index indexing ineligible inner input
inputs insecure inside installation instance insurance int integer integers interface internal interpreter into
invalid inventory invoice invoices io ip ipv4 ipv6 is issue it item items iterable iterator its java jdk job json just
jvm kernel key keys keyword kind label language large last late layer least left length less level libraries library
license limit limits line lines link linker list lists literal llvm loaded local locale location lock lockfile log
long longer loop lower main major malformed manifest many map mapped mapping mask match maximum meeting member members
membership memory merchant merge merged message metadata method methods migration migrations minimum minor minutes
mismatch missing mixed mode model modified module modules month more most mount multiple mutable name named names
namespace native near negative nested network never new newer nightly no node non none nonexistent nonzero not nothing
npm null number object objects of off offset old older on one online only opaque operand operands operation operator
option optional options or order ordinal origin os other out outdated outer output outside over overflow own owner
package packages paid parameter parameters parent parenthesis parser partial partially passenger passengers password
patch path paths pattern payment payments peer pending per permission permissions permitted persistent phone pid pip
pipe pixel plan plans platform plugin plugins pod pods point pointer policy pool port position positional positive
possible precision prefix premium present previous price prices primary prior private privilege privileges problem
process processed product products profile program project property protected protocol provider proxy public pushed
python quantity query queue quota quote quotes ram range rate raw reached reason receipt recipient record recursion
recursive reentrant ref reference refs refund refunded refused region register registry regular rejected relation
relative release remaining remote replica repository request requests requirement requirements reservation
reservations reserved resource resources response responses result results return returned revision revisions role
roles room root round route row rows ruby rule runtime rust safe sample scalar schema scope script sdk seat seats
second seconds section segment segmentation seller sender separator sequence server service session set setting shape
shared shell shipment shipments shipped shipping short side signal signature single size sizes slot small socket sold
solution solver some source space spaces sql ssh ssl stable stack staged stale standard start state statement static
status stderr stdin stdout step stock storage stream street string strings struct style sub subcommand subprocess
subscriptable subscription substitution such suffix supplied supplier supported surrogate symbol symbolic symbols
symlink syntax system tab table tables tabs tag target targets task tcp template temporary terminal test tests text
than that the their there this thread threads ticket tickets time timeout timestamp timezone tls to together token
tokenizer tokens too toolchain total traceback trailing trait transaction tree trip true truth tuple two type types
udp unable unauthorized unclosed undefined unexpected unhandled unhashable unicode unindent union unique unit unknown
unmatched unmerged unpaid unreachable unrecognized unresolved unsafe unsatisfiable unsigned unstable unstaged
unsupported unterminated until untracked unverified up upper upstream url usage user utf value values variable
variables variant vector vendor venv verified version versions via virtualenv void volume voucher warehouse warning
was webhook week weight weights wheel when where whether which while width window with within without word words
worker working workspace wrapper wrong yaml year zero zip zone
"""
NOUNS = frozenset(_NOUNS.split())
"""Nouns, adjectives and small words of error messages."""

_VERBS = """
abort accept access activate add allocate allow apply assign attach authenticate authorize avoid await bind boot
borrow break build cast change check clone close collect compile compute configure confirm connect construct contain
continue convert copy create cross deactivate decode define delete depend deploy deprecate derive detach detect
determine download drop encode encounter enter establish evaluate exceed execute exhaust exist expect expire export
extract fail fetch find finish fit fix follow format generate get give handle hold hook ignore implement import
include infer init initialize inspect install instantiate interrupt invoke kill know launch limit link list load
locate lock lookup make map match meet merge migrate mix modify mount move name need negotiate obtain occur open
overflow override overwrite pack parse pass perform permit pickle place prepare prevent process produce protect
provide publish pull push query quote raise reach read rebase receive recognize record refer refuse register reject
release reload remove rename render repeat replace represent require reset resolve respond restart restore resume
retrieve rewrite run satisfy save say scan schedule see serialize set shut skip solve specify split start stat state
stop store support suppress surround synchronize tell terminate test throw time track translate truncate try type
uninstall unlink unlock unmount unpack unpickle unquote unset unzip update upgrade use validate verify wait want warn
work wrap write yield
"""
VERBS = frozenset(_VERBS.split())
"""Verbs of error messages: quoted as "failed to open" and in forms that order nothing ("opened", "opening")."""

_GOVERNORS = """
be been can can't cannot could couldn't did didn't does doesn't failed may not that to unable which won't
"""
GOVERNORS = frozenset(_GOVERNORS.split())
"""After these a verb is no order."""

_PARTICIPLES = """
begun bound broken built chosen done drawn found given got gotten held hidden hung kept known left lost made meant met
overridden overwritten paid rewritten seen sent shown spent taken thrown told unbound understood written
"""
PARTICIPLES = frozenset(_PARTICIPLES.split())
"""Participles that are not made by rule."""

_VERBS_TOO = """
access address attempt block build cache call change channel check claim code command commit connection copy count
debug default display document download dump escape exit export fetch file format group handle head hold host import
index input issue key label license limit link list load lock log map mask match merge message migrate mount move mute
name need number object order output own package parent patch path pipe place point pool position prefix present
process profile program project protocol proxy query queue range rate reason record reference register release repeat
report request reset result return revision role route run sample script secret service set shape share shell signal
size source space split stack start state step stop store stream string struct subject support switch tag target task
test thread time token trace transaction trigger try type update upgrade use user value version view volume wait
warning watch window work wrap write yield
"""
VERBS_TOO = frozenset(_VERBS_TOO.split())
"""Nouns that may order where they begin a clause."""

_STATES = """
already conflict denied does error failed has index is mismatch not object of out refused too was
"""
STATES = frozenset(_STATES.split())
"""What follows a noun, not an order."""

_NAMED = """
attribute column field file key module name object option package table type value
"""
NAMED = frozenset(_NAMED.split())
"""Nouns before a name in quotation marks."""
