"""Who is who in a sandbox whose agent starts as root (of its user namespace, or of its container).

There the agent and the X server stay root, and everything else is user 1000, who can neither signal nor look into
them. Where the driver has but one user (bubblewrap), all are that one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypedDict

USER = 1000
TRUSTED = "/run/agent"
"""The agent's own folder, where there are two users."""


class Identity(TypedDict, total=False):
    """Arguments of `subprocess.Popen`."""

    user: int
    group: int
    extra_groups: list[int]


def two_users() -> bool:
    return os.getuid() == 0


def as_user() -> Identity:
    """How to start what is not the agent's own: empty where there is one user only."""
    return {"user": USER, "group": USER, "extra_groups": []} if two_users() else {}


@contextmanager
def users_rights() -> Iterator[None]:
    """Within it this process may do with files what the user may, no more: a link that the user laid cannot be followed
    to where only root may go. Signals and debuggers still see root: the saved user id stays 0."""
    if not two_users():
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(USER)
    os.seteuid(USER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
