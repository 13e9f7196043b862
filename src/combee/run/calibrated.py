"""What a calibration kept in this folder says of a model: how many reflections one of its calls can take."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from combee.kernel.learn.reduce import ONE_CALL
from combee.run.spec import RunSpec
from combee.tasks.calibration import CALIBRATIONS, known_calibrations

__all__ = ["model_of", "with_calibration"]


def model_of(spec: RunSpec) -> str:
    """Return the name under which an agent's calibration is kept: its curator's model, or the embedded curator."""
    if spec.agent.get("kind", "lexical") == "ace":
        own = spec.model.get("curator", {})
        return str(own.get("name") or spec.model.get("name") or "ace")
    loss = [f"{key}={spec.agent[key]:g}" for key in ("forget", "output_limit") if spec.agent.get(key) is not None]
    return " ".join(["lexical", *loss])


def with_calibration(spec: RunSpec, least: int = 1, folder: Path = Path()) -> tuple[RunSpec, tuple[str, ...]]:
    """Return the settings with what a calibration in this folder recommends, and what to say of it.

    `least` is the fewest reflections a call must take. What was given stays.
    """
    found = known_calibrations(folder).get(model_of(spec))
    if found is None or "max_items" in spec.learn:
        return spec, ()
    if "max_items" not in found:
        return spec, (f"the calibration of {model_of(spec)} in {CALIBRATIONS} kept nothing: max_items is the default",)
    size = max(least, int(found["max_items"]))
    learn = {**spec.learn, "max_items": size}
    said = f"max_items = {size}, measured for {model_of(spec)} (from {CALIBRATIONS}; delete the file to undo)"
    if spec.learn.get("aggregate", "combee") in ONE_CALL and spec.learn.get("batch") == "auto":
        learn.setdefault("max_batch", size)
        said += f"; one call reads a whole batch here, so max_batch = {learn['max_batch']}"
    return dataclasses.replace(spec, learn=learn), (said,)
