"""HTTP/1.1 for calls whose replies come in one piece, thousands at once: connections, and a pool of them to one place.

A call takes a quarter of the CPU that a general client takes; llhttp (by httptools) reads the replies.
"""

from __future__ import annotations

from combee.model.wire.connection import HttpReply, WireError
from combee.model.wire.connector import Proxy, Route
from combee.model.wire.pool import Pool, Timeouts

__all__ = ["HttpReply", "Pool", "Proxy", "Route", "Timeouts", "WireError"]
