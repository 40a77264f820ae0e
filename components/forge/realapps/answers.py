"""Numbers in an agent's words: "It costs 3,200 dollars" is 3200; what can be read in two ways is no answer."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"(?<![\w.,])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?![\w]|[.,]\d)")
_ANY_DIGIT = re.compile(r"\d")
_DENIAL = re.compile(r"\b(?:not|never|no|isn't|wasn't|neither|nor|cannot|can't|unknown)\b", re.IGNORECASE)
_LONGEST = 2000


def number_of(text: str) -> float | None:
    """The one number that a text states. None when there is none, more than one, one in a form that is not clear
    ("1,2", "3.200,50", "4x"), or when the text denies something."""
    if len(text) > _LONGEST or _DENIAL.search(text):
        return None
    found = _NUMBER.findall(text)
    if len(found) != 1 or _ANY_DIGIT.search(_NUMBER.sub("", text)):
        return None
    return float(found[0].replace(",", ""))
