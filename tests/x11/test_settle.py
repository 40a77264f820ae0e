"""A settled screen: nothing painted, nobody at work; and a limit for those that never come to rest."""

from __future__ import annotations

from components.sandbox.x11.guest_calls import LAUNCH_QUIET

from .conftest import Person


def test_an_idle_desktop_is_settled_and_paints_nothing(person: Person) -> None:
    person.guest.settle(LAUNCH_QUIET)
    settled = person.guest.settle()
    assert settled.settled and settled.painted == 0 and settled.busy < 0.2


def test_settling_waits_for_a_screen_that_is_still_being_painted(person: Person) -> None:
    person.guest.launch(["xterm", "-e", "for i in $(seq 30); do seq $i; sleep 0.05; done; touch painted; sleep 1000"])
    person.guest.await_window("xterm")
    assert person.guest.settle(limit=60).settled
    assert [file.path for file in person.guest.files() if file.path == "painted"] == ["painted"]


def test_settling_waits_for_an_application_that_works_without_painting(person: Person) -> None:
    work = "import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass\nopen('worked', 'w')"
    person.guest.put("work.py", work.encode())
    person.guest.launch(["/usr/bin/python3", "work.py"])
    assert person.guest.settle(limit=60).settled
    assert person.guest.get("worked") == b""


def test_a_screen_that_never_settles_is_told(person: Person) -> None:
    person.guest.launch(["xterm", "-e", "while :; do date +%N; done"])
    person.guest.await_window("xterm")
    settled = person.guest.settle(limit=1)
    assert not settled.settled and settled.painted > 0
    assert person.desktop.observe().screen.shape == (720, 1280, 3)


def test_what_an_action_did_is_told(person: Person) -> None:
    window = person.edit("effect.txt")
    assert person.act("left_click", coordinate=(window.box[0] + 20, window.box[1] + 12)).effect  # a menu opens
    assert person.key("esc").effect
    person.act("mouse_move", coordinate=(900, 650))
    assert not person.key("f20").effect


def test_an_observation_stays_until_the_next_call(person: Person) -> None:
    first = person.desktop.observe()
    assert person.desktop.observe() is first
    person.bash("xterm >/dev/null 2>&1 & sleep 0.1")
    person.guest.await_window("xterm")
    assert (person.desktop.observe().screen != first.screen).any()
