"""Meters around whatever costs: model calls and desktop slots. What they count goes to the stage's ledger.

`MeteredClient` counts an engine in this process, a batch an entry. `PaidClient` makes a `PolicyClient` of an endpoint
that somebody bills: it looks at the spend cap before every batch, announces every real call in the ledger before it is
made and settles it after, tries again what failed in passing, and keeps the answers in the stage's work directory, so
that a stage that was killed or stopped by the cap gets them again for nothing.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from components.contracts.desktop import Desktop
from components.contracts.digests import digest_value
from components.contracts.errors import PolicyError
from components.contracts.folding import ImagePart
from components.contracts.stage import EventSink, Meter, NullMeter
from components.rollout.policy import Completion, PolicyClient, Request
from components.rollout.screens import screen_digest

D = TypeVar("D", bound=Desktop)

BATCH = 8
"""Calls between two looks at the spend cap: what a run may spend beyond it, in each of its processes."""
TRIES = 4
"""Real calls for one request, at most."""
FIRST_PAUSE_S = 1.0
"""Before the second try; doubled for each further one, unless the server says how long."""


# Engines in this process.


class MeteredClient:
    """The same client, with an entry in the ledger for every `complete`. Tokens are those of its own ids."""

    def __init__(
        self, client: PolicyClient, events: EventSink, model: str, *, parameters: float = 0.0,
        meter: Meter | None = None,
    ) -> None:  # fmt: skip
        """`model` is the name in the price table, `parameters` its size N. With a `meter` the cap is kept."""
        self._client, self._events, self._model = client, events, model
        self._parameters, self._meter = parameters, meter or NullMeter()

    @property
    def special(self) -> tuple[str, ...]:
        return self._client.special

    @special.setter
    def special(self, value: tuple[str, ...]) -> None:
        self._client.special = value

    @property
    def version(self) -> int:
        return self._client.version

    @version.setter
    def version(self, value: int) -> None:
        self._client.version = value

    def complete(self, requests: Sequence[Request], temperature: float) -> list[Completion]:
        """Raises BudgetError before the engine is asked when the cap is reached."""
        if not requests:
            return []
        self._meter.check(self._model)
        done = self._client.complete(requests, temperature)
        self._events.ledger(
            "inference",
            model=self._model,
            calls=len(done),
            tokens_in=sum(len(completion.prompt_ids) for completion in done),
            tokens_out=sum(len(completion.response_ids) for completion in done),
            parameters=self._parameters,
        )
        return done


# Desktop slots.


def metered_slots(
    factory: Callable[[], AbstractContextManager[D]], events: EventSink
) -> Callable[[], AbstractContextManager[D]]:
    """The same factory; every slot's time, from its start to its end, is an entry in the ledger."""

    @contextmanager
    def slot() -> Iterator[D]:
        began = time.monotonic()
        try:
            with factory() as desktop:
                yield desktop
        finally:
            events.ledger("sandbox", seconds=round(time.monotonic() - began, 6), episodes=1.0)

    return slot


# Endpoints that are paid by the token.


@dataclass(frozen=True)
class Usage:
    """Tokens of one real call as its provider counts them; `cached_in` are those of `tokens_in` from its cache."""

    tokens_in: int
    tokens_out: int
    cached_in: int = 0


@dataclass(frozen=True)
class Answer:
    """One real call's result. `usage` None: the provider did not say, so its price is not known."""

    text: str
    usage: Usage | None
    cut_off: bool = False


class EndpointError(PolicyError):
    """A real call that gave no answer.

    `passing`: another try may help, after `pause` seconds if the server said so. `billed`: None when nobody knows
    (the connection broke), else what the server says it used.
    """

    def __init__(
        self, message: str, *, where: str = "", remedy: str = "", passing: bool = False, pause: float | None = None,
        billed: Usage | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message, where=where, remedy=remedy)
        self.passing, self.pause, self.billed = passing, pause, billed


class Endpoint(Protocol):
    """One model behind one address. `settings` is what an answer depends on beside the request, as plain data."""

    model: str
    settings: dict[str, Any]

    def call(self, request: Request, temperature: float) -> Answer:
        """One real call. Raises EndpointError."""
        ...


