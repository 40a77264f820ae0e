"""`cowork act` and `cowork desktop open`: one slot, seen in the browser if wanted, a policy on it if wanted."""

from __future__ import annotations

import secrets
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contracts.errors import CoworkError, ParamsError, SandboxError
from components.contracts.params import Params
from components.contracts.task import Task
from pipelines.live_policy import live_harness, live_params, load_policy, recipe
from pipelines.live_slots import find_task, free_task, open_slot
from pipelines.workspace import Workspace

if TYPE_CHECKING:
    from components.contracts.desktop import Desktop
    from components.harness.spec import HarnessSpec
    from components.rollout.episodes import Episode
    from components.rollout.live.permission import Answer, Question
    from components.sandbox.live.hub import Hub

NOT_DONE = 10
"""Exit code: the episode ended, and not with what was asked for."""
_LOOK_SECONDS = 2.0
_TRIES = 5


@dataclass(frozen=True)
class LiveOptions:
    """What was asked for on the command line. Empty texts stand for what was left away."""

    instruction: str = ""
    backend: str = "minidesk"
    task: str = ""
    policy: str = ""
    model: str = ""
    key_variable: str = ""
    harness: str = ""
    profile: str = ""
    sets: tuple[str, ...] = ()
    apps: tuple[str, ...] = ()
    size: str = ""
    max_steps: int = 0
    temperature: float = 0.0
    yes: bool = False
    careful: bool = False
    view: bool = False
    browser: bool = False
    port: int = 0
    out: str = ""
    unconfined: bool = False
    stay: bool = False
    """Keep the desktop open until Ctrl-C."""


def run_live(options: LiveOptions) -> int:
    """Opens the slot and everything around it; all of it is gone when this returns. The exit code."""
    workspace = recipe()
    params = live_params(workspace, options.profile, list(options.sets))
    task = _task(options, workspace, params)
    harness = live_harness(options.harness, options.policy, workspace)
    with ExitStack() as stack:
        stack.enter_context(_term_as_interrupt())
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cowork-live-")))
        # What is wrong with the options is said before a model is loaded.
        opened = open_slot(
            options.backend, harness, work, size=options.size, apps=options.apps, unconfined=options.unconfined
        )
        policy = None
        if options.policy:
            policy = load_policy(options.policy, workspace, params, model=options.model,
                                 key_variable=options.key_variable, work=work)  # fmt: skip
            stack.callback(policy.close)
        desktop = stack.enter_context(opened)
        hub = None
        if options.view:
            desktop, hub = _view(stack, desktop, task, options)
        if policy is None:
            return _look_on(desktop, task, hub)
        episode, folder = _episode(options, task, harness, params, policy, desktop, hub, workspace)
        if folder is not None and episode.steps:
            print(f"stored: {folder}   (cowork desktop record last)")
        if options.stay and hub is not None:
            print("the desktop stays open; Ctrl-C ends it", flush=True)
            _stay(desktop)
        if episode.ending == "infra_error":
            return SandboxError.exit_code
        finished = episode.ending == "terminated" and (episode.success or not task.verifier)
        return 0 if finished else NOT_DONE


def _task(options: LiveOptions, workspace: Workspace | None, params: Params) -> Task:
    steps = options.max_steps
    if options.task:
        task = find_task(options.task, workspace.root / "outputs" / "tasks" if workspace else None,
                         options.backend)  # fmt: skip
        changes: dict[str, Any] = {"instruction": options.instruction} if options.instruction else {}
        return task.model_copy(update=changes)
    if options.policy and not options.instruction.strip():
        raise ParamsError("what shall it do?", where="INSTRUCTION", remedy='e.g. cowork act "open notes" --policy base')
    return free_task(options.instruction, options.backend, steps or params.evaluate.max_steps)


def _view(stack: ExitStack, desktop: Desktop, task: Task, options: LiveOptions) -> tuple[Desktop, Hub]:
    """The live view around a desktop. What was opened last is closed first: viewers, eye, slot."""
    from components.sandbox.live.eyes import EyeThread, HasEye
    from components.sandbox.live.hub import Hub
    from components.sandbox.live.server import LiveServer
    from components.sandbox.live.slot import LiveSlot

    hub = Hub(desktop.size, title=task.instruction[:60], backend=options.backend, task=task.instruction)
    hub.set_state("the desktop starts", "acting")
    slot = LiveSlot(desktop, hub)
    stack.callback(slot.close)
    if isinstance(desktop, HasEye):
        stack.callback(EyeThread(desktop, hub).close)
    server = LiveServer(slot, hub, port=options.port)
    stack.callback(server.close)
    print(f"live view: {server.address}", flush=True)
    if options.browser:
        stack.callback(_open_browser(server.address))
    return slot, hub


