"""What the driver decides without a desktop: groups, users, and what a sandbox is given."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from components.sandbox.x11.drivers import layout
from components.sandbox.x11.drivers.cgroups import own_groups
from components.sandbox.x11.drivers.slots import SlotId

V1 = """\
30 20 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
31 20 0:27 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
32 20 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
V2 = "30 20 0:26 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
INNER = "30 20 0:26 /pods/a /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    "mounts, memberships, expected",
    [
        (V1, "9:pids:/\n4:memory:/own/group\n0::/\n", {"memory": "/sys/fs/cgroup/memory/own/group"}),
        (V1, "9:pids:/p\n4:cpu,memory:/m\n0::/\n",
         {"memory": "/sys/fs/cgroup/memory/m", "pids": "/sys/fs/cgroup/pids/p"}),
        (V2, "0::/user.slice/mine\n", {"unified": "/sys/fs/cgroup/user.slice/mine"}),
        (V2, "0::/\n", {}),
        (INNER, "0::/pods/a/b\n", {"unified": "/sys/fs/cgroup/b"}),
        ("", "0::/x\n", {}),
    ],
)  # fmt: skip
def test_groups_are_made_below_our_own_and_never_at_the_root(
    mounts: str, memberships: str, expected: dict[str, str]
) -> None:
    assert {name: str(path) for name, path in own_groups(mounts, memberships).items()} == expected


def test_no_two_slots_have_the_same_user_at_a_time() -> None:
    first, second = SlotId(), SlotId()
    assert first.uid != second.uid
    first.release()
    third = SlotId()
    assert third.uid == first.uid
    second.release()
    third.release()


def test_the_environment_inside_is_made_up() -> None:
    assert set(layout.environment().values()).isdisjoint({"", *map(str, Path(__file__).parents)})
    assert "DISPLAY" not in layout.environment()


def test_the_agent_comes_with_all_of_ours_that_it_imports() -> None:
    given = {path.removeprefix(f"{layout.AGENT}/") for path, _ in layout.agent_files()}
    for path, data in layout.agent_files():
        for node in ast.walk(ast.parse(data)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("components"):
                base = (node.module or "").replace(".", "/")
                names = {f"{base}/{alias.name}.py" for alias in node.names}
                assert f"{base}.py" in given or names <= given, (path, node.module)


def test_the_profile_lands_in_the_home() -> None:
    paths = {path for path, _ in layout.profile_files()}
    assert {f"{layout.HOME}/.config/openbox/rc.xml", f"{layout.HOME}/.config/gtk-3.0/settings.ini",
            f"{layout.HOME}/.Xdefaults"} <= paths  # fmt: skip
