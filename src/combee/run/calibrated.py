"""Planted facts for a calibration (`combee.run.calibrate`), and its results: kept by model, and used by runs.

Results lie in `combee-calibration.json` in the project folder, beside `combee.toml`: they belong to the project's model
and prompts, can be read and versioned, and nothing is hidden in a home folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from combee.errors import DataError
from combee.files import read_regular, write_whole
from combee.kernel.aggregate import ONE_CALL, UNUSED
from combee.kernel.learn.roles import Reflection

if TYPE_CHECKING:
    from combee.run.settings import Settings

CALIBRATIONS = "combee-calibration.json"

_SUBJECTS = ("invoice", "shipment", "refund", "ledger entry", "purchase order", "claim", "lease", "dividend")
_FIELDS = ("account", "form", "desk", "register", "schedule", "queue", "folder", "statement")


def planted(number: int) -> Reflection:
    """Return a reflection with one fact that no other number has: two codes that a lesson must hold to be of use."""
    noise = hashlib.blake2b(f"planted {number}".encode(), digest_size=8).hexdigest().upper()
    subject, what = _SUBJECTS[number % 8], _FIELDS[number // 8 % 8]
    code, target = f"{noise[:2]}-{number:05d}-{noise[2:4]}", f"{int(noise[4:9], 16) % 90_000 + 10_000}"
    lesson = f"When a {subject} carries the code {code}, book it in {what} {target}."
    text = f"The answer was wrong: the {subject} with the code {code} was booked elsewhere. {lesson}"
    name = f"planted-{number:05d}"
    return Reflection(id=name, trace=name, task=name, text=text, lessons=(lesson,), passed=False)


def known_calibrations(folder: Path = Path()) -> dict[str, dict[str, Any]]:
    """Return the stored results by model; none where there is no file. One that kept nothing has no `max_items`.

    Raises:
        DataError: The file is damaged.
    """
    path = folder / CALIBRATIONS
    if not path.exists():
        return {}
    try:
        values = json.loads(read_regular(path).decode("utf-8"))
    except ValueError as error:
        raise DataError(f"cannot be read: {error}", path=path, hint="Take it away and calibrate again.") from error
    valid = isinstance(values, dict) and all(
        isinstance(one, dict) and (isinstance(one.get("max_items", 1), int) and one.get("max_items", 1) > 0)
        for one in values.values()
    )
    if not valid:
        raise DataError("is not a file of calibrations", path=path, hint="Take it away and calibrate again.")
    return dict(values)


def keep_calibration(model: str, result: Mapping[str, Any], folder: Path = Path()) -> Path:
    """Store the result for a model in place of an earlier one and return the file. Raises as `write_whole`."""
    path = folder / CALIBRATIONS
    text = json.dumps(known_calibrations(folder) | {model: dict(result)}, indent=2, sort_keys=True) + "\n"
    return write_whole(path, text)


def model_of(spec: Settings) -> str:
    """Return the name under which an agent's calibration is kept: its curator's model, or the embedded curator."""
    if spec.calls_models:
        return spec.model_of("curator").name
    loss = [f"{key}={value:g}" for key in ("forget", "output_limit") if (value := getattr(spec.agent, key)) is not None]
    return " ".join(["lexical", *loss])


def with_calibration(spec: Settings, least: int = 1, folder: Path = Path()) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings with what a calibration in this folder recommends, and what to say of it.

    `least` is the fewest reflections a call must take. What was given stays.
    """
    found = known_calibrations(folder).get(model_of(spec))
    if found is None or spec.origin("learn", "max_items") is not None:
        return spec, ()
    if "max_items" not in found:
        return spec, (f"the calibration of {model_of(spec)} in {CALIBRATIONS} kept nothing: max_items is the default",)
    size = max(least, int(found["max_items"]))
    config = spec.learn_config()
    measured = f"max_items = {size}, measured for {model_of(spec)} (from {CALIBRATIONS}; delete the file to undo)"
    learn, said = {"max_items": size}, measured
    if config.aggregate in ONE_CALL and config.batch == "auto":
        learn = {"max_batch": config.max_batch or size}
        said = f"{measured}; one call reads a whole batch here, so max_batch = {learn['max_batch']}"
    elif "max_items" in UNUSED[config.aggregate]:
        return spec, ()
    return spec.over({"learn": learn}, CALIBRATIONS), (said,)
