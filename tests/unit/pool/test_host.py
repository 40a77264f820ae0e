"""One slot host, in this process behind real HTTP, with real slots: leases, deadlines, preparation, and their ends."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from components.contracts.calls import AccessibilityCall, BashCall, ComputerUse
from components.contracts.errors import CallError, ParamsError, SandboxError, VerifierError
from components.sandbox.pool.client import PooledDesktop
from components.sandbox.pool.errors import DeadlineError, KeyReusedError, LeaseEndedError, PoolFullError, SlotGoneError
from components.sandbox.pool.host import SlotHost
from components.sandbox.pool.models import Deadlines, LeaseRequest, ScreenSize, SlotLimits, SlotSpec, act_seconds
from components.sandbox.pool.processes import Process, alive
from components.sandbox.shell import ShellSession
from tests.unit.pool.kit import TOKEN, descendants, http, make_task, minidesk_host, serving, wait_for

LOG = BashCall(command="echo done >> log.txt")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> SlotHost:
    return minidesk_host(tmp_path_factory.mktemp("host") / "state", slots=3)


@pytest.fixture(scope="module")
def url(host: SlotHost) -> Iterator[str]:
    with serving(host) as address:
        yield address


@pytest.fixture
def desktop(url: str) -> Iterator[PooledDesktop]:
    with PooledDesktop(url, TOKEN, "minidesk", deadlines=Deadlines(episode=60)) as one:
        yield one


def processes_of(host: SlotHost) -> list[Process]:
    return [Process(*row.handle["process"]) for row in host.table.slots() if row.handle.get("process")]


def nothing_left(host: SlotHost) -> bool:
    runs = host.config.state / "slots" / "minidesk"
    folders = list(runs.iterdir()) if runs.exists() else []
    return not folders and not host.table.slots() and not host.table.leases() and host.queue.taken == 0


def test_a_lent_desktop_is_used_like_a_local_one(desktop: PooledDesktop) -> None:
    seen = desktop.reset(make_task("hello"))
    assert seen.screen.shape == (desktop.size[1], desktop.size[0], 3) and seen.elements
    assert desktop.act(BashCall(command="cat name.txt; exit 3")) == desktop.act(
        BashCall(command="cat name.txt; exit 3")
    )
    icon = next(element for element in seen.elements if element.kind == "icon")
    assert desktop.act(ComputerUse(action="double_click", coordinate=icon.center)).effect
    after = desktop.observe()
    assert (after.screen != seen.screen).any() and after.pointer == icon.center
    assert desktop.state()["windows"] and not desktop.grade().success
    desktop.act(LOG)
    verdict = desktop.grade()
    assert verdict.success and verdict.results[0].reason == "done\n"
    with pytest.raises(CallError) as caught:
        desktop.act(AccessibilityCall(action="tree"))
    assert caught.value.code == "unknown_tool"
    desktop.observe()  # a bad call harms nothing


def test_every_reset_is_a_sandbox_of_its_own(host: SlotHost, desktop: PooledDesktop) -> None:
    desktop.reset(make_task("one"))
    desktop.act(BashCall(command="echo x > left; sleep 1000 &"))
    first = processes_of(host)
    assert len(first) == 1 and descendants(first[0].pid)
    desktop.reset(make_task("two"))
    assert desktop.act(BashCall(command="cat name.txt")).output == "two"
    assert "left" not in desktop.act(BashCall(command="ls")).output
    assert not alive(first[0]) and len(processes_of(host)) == 1


def test_a_prepared_task_is_there_at_once_and_another_is_set_up_as_usual(
    host: SlotHost, desktop: PooledDesktop, tmp_path: Path
) -> None:
    desktop.reset(make_task("first"))
    go = tmp_path / "go"
    slow = make_task("slow", wait_for=str(go))
    assert desktop.prefetch(slow) == "preparing"
    assert desktop.act(BashCall(command="cat name.txt")).output == "first"  # the episode goes on meanwhile
    assert host.stock.sandboxes == 2
    go.touch()
    assert wait_for(lambda: desktop.prefetch(slow) == "ready")
    go.unlink()  # a setup from now on would wait for it: what follows uses the one that is ready
    desktop.reset(slow)
    assert desktop.act(BashCall(command="cat name.txt")).output == "slow"
    assert host.stock.sandboxes == 1
    desktop.prefetch(make_task("unused"))
    desktop.reset(make_task("other"))
    assert desktop.act(BashCall(command="cat name.txt")).output == "other"
    desktop.prefetch(make_task("bad", setup="fail"))
    with pytest.raises(SandboxError, match="no such preparer"):
        desktop.reset(make_task("bad", setup="fail"))
    assert wait_for(lambda: host.stock.sandboxes <= 1)


@pytest.mark.parametrize(
    ("which", "spec", "deadlines"),
    [
        ("setup", {"setup": "hang"}, Deadlines(setup=3.0)),
        ("grading", {"grading": "hang"}, Deadlines(grading=0.5)),
        ("act", {}, Deadlines(act=0.5)),
        ("episode", {}, Deadlines(episode=0.5)),
    ],
)
def test_each_deadline_names_itself_kills_its_slot_and_the_next_reset_has_another(
    host: SlotHost, url: str, which: str, spec: dict[str, str], deadlines: Deadlines
) -> None:
    with PooledDesktop(url, TOKEN, "minidesk", deadlines=deadlines) as desktop:
        desktop.open()
        before = processes_of(host)
        with pytest.raises(DeadlineError) as caught:
            desktop.reset(make_task("late", **spec))
            if which == "grading":
                desktop.grade()
            desktop.act(BashCall(command="sleep 100", timeout=0.1 if which == "episode" else None))
            wait_for(lambda: host.stock.sandboxes == 0)  # an episode's time passes while nobody asks for anything
            desktop.observe()
        assert caught.value.which == which and f"`{which}`" in str(caught.value)
        assert wait_for(lambda: not any(map(alive, before)))
        with pytest.raises(DeadlineError):
            desktop.observe()  # no old screen
        if which == "setup":
            desktop.reset(make_task("next"))
            assert desktop.act(BashCall(command="cat name.txt")).output == "next"


def test_a_sandbox_that_is_not_ready_in_time_is_given_up(tmp_path: Path) -> None:
    host = minidesk_host(tmp_path / "state")
    try:
        with pytest.raises(DeadlineError) as caught:
            host.lease(LeaseRequest(key="k" * 10, slot=SlotSpec(backend="minidesk"), deadlines=Deadlines(create=0.01)))
        assert caught.value.which == "create" and nothing_left(host)
    finally:
        host.close()


def test_the_death_of_a_slot_is_an_infrastructure_error_and_not_an_old_screen(
    host: SlotHost, desktop: PooledDesktop
) -> None:
    with pytest.raises(SandboxError) as setup:
        desktop.reset(make_task("dies", setup="die"))
    assert isinstance(setup.value, SlotGoneError)
    desktop.reset(make_task("lives"))
    for process in processes_of(host):
        os.kill(process.pid, signal.SIGKILL)
    for ask in (lambda: desktop.act(LOG), desktop.observe, desktop.grade, desktop.state):
        with pytest.raises(SlotGoneError):
            ask()
    desktop.reset(make_task("again"))
    assert desktop.act(BashCall(command="cat log.txt")).output == ""


def test_a_broken_verifier_is_never_a_success(desktop: PooledDesktop) -> None:
    desktop.reset(make_task("x", grading="break"))
    with pytest.raises(VerifierError, match="cell"):
        desktop.grade()
    assert desktop.act(BashCall(command="echo lives")).output == "lives\n"


def test_a_lent_shell_can_be_interrupted_like_any_other(desktop: PooledDesktop, tmp_path: Path) -> None:
    ask = "grep SigIgn /proc/self/status"
    (tmp_path / "home").mkdir()
    with ShellSession(tmp_path / "home") as local:
        expected = local.run(ask).output
    desktop.reset(make_task("signals"))
    assert desktop.act(BashCall(command=ask)).output == expected


def test_a_long_action_has_the_time_that_it_asks_for() -> None:
    short = Deadlines(act=1.0)
    assert act_seconds(BashCall(command="x"), short) == 1.0
    assert act_seconds(BashCall(command="x", timeout=300), short) > 300
    assert act_seconds(ComputerUse(action="wait", time=60), short) > 60
    assert act_seconds(ComputerUse(action="type", text="x" * 1000), short) > 100


def test_what_cannot_be_had_is_said_before_anything_is_made(host: SlotHost, url: str) -> None:
    made = host.metrics.made.labels("minidesk")._value.get()
    with PooledDesktop(url, TOKEN, "other") as desktop, pytest.raises(ParamsError, match="minidesk"):
        desktop.open()
    wrong = SlotSpec(backend="minidesk", screen=ScreenSize(width=800, height=600))
    with PooledDesktop(url, TOKEN, wrong) as desktop, pytest.raises(ParamsError, match="288"):
        desktop.open()
    assert host.metrics.made.labels("minidesk")._value.get() == made and host.queue.taken == 0
    fewer = SlotSpec(backend="minidesk", limits=SlotLimits(processes=20))
    with PooledDesktop(url, TOKEN, fewer) as desktop:
        desktop.reset(make_task("few"))
        fork = "for i in $(seq 60); do sleep 50 & done; wait"
        assert desktop.act(BashCall(command=fork, timeout=3)).exit_code != 0


def test_a_lease_ends_without_heartbeats_and_its_sandbox_with_it(host: SlotHost, url: str) -> None:
    desktop = PooledDesktop(url, TOKEN, "minidesk", ttl=1.5)
    desktop.reset(make_task("short"))
    ours = processes_of(host)
    beats = [host.heartbeat(desktop.open().lease).expires_in for _ in range(3)]
    assert min(beats) > 0.1
    assert not wait_for(lambda: not alive(ours[0]), 3.0)  # its own heartbeats keep it
    desktop._stop_heart()
    assert wait_for(lambda: nothing_left(host)) and not alive(ours[0])
    with pytest.raises(LeaseEndedError, match="no heartbeat"):
        desktop.act(LOG)
    with pytest.raises(LeaseEndedError):
        desktop.observe()
    desktop.reset(make_task("anew"))  # leases again
    assert desktop.act(BashCall(command="cat name.txt")).output == "anew"
    desktop.close()
    desktop.close()
    assert nothing_left(host)


def test_a_full_pool_says_so_after_the_wait_and_a_free_place_goes_to_who_waits(host: SlotHost, url: str) -> None:
    holders = [PooledDesktop(url, TOKEN, "minidesk") for _ in range(3)]
    for holder in holders:
        holder.open()
    with http(url) as client:
        body = LeaseRequest(key="late-client", slot=SlotSpec(backend="minidesk"), wait=0.2).model_dump(mode="json")
        answer = client.post("/leases", json=body)
        assert answer.status_code == 503 and int(answer.headers["retry-after"]) >= 1
    waiting = PooledDesktop(url, TOKEN, "minidesk", wait=0.1)
    with pytest.raises(PoolFullError) as caught:
        waiting.reset(make_task("none"))
    assert caught.value.retry_after >= 1
    patient = PooledDesktop(url, TOKEN, "minidesk", wait=30)
    thread = threading.Thread(target=patient.open)
    thread.start()
    assert wait_for(lambda: host.queue.waiting == 1)
    holders[0].close()
    thread.join(20)
    assert not thread.is_alive() and patient.open().waited > 0
    # One who waits and goes away leaves no lease behind.
    with pytest.raises(Exception, match="timed out"), http(url) as client:
        body = LeaseRequest(key="impatient", slot=SlotSpec(backend="minidesk"), wait=60).model_dump(mode="json")
        client.post("/leases", json=body, timeout=0.3)
    assert wait_for(lambda: host.queue.waiting == 0)
    for one in (*holders, patient, waiting):
        one.close()
    assert nothing_left(host)


def test_a_repeated_request_is_answered_and_not_done_again(host: SlotHost, url: str) -> None:
    request = LeaseRequest(key="same-lease", slot=SlotSpec(backend="minidesk"))
    lease = host.lease(request).lease
    assert host.lease(request).lease == lease and host.queue.taken == 1
    with pytest.raises(KeyReusedError):
        host.lease(request.model_copy(update={"ttl": 3.0}))
    first = host.reset(lease, "reset-one", make_task("t"))
    assert host.reset(lease, "reset-one", make_task("t")) is first
    threads = [threading.Thread(target=host.act, args=(lease, "act-00001", LOG)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert host.act(lease, "act-00002", BashCall(command="cat log.txt")).output == "done\n"
    with pytest.raises(KeyReusedError):
        host.act(lease, "act-00002", LOG)
    assert host.outcome(lease, "act-00001", 0).state == "ran"
    assert host.outcome(lease, "act-never", 0).state == "unknown"
    host.release(lease)
    host.release(lease)
    assert nothing_left(host)


def test_200_random_leases_and_kills_leave_nothing(tmp_path: Path) -> None:
    host = minidesk_host(tmp_path / "state", slots=4, standby={"minidesk": 2}, making=2)
    errors: list[BaseException] = []

    def client(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for number in range(50):
                key = f"cycle-{seed}-{number}"
                lease = host.lease(LeaseRequest(key=key, slot=SlotSpec(backend="minidesk"), ttl=0.3, wait=60)).lease
                way = rng.choice(("release", "episode", "lose", "kill", "prefetch"))
                try:
                    if way in ("episode", "prefetch"):
                        host.reset(lease, key, make_task("t"))
                        host.act(lease, f"{key}-act", BashCall(command="sleep 1000 & true"))
                    if way == "prefetch":
                        host.prefetch(lease, make_task("u"))
                    if way == "kill":
                        victim = host.leases[lease].slot
                        os.kill(victim.handle["process"][0], signal.SIGKILL)  # type: ignore[union-attr]
                except (SandboxError, KeyError, AttributeError, ProcessLookupError):
                    pass  # a busy machine: its time was over
                if way != "lose":
                    host.release(lease)
        except BaseException as error:
            errors.append(error)

    host.start()
    try:
        threads = [threading.Thread(target=client, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(200)
        assert not errors and not any(thread.is_alive() for thread in threads)
        assert host.metrics.made.labels("minidesk")._value.get() >= 200
        assert wait_for(lambda: host.queue.taken == 0 and not host.table.leases())
        assert wait_for(lambda: host.stock.standby() == {"minidesk": 2} and len(host.table.slots()) == 2)
        zygote = host.providers["minidesk"]._zygote.pid  # type: ignore[attr-defined]
        standby = {process.pid for process in processes_of(host)}
        assert wait_for(lambda: descendants(zygote) == standby), "what lives is what is kept ready"
    finally:
        host.close()
    assert not descendants(zygote) and not any(map(alive, [Process(pid, "") for pid in standby]))
    runs = tmp_path / "state" / "slots" / "minidesk"
    assert list(runs.iterdir()) == []


def test_application_starts_wait_for_each_other(tmp_path: Path) -> None:
    from tests.unit.pool import starts_kit

    host = starts_kit.host_with_gate(tmp_path / "state", starts=1)
    marks = tmp_path / "marks"
    marks.mkdir()
    try:
        leases = [host.lease(LeaseRequest(key=f"start-{n}-xx", slot=SlotSpec(backend="gated"))).lease for n in range(3)]

        def reset(number: int, lease: str) -> None:
            with suppress(SlotGoneError):  # the one that is killed below
                host.reset(lease, f"key-{number}-xxxx", make_task(str(number), marks=str(marks)))

        threads = [threading.Thread(target=reset, args=pair) for pair in enumerate(leases)]
        for thread in threads:
            thread.start()
        assert wait_for(lambda: host.starts.waiting == 2 and len(list(marks.iterdir())) == 1)
        text = host.metrics.text().decode()
        figures = {s.name: s.value for f in text_string_to_metric_families(text) for s in f.samples}
        assert figures["cowork_pool_starts_waiting"] == 2 and figures["cowork_pool_starts_running"] == 1
        # The one that starts is killed: its place is not lost.
        started = next(marks.iterdir()).name
        os.kill(int(started), signal.SIGKILL)
        assert wait_for(lambda: host.starts.waiting == 1 and len(list(marks.iterdir())) == 2)
        (tmp_path / "go").touch()
        for thread in threads:
            thread.join(30)
        assert len(list(marks.iterdir())) == 3 and host.starts.running == host.starts.waiting == 0
    finally:
        host.close()


def test_metrics_can_be_read_by_prometheus(url: str, desktop: PooledDesktop) -> None:
    desktop.reset(make_task("m"))
    desktop.act(LOG)
    desktop.grade()
    with http(url) as client:
        text = client.get("/metrics").text
    samples = {
        (s.name, *sorted(s.labels.items())): s.value for f in text_string_to_metric_families(text) for s in f.samples
    }
    assert samples[("cowork_pool_leases", ("state", "episode"))] >= 1
    for name in ("lease_wait_seconds", "reset_seconds", "grade_seconds"):
        assert samples[(f"cowork_pool_{name}_count",)] >= 1
    assert samples[("cowork_pool_step_seconds_count", ("tool", "bash"))] >= 1
    assert samples[("cowork_pool_failures_total", ("kind", "deadline_setup"), ("operation", "reset"))] >= 1
    assert samples[("cowork_pool_reaped_total", ("what", "expired_lease"))] >= 1
    assert samples[("cowork_pool_capacity",)] == 3 and ("cowork_pool_starts_waiting",) in samples
