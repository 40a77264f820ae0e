"""OSWorld's rule for a single value: {"method": ..., "ref": ...}."""

from __future__ import annotations

import operator
import re
from functools import reduce
from typing import Any

from components.contracts.errors import VerifierError

_COMPARE = {name: getattr(operator, name) for name in ("eq", "ne", "le", "lt", "ge", "gt")}


def value_matches(value: Any, rule: dict[str, Any]) -> bool:
    """Whether a value keeps a rule. A value of a kind that the rule cannot judge does not. Raises `VerifierError`."""
    method, ref = str(rule["method"]), rule["ref"]
    try:
        return _matches(value, method, ref)
    except (TypeError, AttributeError):
        return False


def _matches(value: Any, method: str, ref: Any) -> bool:
    if method in _COMPARE:
        return bool(_COMPARE[method](value, ref))
    if method == "re" or method.startswith("re."):
        flags = reduce(operator.or_, (_flag(name) for name in method.split(".")[1:]), re.RegexFlag(0))
        return re.search(ref, value, flags) is not None
    if method.startswith("approx:"):
        try:
            return abs(float(value) - float(ref)) <= float(method.split(":")[1])
        except ValueError:
            return False
    if method.startswith("range.") and len(method) == 8 and set(method[6:]) <= {"e", "t"}:
        low, high = _COMPARE[f"l{method[6]}"], _COMPARE[f"l{method[7]}"]
        return bool(low(ref[0], value) and high(value, ref[1]))
    if method in ("str_list_eq", "str_set_eq"):
        kind: Any = list if method == "str_list_eq" else set
        return bool(kind(value.strip("\"'").split(",")) == kind(ref))
    if method == "spreadsheet_range":
        from openpyxl.worksheet.cell_range import MultiCellRange

        least, most = MultiCellRange(ref[0]), MultiCellRange(ref[1])
        return all(part in value for part in least.ranges) and all(part in most for part in value.ranges)
    raise VerifierError(f"there is no rule {method!r}", where="metric", remedy="see the rules of OSWorld's metrics")


def _flag(name: str) -> re.RegexFlag:
    if not re.fullmatch(r"[A-Z]+", name) or not isinstance(getattr(re, name, None), re.RegexFlag):
        raise VerifierError(f"there is no flag {name!r} of regular expressions", where="metric")
    flag: re.RegexFlag = getattr(re, name)
    return flag