class Journal:
    """Answers that are paid for, a JSON line each, by what was asked. Survives a kill; a torn last line is left out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        self._read = 0
        self._look()
        if self._size() > self._read:
            os.write(self._fd, b"\n")  # closes what a killed writer left

    def _size(self) -> int:
        return os.fstat(self._fd).st_size

    def _look(self) -> None:
        """Take in whole lines written since, by whatever process."""
        data = os.pread(self._fd, max(0, self._size() - self._read), self._read)
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            try:
                entry = json.loads(line)
                self._known[entry["key"]] = entry
            except (ValueError, KeyError, TypeError):
                continue

    def get(self, key: str) -> dict[str, Any] | None:
        with self._lock:
            if key not in self._known and self._size() > self._read:
                self._look()
            return self._known.get(key)

    def put(self, entry: dict[str, Any]) -> None:
        """On disk when this returns, also after a power cut."""
        data = json.dumps(entry, sort_keys=True).encode() + b"\n"
        with self._lock:
            os.write(self._fd, data)
            self._known[entry["key"]] = entry
        os.fdatasync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


class PaidClient:
    """`PolicyClient` over an endpoint. One per process; safe to use in forked workers that share the work directory."""

    special: tuple[str, ...] = ()
    version = 0

    def __init__(
        self, endpoint: Endpoint, events: EventSink, meter: Meter, work: Path, *, kind: str = "teacher",
        batch: int = BATCH, parallel: int = 4, tries: int = TRIES, first_pause: float = FIRST_PAUSE_S,
    ) -> None:  # fmt: skip
        """`work` is the stage's work directory. `batch` calls, `parallel` at a time, between two looks at the cap."""
        self._endpoint, self._events, self._meter, self._kind = endpoint, events, meter, kind
        self._batch, self._parallel, self._tries, self._first_pause = batch, parallel, tries, first_pause
        self._journal = Journal(work / "paid_calls.jsonl")
        self._over = threading.Event()

    def complete(self, requests: Sequence[Request], temperature: float) -> list[Completion]:
        """Answers in the order of the requests; those that are in the journal are not asked again.

        Raises BudgetError before a batch when the cap is reached, EndpointError when a request failed for good. What
        was answered until then is kept for the next attempt.
        """
        keys = [self._key(request, temperature) for request in requests]
        answers: dict[str, Answer] = {}
        missing: dict[str, Request] = {}
        for key, request in zip(keys, requests, strict=True):
            if (known := self._journal.get(key)) is not None:
                answers[key] = self._again(known)
            elif key in missing:
                self._events.ledger(self._kind, model=self._endpoint.model, hits=1)
            else:
                missing[key] = request
        todo = list(missing.items())
        for start in range(0, len(todo), self._batch):
            self._meter.check(self._endpoint.model)
            answers |= self._ask(todo[start : start + self._batch], temperature)
        return [_completion(answers[key]) for key in keys]

    def _key(self, request: Request, temperature: float) -> str:
        messages = [[m.role, [_part(part) for part in m.parts]] for m in request.messages]
        # A sampled call is told apart by its noise; a greedy one is the same call whoever asks.
        noise = request.noise if temperature > 0 else ""
        return digest_value([self._endpoint.model, self._endpoint.settings, temperature, noise, messages])

    def _again(self, entry: dict[str, Any]) -> Answer:
        """An answer of the journal. Its entry has the call's id, so the ledger knows whether it was settled."""
        own = entry["run"] == self._meter.run
        if own and entry["call"]:
            amounts = _amounts(_usage(entry["usage"]))
            self._events.ledger(self._kind, model=self._endpoint.model, call=entry["call"], hits=1, **amounts)
        else:
            self._events.ledger(self._kind, model=self._endpoint.model, hits=1)
        return Answer(entry["text"], _usage(entry["usage"]), entry["cut_off"])

    def _ask(self, batch: Sequence[tuple[str, Request]], temperature: float) -> dict[str, Answer]:
        self._over.clear()
        found: dict[str, Answer] = {}
        problems: list[EndpointError] = []
        with ThreadPoolExecutor(min(self._parallel, len(batch))) as pool:
            waiting = [(key, pool.submit(self._one, key, request, temperature)) for key, request in batch]
            try:
                for key, future in waiting:
                    try:
                        found[key] = future.result()
                    except EndpointError as error:
                        problems.append(error)
                        self._over.set()  # nobody waits for another try any more; what is under way ends
            except BaseException:
                self._over.set()
                raise
        if problems:
            raise problems[0]
        return found

    def _one(self, key: str, request: Request, temperature: float) -> Answer:
        """One request: real calls until there is an answer, each announced before and settled after."""
        pause = self._first_pause
        for number in range(1, self._tries + 1):
            call = secrets.token_hex(8)
            self._events.ledger(self._kind, model=self._endpoint.model, call=call, opened=1)
            try:
                answer = self._endpoint.call(request, temperature)
            except EndpointError as error:
                self._failed(call, error)
                if not error.passing or number == self._tries or self._over.wait(error.pause or pause):
                    raise
                pause *= 2
                continue
            self._journal.put(
                {
                    "key": key, "call": call, "run": self._meter.run, "text": answer.text, "cut_off": answer.cut_off,
                    "usage": asdict(answer.usage) if answer.usage else None,
                }
            )  # fmt: skip
            self._events.ledger(self._kind, model=self._endpoint.model, call=call, **_amounts(answer.usage))
            return answer
        raise AssertionError("the last try returns or raises")

    def _failed(self, call: str, error: EndpointError) -> None:
        """A failed call is a real call: with what the server billed for it, or of unknown price when nobody knows."""
        amounts: dict[str, float | None] = {**_amounts(error.billed), "failed": 1}
        if error.billed is None:
            amounts |= {"unknown": 1, "usd": None}
        self._events.ledger(self._kind, model=self._endpoint.model, call=call, **amounts)

    def close(self) -> None:
        self._journal.close()


def _amounts(usage: Usage | None) -> dict[str, float | None]:
    if usage is None:
        return {"calls": 1, "unknown": 1, "usd": None}
    return {"calls": 1, **asdict(usage)}


def _usage(plain: dict[str, int] | None) -> Usage | None:
    return Usage(**plain) if plain else None


def _completion(answer: Answer) -> Completion:
    """No ids and no log-probabilities: an endpoint's text is never re-tokenised into them."""
    return Completion(answer.text, (), (), (), answer.cut_off)


def _part(part: Any) -> list[str]:
    if isinstance(part, ImagePart):
        return ["image", screen_digest(part.image)]
    return ["text", part.text]
