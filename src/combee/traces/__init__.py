"""Traces of other programs: readers for their formats, and lessons found in them without a model."""
