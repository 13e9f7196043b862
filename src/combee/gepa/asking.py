"""One call for a text or for operations: a reply of no use is kept and asked about once, then it is a typed error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from combee.errors import CallError, CallErrorKind
from combee.gepa.prompts import again_prompt
from combee.gepa.replies import read_text
from combee.kernel.journal import JSON, Scope
from combee.model import Message, Model, Request, Response, complete_json, find_json
from combee.model.asking import model_print, request_hash, response_from_json, response_to_json

__all__ = ["Answer", "Asker"]

_SHOWN = 8000  # characters of a bad reply that are shown back


@dataclass(frozen=True, slots=True)
class Answer:
    """A text and the reply it was read from."""

    text: str
    raw: str


class _UsableError(Exception):
    """Carries a usable reply past the journal: whoever asked keeps what it comes to."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


@dataclass(frozen=True, slots=True)
class Asker:
    """How the calls of one component are made. Replies of no use are kept in the scope, for a replay."""

    model: Model
    scope: Scope | None
    max_tokens: int
    temperature: float
    seed: int = 0

    @property
    def settings(self) -> list[JSON]:
        """What besides a prompt decides a reply."""
        return [*model_print(self.model), self.max_tokens, self.temperature, self.seed]

    def request(self, prompt: str, *, role: str, item: str) -> Request:
        """Return the first request."""
        return Request(
            (Message("user", prompt),),
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            seed=self.seed,
            role=role,
            item=item,
            accept_cut=True,
        )

    async def text(self, prompt: str, *, role: str, item: str) -> Answer:
        """Return the new text of a reply.

        Raises:
            CallError: The call failed, or neither of two replies could be used.
        """
        request = self.request(prompt, role=role, item=item)
        response = await self._kept(request, lambda said: not _problem(said))
        first = read_text(response.text, cut=response.finish == "length")
        if not first.problem:
            return Answer(first.text, response.text)
        said = Message("assistant", response.text[:_SHOWN] or "(nothing)")
        again = replace(
            request,
            role=f"{role}/again",
            messages=(*request.messages, said, Message("user", again_prompt(first.problem))),
            max_tokens=2 * self.max_tokens if response.finish == "length" else self.max_tokens,
        )
        second_response = await self.model.complete(again)
        second = read_text(second_response.text, cut=second_response.finish == "length")
        if second.text:
            return Answer(second.text, second_response.text)
        empty = "empty" in second.problem
        raise CallError(
            f"neither of two replies could be used: {first.problem}; then {second.problem}",
            kind=CallErrorKind.EMPTY if empty else CallErrorKind.SCHEMA,
            hint="Raise output_tokens where replies are cut off; a stronger model keeps to the form more often.",
        )

    async def json(self, prompt: str, *, role: str, item: str, required: str, schema: Mapping[str, Any]) -> Any:
        """Return what stands under the required key of the object in a reply.

        Raises:
            CallError: The call failed, or neither of two replies held such an object.
        """

        def usable(said: Response) -> bool:
            found = find_json(said.text, (required,), schema)
            return found is not None and not found.cut

        request = self.request(prompt, role=role, item=item)
        keeper = _Keeper(self, usable)
        return (await complete_json(keeper, request, required=(required,), schema=schema))[required]

    async def _kept(self, request: Request, usable: Callable[[Response], bool]) -> Response:
        """Return the reply to a first request; one that is of no use is bought once only."""
        if self.scope is None:
            return await self._reply(request)

        async def first() -> JSON:
            response = await self._reply(request)
            if usable(response):
                raise _UsableError(response)
            return response_to_json(response)

        name = request_hash(request, self.model)
        try:
            kept = await self.scope.once(f"{request.role}/unusable", request.item, name, first)
        except _UsableError as good:
            return good.response
        return response_from_json(cast("dict[str, Any]", kept))

    async def _reply(self, request: Request) -> Response:
        """Return a reply; an empty one is asked about like any other that is of no use."""
        try:
            return await self.model.complete(request)
        except CallError as error:
            if error.kind is not CallErrorKind.EMPTY:
                raise
            return Response("")


def _problem(response: Response) -> str:
    return read_text(response.text, cut=response.finish == "length").problem


@dataclass(frozen=True, slots=True)
class _Keeper:
    """The model as `complete_json` sees it."""

    asker: Asker
    usable: Callable[[Response], bool]

    @property
    def name(self) -> str:
        return self.asker.model.name

    async def complete(self, request: Request) -> Response:
        if request.role.endswith("/again"):
            return await self.asker.model.complete(request)
        return await self.asker._kept(request, self.usable)