def _open_browser(address: str) -> Callable[[], None]:
    """Opens the page by way of a private file: a browser's command line can be read by every user of the machine."""
    import webbrowser

    handle = tempfile.NamedTemporaryFile("w", suffix=".html", prefix="cowork-live-", delete=False)  # mode 0600
    with handle:
        handle.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={address}"><title>cowork</title>')
    path = Path(handle.name)
    webbrowser.open(path.as_uri())
    return lambda: path.unlink(missing_ok=True)


def _look_on(desktop: Desktop, task: Task, hub: Hub | None) -> int:
    desktop.reset(task)
    if hub is not None:
        hub.set_state("ready", "idle")
    print("Ctrl-C ends the desktop", flush=True)
    _stay(desktop)
    return 0


def _stay(desktop: Desktop) -> None:
    """Until Ctrl-C. Raises SandboxError when the desktop is lost meanwhile."""
    never = threading.Event()
    try:
        while not never.wait(_LOOK_SECONDS):
            guest = getattr(getattr(desktop, "inner", desktop), "guest", None)
            if guest is not None and (gone := guest.gone()):
                raise SandboxError(f"{', '.join(gone)} ended", where="desktop", remedy="open it again")
    except KeyboardInterrupt:
        print("closing the desktop", flush=True)


def _episode(
    options: LiveOptions, task: Task, harness: HarnessSpec, params: Params, policy: Any, desktop: Desktop,
    hub: Hub | None, workspace: Workspace | None,
) -> tuple[Episode, Path | None]:  # fmt: skip
    """One episode of the policy, watched, asked about and stored."""
    from components.rollout.episodes import EpisodeSettings, run_episodes
    from components.rollout.live.keep import Keeper
    from components.rollout.live.permission import Permission
    from components.rollout.live.watcher import LiveWatcher

    begun = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = Path(options.out) if options.out else episodes_folder(workspace) / f"{begun}-{secrets.token_hex(2)}"
    about = {"live": True, "backend": options.backend, "begun": begun, "profile": params.profile}
    permission = Permission(ask_here() if not options.yes else None, yes=options.yes, careful=options.careful)
    keeper = Keeper(folder, policy.source, harness.name, about)
    watcher = LiveWatcher(permission, lambda line: print(line, flush=True), hub=hub, keeper=keeper)
    settings = EpisodeSettings(
        harness, params.context, params.model, options.max_steps or task.max_steps, options.temperature
    )
    print(f"task: {task.instruction}", flush=True)
    try:
        (episode,) = run_episodes(
            [task], policy.client, settings, lambda: nullcontext(desktop), noise="live", slots=1, watcher=watcher
        )
    except KeyboardInterrupt:
        watcher.interrupted()
        if watcher.episode is not None and watcher.episode.steps:
            print(f"stored: {folder}")
        raise
    except CoworkError as error:
        watcher.failed(str(error))
        raise
    return episode, folder


def episodes_folder(workspace: Workspace | None) -> Path:
    """Where live episodes are kept: beside the recipe's other state, or in the folder one is in."""
    return workspace.state / "episodes" if workspace else Path("cowork-episodes")


def ask_here() -> Callable[[Question], Answer | None] | None:
    """Asks on the terminal; None where there is none."""
    return console_ask if sys.stdin.isatty() else None


def console_ask(question: Question) -> Answer | None:
    """y, n, always or stop. No answer (end of input, or nothing of these five times) is None."""
    from components.rollout.live.plain import one_line

    sort = question.risk.kind or question.risk.level
    print(f"\n  ? {one_line(question.risk.reason)}\n    {one_line(question.what, limit=1000)}", flush=True)
    words: dict[str, Answer] = {"y": "yes", "yes": "yes", "n": "no", "no": "no", "a": "always", "always": "always",
                                "s": "stop", "stop": "stop"}  # fmt: skip
    for _ in range(_TRIES):
        try:
            told = input(f"    do it? [y]es, [n]o, [a]lways for {sort!r} in this episode, [s]top: ").strip().lower()
        except EOFError:
            return None
        if told in words:
            return words[told]
    return None


@contextmanager
def _term_as_interrupt() -> Iterator[None]:
    """SIGTERM ends as Ctrl-C does: with everything closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
