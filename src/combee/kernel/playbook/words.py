"""Word lists of English for judging what is distinctive in a lesson.

They are short on purpose and never depend on a book.
"""

from __future__ import annotations

__all__ = ["COMMON", "NEGATIONS", "SOFT", "SYNONYMS"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SOFT = _words(
    """
    a also always am an are be been being carefully clearly correctly course did do does ensure i important
    importantly is it its just make must need needs note of our please properly really remember s shall should
    simply sure that the their them these they this those us very we which you your
    """
)
"""Words that may come and go without changing what a lesson tells the agent to do."""

NEGATIONS = _words(
    """
    avoid cannot except exclude excluding hardly ignore instead neither never no nobody none nor not nothing
    nowhere rather stop unless without
    """
)

SYNONYMS = {
    "every": "each",
    "verify": "check",
    "confirm": "check",
    "compute": "calculate",
    "utilize": "use",
    "utilise": "use",
    "whenever": "when",
    "prior": "before",
    "labelled": "labeled",
}
"""Words that say the same to an agent. Opposites, quantities and directions are never in here."""

COMMON = _words(
    """
    about above across act action actually add after again against agent ahead all allow almost along already
    although among amount and another answer any anything appear apply approach around as ask at away back base
    based because become before begin behind below best better between big both bring but by call can case cause
    certain change check choose clear close come common compare complete consider contain context continue could
    count current data day deal decide depend describe detail different direct doing done down during each early
    easy either else end enough entire even ever every exact example exist expect explain fact far few field
    figure file find first follow following for form found from full further general get give given go good great
    group had handle happen hard has have having help hence here high how however if important in include
    including indicate information input inside into item itself keep key kind know large last late later lead
    learn least leave left less lesson let like likely line list little long look lot low made main many match
    matter may mean means mention mentioned method might more most much name near necessary never new next now
    number occur off often old on once one only open or order other otherwise out output over own part particular
    pass perform place point possible possibly present previous problem produce provide put question quite rather
    reach read reason recall refer reference related rely report represent require response rest result return
    right rule run said same say second section see seem select sentence set several show similar simple since
    single small so some something specific specify start state step still such take task tell text than their
    then there therefore thing think through thus time to together too total toward true try turn two type under
    until up upon use used useful user using usually value various want was watch way well were what when where
    whether while who whole why will with within word work would write wrong yes yet
    """
)
"""Words too common to tell one lesson from another."""
