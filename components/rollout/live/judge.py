"""One question about any call: can it be taken back?"""

from __future__ import annotations

from collections.abc import Sequence

from components.contracts.calls import BashCall, DesktopCall
from components.contracts.desktop import Element
from components.rollout.live.risk import NONE, Places, Risk
from components.rollout.live.screen_risk import judge_screen
from components.rollout.live.shell_risk import judge_command


def judge(
    call: DesktopCall, *, elements: Sequence[Element] = (), says: str = "", places: Places | None = None
) -> Risk:  # fmt: skip
    """The risk of a call on a screen with these elements and files. Pure; never raises."""
    if isinstance(call, BashCall):
        return judge_command(call.command, places) if call.command else NONE
    return judge_screen(call, elements, says, places)
