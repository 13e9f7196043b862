"""What commands share, ours and those of other packages: types of options, groups of options, and live progress."""

from __future__ import annotations
