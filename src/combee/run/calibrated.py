"""What a calibration kept in this folder says of a model: how many reflections one of its calls can take."""

from __future__ import annotations

from pathlib import Path

from combee.kernel.aggregate import ONE_CALL, UNUSED
from combee.run.settings import Settings
from combee.tasks.calibration import CALIBRATIONS, known_calibrations

__all__ = ["model_of", "with_calibration"]


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
