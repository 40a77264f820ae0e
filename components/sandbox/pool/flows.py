"""The client's rules, without any I/O: generators that yield what to send and receive what came of it.

One set of rules for the plain and the asynchronous client. A `Request` is answered with an `Answer`, or with a `Lost`:
`sent` False when nothing can have reached the host. A `Pause` is answered when it is over.

- Looking (observe, state) is repeated freely.
- What changes something carries a key. It is sent again only when it was never sent, or when the host, asked by the
  key, says that it never began it; even then the key keeps it from being done twice.
- When the host cannot say, the outcome is unknown and the episode is lost (`SandboxError`), never guessed.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from components.contracts.errors import CallError, CoworkError, ParamsError, SandboxError, TaskError, VerifierError
from components.sandbox.pool.errors import (
    DeadlineError,
    KeyReusedError,
    LeaseEndedError,
    PoolFullError,
    SlotGoneError,
    UnreachableError,
)
from components.sandbox.pool.models import Failure, Outcome

WHERE = "pool client"
_LOOK_TRIES = 5
_KEY_TRIES = 3
_ASK_WAIT = 10.0

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Request:
    """`seconds`: how long to wait for the answer."""

    method: str
    path: str
    body: Mapping[str, Any] | None
    seconds: float


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Lost:
    """No answer. `sent` False: the connection was refused or never made."""

    reason: str
    sent: bool


@dataclass(frozen=True)
class Pause:
    seconds: float


Flow = Generator[Request | Pause, Answer | Lost | None, Model]


def new_key() -> str:
    return secrets.token_urlsafe(16).replace("=", "")


def look(path: str, model: type[Model], seconds: float, *, patience: float) -> Flow[Model]:
    """A request that changes nothing: repeated freely. `patience`: seconds to knock where nobody opens."""
    lost = Lost("", sent=False)
    for attempt in range(_LOOK_TRIES):
        answer = yield from _reach(Request("GET", path, None, seconds), patience)
        if isinstance(answer, Answer):
            return read(answer, model)
        lost = answer
        if not lost.sent:
            break
        yield _pause(attempt)
    raise UnreachableError(lost.reason, sent=False)


def change(
    base: str, verb: str, body: Mapping[str, Any], model: type[Model], seconds: float, *, patience: float
) -> Flow[Model]:
    """A request of a lease that does something, at most once. `base`: the lease's path; `body` holds its `key`."""
    request = Request("POST", f"{base}/{verb}", body, seconds)
    for _ in range(_KEY_TRIES):
        answer = yield from _reach(request, patience)
        if isinstance(answer, Answer):
            return read(answer, model)
        if not answer.sent:
            raise UnreachableError(answer.reason, sent=False)
        outcome = yield from _ask(base, str(body["key"]), seconds, patience)
        if outcome.state == "ran":
            return model.model_validate(outcome.result.model_dump() if outcome.result is not None else {})
        if outcome.state == "failed" and outcome.failure is not None:
            raise error_of(outcome.failure)
        # The host lives and never began it: the same request with the same key.
    raise UnreachableError(f"the host lost `{verb}` {_KEY_TRIES} times", sent=True)


def renew(
    method: str, path: str, body: Mapping[str, Any] | None, model: type[Model], seconds: float, *, patience: float
) -> Flow[Model]:
    """A request that may be repeated, as twice is once: a lease (by its key), a heartbeat, a release."""
    lost = Lost("", sent=False)
    for attempt in range(_KEY_TRIES):
        answer = yield from _reach(Request(method, path, body, seconds), patience)
        if isinstance(answer, Answer):
            return read(answer, model)
        lost = answer
        if not lost.sent:
            break
        yield _pause(attempt)
    raise UnreachableError(lost.reason, sent=lost.sent)


def read(answer: Answer, model: type[Model]) -> Model:
    """The answer's content; an error of the host is raised as the type it had there."""
    try:
        if answer.status == 200:
            return model.model_validate_json(answer.body)
        failure = Failure.model_validate(json.loads(answer.body)["failure"])
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise SandboxError(
            f"the answer (status {answer.status}) is not of a slot host", where=WHERE,
            remedy="does the address name one, of this version?",
        ) from error  # fmt: skip
    raise error_of(failure)


def error_of(failure: Failure) -> CoworkError:
    """The error that the host raised."""
    text = {"where": failure.where, "remedy": failure.remedy}
    simple: dict[str, Callable[..., CoworkError]] = {
        "task": TaskError, "params": ParamsError, "request": ParamsError, "verifier": VerifierError,
        "auth": ParamsError,
    }  # fmt: skip
    if failure.kind == "call":
        return CallError(failure.code, failure.message, **text)
    if failure.kind == "deadline":
        return DeadlineError(failure.code, failure.seconds, where=failure.where)  # type: ignore[arg-type]
    if failure.kind == "full":
        return PoolFullError(failure.message, failure.seconds, where=failure.where)
    if failure.kind == "lease":
        return LeaseEndedError(failure.message, where=failure.where)
    if failure.kind == "gone":
        return SlotGoneError(failure.message.removeprefix("the sandbox is gone: "), where=failure.where)
    if failure.kind == "key":
        return KeyReusedError(where=failure.where)
    return simple.get(failure.kind, SandboxError)(failure.message, **text)


def _ask(base: str, key: str, seconds: float, patience: float) -> Generator[Any, Any, Outcome]:
    """What became of the request with this key; waits while it runs, at most `seconds`."""
    waited, attempt = 0.0, 0
    while True:
        wait = min(_ASK_WAIT, max(0.0, seconds - waited))
        path = f"{base}/requests/{key}?wait={wait:g}"
        try:
            outcome = yield from look(path, Outcome, wait + 10.0, patience=patience)
        except LeaseEndedError:
            raise
        except UnreachableError as error:
            raise UnreachableError(f"no answer, and the host cannot be asked: {error.message}", sent=True) from error
        if outcome.state != "running":
            return outcome
        waited += wait
        if waited >= seconds:
            raise UnreachableError(f"`{outcome.what}` still runs after {seconds:g} s", sent=True)
        attempt += 1


def _reach(request: Request, patience: float) -> Generator[Any, Any, Answer | Lost]:
    """Sends; a connection that was refused is tried again for `patience` seconds, because nothing was sent."""
    spent, attempt = 0.0, 0
    while True:
        answer = yield request
        if isinstance(answer, Answer) or answer.sent or spent >= patience:
            return answer  # type: ignore[no-any-return]
        pause = _pause(attempt)
        yield pause
        spent += pause.seconds
        attempt += 1


def _pause(attempt: int) -> Pause:
    return Pause(min(2.0, 0.05 * 2**attempt))
