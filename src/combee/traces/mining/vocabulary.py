"""The vocabulary of error messages: what of a tool's own words a lesson may hold. No word of it orders anything."""

from __future__ import annotations

__all__ = ["GOVERNORS", "NAMED", "NOUNS", "PARTICIPLES", "STATES", "VERBS", "VERBS_TOO"]

_NOUNS = """
a about above access account action active additional address airport already also ambiguous amount amounts an and any
api app application appointment archive are arg args argument arguments array arrays arrival as ascii assert assertion
assignment at attempt attribute attributes auth authentication authorization available backend bad baggage balance
base basic be been before below billing binary binding block body booking bookings boolean branch broken buffer bug
build business but by byte bytes cabin cache cached calendar call callable calls canceled cancelled card cards cargo
cart case catalog category certificate channel char character characters check checkout checksum child choice choices
circular city class cli client clock closing code codec collection color column columns command commit compatible
compiler complete component conda config configuration conflict conflicts connection connections constant constraint
constraints constructor contacts container content contents context contract conversion corrupt corrupted count
country coupon cpu credential credentials credit css cuda currency current customer customers cycle data database
dataset date dates day days dead deadline deadlock debug declaration decorator default definition delivered delivery
denied departure dependencies dependency deprecated depth descriptor descriptors destination device dict dictionary
digit dimension dimensions directories directory discount disk distance dns docker does domain down driver duplicate
duplicated each early economy editor element elements eligible email empty encoding end endpoint engine enough entry
enum environment environments eof equal errno error errors event exact exceeded exception exceptions exec executable
exit experimental expired expression extension extra failed failure false fare fatal few field fields file filename
files filesystem first flag flight flights float folder following for forbidden foreign format fraction from function
functions gcc generator gift git global gpu greater group had handle handler hardware has hash have head header
headers heap height hint host hostname hours html http https id identifier identity ids image implicit import in
inactive incompatible incomplete inconsistent incorrect indent indentation index ineligible inner input inputs
insecure inside installation instance insurance int integer interface internal interpreter into invalid inventory
invoice invoices io ip ipv4 ipv6 is issue it item items iterable iterator its java jdk job json just kernel key keys
keyword kind label language large last late layer least left length less level libraries library license limit limits
line lines link linker list lists literal llvm local locale lock log long loop lower main major malformed manifest
many map mapping mask match maximum meeting member members membership memory merchant merge message metadata method
methods migration migrations minimum minor minutes mismatch missing mode model modified module modules month more most
mount multiple mutable name named names namespace native negative nested network new newer no node non none
nonexistent nonzero not nothing npm null number object objects of off offset old older on one online only opaque
operand operation operator option optional options or order origin os other out outdated outer output outside over
overflow own owner package packages paid parameter parameters parent parser partial partially passenger passengers
password patch path paths pattern payment payments peer pending per permission permissions permitted persistent phone
pid pip pipe pixel plan plans platform plugin point pointer policy pool port position positional positive possible
precision prefix premium present previous price prices primary prior private privilege privileges problem process
processed product products profile program project property protocol provider proxy public python quantity query queue
quota ram range rate raw reached reason receipt recipient record recursion recursive ref reference refund refunded
refused region register registry release remaining remote repository request requests requirement requirements
reservation reservations reserved resource resources response responses result results return returned revision role
room root round route row rows ruby rule runtime rust safe sample scalar schema scope script sdk seat seats second
seconds section segment segmentation seller sender separator sequence server service session set shape shared shell
shipment shipments shipped shipping short side signal signature single size sizes slot small socket sold solver some
source space sql ssh ssl stack stale standard start state statement static status stderr stdin stdout step stock
storage stream street string strings struct style sub subcommand subprocess subscription substitution such suffix
supplied supplier supported symbol symbols symlink syntax system tab table tag target task tcp template temporary
terminal test tests text than that the their there this thread threads ticket tickets time timeout timestamp tls to
token tokenizer tokens too total traceback trailing trait transaction tree trip true tuple two type types udp unable
unauthorized undefined unexpected unhandled unicode unindent union unique unit unknown unmatched unpaid unreachable
unrecognized unresolved unsafe unsatisfiable unsigned unstable unsupported unterminated until unverified up upper url
usage user utf value values variable variables variant vector vendor venv verified version versions via virtualenv
void volume voucher warehouse warning was week weight weights wheel when where whether which while width window with
within without word words worker working workspace wrong yaml year zero zip zone
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
already conflict denied does error failed has index is mismatch not object out refused too was
"""
STATES = frozenset(_STATES.split())
"""What follows a noun, not an order."""

_NAMED = """
attribute column field file key module name object option package table type value
"""
NAMED = frozenset(_NAMED.split())
"""Nouns before a name in quotation marks."""
