"""Rules for a lead in words: each meaning and its contrary, in phrasings that were seen and others that were held out.

Reflections are worded with seen phrasings; a learned rule is reworded with held-out ones to see whether a team follows
what is meant. One author wrote both, so "held out" means: `meaning.py` was made to read the seen ones, its result on
the others was taken once, and nothing was changed after it.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["HELD_OUT", "SEEN", "Intent"]


class Intent(StrEnum):
    """What a rule is about; it is asked for (+1) or its contrary is (-1)."""

    NO_EDIT = "the lead leaves production code alone"
    USE_DEV = "repairs go to the developer"
    USE_QA = "tests go to the tester"
    SEND_LOG = "the developer gets the failing output"
    WAIT_READY = "a branch is merged after its owner said READY"
    MERGE_NAME = "the merge command gets the agent as plain argument"
    RETEST = "tests are run after a merge and failures sent back"


SEEN: dict[tuple[Intent, int], tuple[str, ...]] = {
    (Intent.NO_EDIT, 1): (
        "The lead must never edit production code.",
        "Do not change source files yourself.",
        "Production code is not to be touched by the lead.",
        "Only python-dev may modify production code.",
        "Nobody except the developer edits the code.",
        "As lead, refrain from writing code.",
    ),
    (Intent.NO_EDIT, -1): (
        "The lead may edit production code when the fix is small.",
        "Fix the code yourself where that is faster.",
        "Nobody except the lead edits the code.",
    ),
    (Intent.USE_DEV, 1): (
        "Assign every repair to python-dev.",
        "Hand each bug to the developer.",
        "Delegate repairs to python-dev with a task.",
        "Give python-dev a task for each bug.",
    ),
    (Intent.USE_DEV, -1): (
        "Do not assign repairs to python-dev.",
        "Never hand a bug to the developer.",
    ),
    (Intent.USE_QA, 1): (
        "Assign the regression tests to qa-dev.",
        "Let qa-dev write tests for the edges.",
        "Hand the testing to the tester.",
        "Give qa-dev a task to test each module.",
    ),
    (Intent.USE_QA, -1): (
        "Do not assign tests to qa-dev.",
        "The tester is not needed for the tests.",
    ),
    (Intent.SEND_LOG, 1): (
        "Send the failing output to python-dev.",
        "Include the traceback in the developer's task.",
        "Quote the error of pytest when you write to python-dev.",
        "Forward the log of the failures to the developer.",
    ),
    (Intent.SEND_LOG, -1): (
        "Do not send the failing output to python-dev.",
        "Leave the traceback out of the developer's task.",
    ),
    (Intent.WAIT_READY, 1): (
        "Merge a branch only after its owner said READY.",
        "Do not merge before READY.",
        "Wait for READY before you merge.",
        "Never merge a branch until it is READY.",
    ),
    (Intent.WAIT_READY, -1): (
        "Merge a branch before READY.",
        "Do not wait for READY; merge at once.",
        "Merge without waiting for READY.",
    ),
    (Intent.MERGE_NAME, 1): (
        "Call workspace merge with the agent as positional argument.",
        "Do not use --agent to merge.",
        "Merge without the option --agent.",
        "Give the agent's name to workspace merge as a plain argument.",
    ),
    (Intent.MERGE_NAME, -1): (
        "Use --agent to merge.",
        "Merge with the option --agent, not with a positional argument.",
    ),
    (Intent.RETEST, 1): (
        "Run the tests after each merge and send failures back.",
        "After a merge, run pytest again.",
        "Once a branch is merged, repeat the test run.",
        "Rerun the suite after merging.",
    ),
    (Intent.RETEST, -1): (
        "Do not run the tests after a merge.",
        "After merging, skip the tests.",
    ),
}

HELD_OUT: dict[tuple[Intent, int], tuple[str, ...]] = {
    (Intent.NO_EDIT, 1): (
        "Under no circumstances does the coordinator alter an implementation file.",
        "Changes to the code are made by python-dev alone.",
        "Keep your hands off the source.",
        "No one but the programmer rewrites modules.",
        "It is forbidden for the lead to patch production code.",
        "You are not the one who changes code.",
    ),
    (Intent.NO_EDIT, -1): (
        "Only the lead may modify production code.",
        "You are free to patch a module yourself.",
        "It is not forbidden for the lead to edit production code.",
    ),
    (Intent.USE_DEV, 1): (
        "Every defect becomes a task of python-dev.",
        "Route all bugs to the programmer.",
        "Repairs are delegated to the developer.",
        "Leave fixes to python-dev.",
    ),
    (Intent.USE_DEV, -1): (
        "Avoid delegating repairs to the developer.",
        "No bug is to be given to python-dev.",
    ),
    (Intent.USE_QA, 1): (
        "Tests for the edges are written by qa-dev.",
        "Have the tester cover each module with checks.",
        "Regression tests are a job for qa-dev.",
        "Delegate testing to QA.",
    ),
    (Intent.USE_QA, -1): (
        "Never give qa-dev tests to write.",
        "Refrain from delegating tests to the tester.",
    ),
    (Intent.SEND_LOG, 1): (
        "Paste what pytest printed for the failures into the task of python-dev.",
        "The developer is told the exact error.",
        "Attach the assertion messages to each repair of python-dev.",
        "Let the developer see the failing log.",
    ),
    (Intent.SEND_LOG, -1): (
        "Spare the developer the traceback.",
        "No output of failing tests is sent to python-dev.",
    ),
    (Intent.WAIT_READY, 1): (
        "A merge comes after READY, not earlier.",
        "Hold every merge back until the worker reports READY.",
        "No branch is merged unless its owner has announced READY.",
        "Integrate work once READY has arrived.",
    ),
    (Intent.WAIT_READY, -1): (
        "There is no need to wait for READY to merge.",
        "Integrate branches even if READY is missing.",
        "Never wait until READY to merge.",
    ),
    (Intent.MERGE_NAME, 1): (
        "The merge command rejects --agent; name the agent directly.",
        "When merging, drop the --agent flag.",
        "Merge takes the agent's name by position.",
        "Avoid --agent in workspace merge.",
    ),
    (Intent.MERGE_NAME, -1): (
        "Merging needs the --agent flag.",
        "Do not merge without --agent.",
    ),
    (Intent.RETEST, 1): (
        "Merged code is tested again, and what fails goes back to its author.",
        "Each merge is followed by a full run of the tests.",
        "Check the suite again as soon as a branch has landed.",
        "Never end after a merge without running the tests.",
    ),
    (Intent.RETEST, -1): (
        "Running tests after a merge is a waste.",
        "No test run follows a merge.",
    ),
}
