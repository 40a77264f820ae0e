"""Texts, values, lists and JSON."""

from __future__ import annotations

import csv
import datetime
import json
import re
from difflib import SequenceMatcher
from typing import Any

from components.contracts.errors import VerifierError
from components.sandbox.osworld.metrics import files
from components.sandbox.osworld.metrics.rules import value_matches

Rules = dict[str, Any]


# -- values -----------------------------------------------------------------------------------------------------------


def check_include_exclude(result: Any, rules: Rules) -> float:
    text = result if isinstance(result, str) else None
    if text is None:
        return 0.0
    has = all(part in text for part in rules.get("include", []))
    return float(has and not any(part in text for part in rules.get("exclude", [])))


def exact_match(result: Any, rules: Rules) -> float:
    return float(result == rules["expected"])


def match_in_list(result: Any, rules: Rules) -> float:
    return float(result in rules["expected"])


def is_in_list(result: Any, rules: Rules) -> float:
    return float(rules["expected"] in result)


def fuzzy_match(result: Any, rules: Rules) -> float:
    from rapidfuzz import fuzz

    return float(fuzz.ratio(result, rules["expected"])) / 100


def literal_match(result: Any, expected: Any, **options: Any) -> float:
    kind = options.get("type", "str")
    if kind not in ("str", "list"):
        raise VerifierError(f"literal_match knows no type {kind!r}", where="metric")
    if kind == "list" and not (isinstance(result, list | tuple) and isinstance(expected, list | tuple)):
        return 0.0
    sides = [[str(v) for v in side] if kind == "list" else [str(side)] for side in (result, expected)]
    if options.get("ignore_case", False):
        sides = [[value.lower() for value in side] for side in sides]
    return float(sides[0] == sides[1])


def compare_answer(actual: Any, rules: Rules, **options: Any) -> float:
    return float(bool(actual) and actual == rules["expected"])


def is_extension_installed(actual: str, rules: Rules, **options: Any) -> float:
    if rules["type"] not in ("contain", "not_contain"):
        raise VerifierError(f"there is no type {rules['type']!r}", where="metric")
    return float((rules["expected"] in actual) is (rules["type"] == "contain"))


# -- text files -------------------------------------------------------------------------------------------------------


def diff_text_file(result: Any, expect: Any) -> float:
    """How alike the lines are, 0 to 1."""
    ours = files.result(result, files.text)
    theirs = files.reference(expect, files.text).splitlines()
    return 0.0 if ours is None else SequenceMatcher(a=ours.splitlines(), b=theirs).ratio()


def compare_text_file(actual: Any, expected: Any, **options: Any) -> float:
    ours, theirs = files.result(actual, files.text), files.reference(expected, files.text)
    if ours is None:
        return 0.0
    sides = [ours, theirs]
    if options.get("ignore_blanks", False):
        sides = [" ".join(side.split()) for side in sides]
    if options.get("ignore_case", False):
        sides = [side.lower() for side in sides]
    return float(sides[0] == sides[1])


def compare_config(actual: Any, rules: Rules, **options: Any) -> float:
    return float(files.result(actual, files.text) == rules["expected"])


def file_contains(path: Any, rules: Rules) -> float:
    text = files.result(path, files.text)
    return float(text is not None and all(part in text for part in rules["expected"]))


def check_line_number(path: Any, rules: Rules) -> float:
    """How many lines hold a time of day."""
    text = files.result(path, files.text)
    found = len([1 for line in (text or "").splitlines() if re.search(r"([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)", line)])
    return float(text is not None and found == int(rules["expected"]))


def compare_terminal_and_txt(path: Any, terminal: Any) -> float:
    text = files.result(path, files.text)
    return float(bool(text) and text == terminal)


def compare_python_pure_text(path: Any, expected: Any) -> float:
    """Source text without blank lines, trailing spaces, and the coding and interpreter lines at the top."""

    def plain(text: str) -> list[str]:
        lines = text.splitlines()
        while lines and re.match(r"\s*#(!|\s*-\*-\s*coding:|\s*coding[:=])", lines[0]) is not None:
            lines = lines[1:]
        return [line.expandtabs(4).rstrip() for line in lines if line.strip()]

    ours, theirs = files.result(path, files.text), files.reference(expected, files.text)
    return float(ours is not None and plain(ours) == plain(theirs))


def compare_result_files(actual: Any, expected: Any, **options: Any) -> float:
    """Two texts; where the reference is a number, a text that holds it or a number within 0.0001 of it will do."""
    ours, theirs = files.result(actual, files.text), files.reference(expected, files.text).strip()
    if ours is None:
        return 0.0
    ours = ours.strip()
    try:
        number = float(theirs)
        return float(bool(theirs) and (theirs in ours or abs(float(ours) - number) < 1e-4))
    except ValueError:
        return float(ours == theirs)


def check_list(result: Any, rules: Rules) -> float:
    """Every expected pattern is in some line, no unexpected one in any."""
    text = files.result(result, files.text)
    if text is None:
        return 0.0
    lines = text.splitlines()

    def anywhere(pattern: str) -> bool:
        return any(re.search(pattern, line) for line in lines)

    wanted = all(anywhere(pattern) for pattern in rules.get("expect", []))
    return float(wanted and not any(anywhere(pattern) for pattern in rules.get("unexpect", [])))


def compare_time_in_speedtest_results(path: Any, minutes: Any) -> float:
    """The second line's second field ends with a time of day that is near now."""

    def time_of(name: str) -> datetime.datetime:
        with open(name, encoding="utf-8", newline="") as file:
            return datetime.datetime.strptime(list(csv.reader(file))[1][1][-5:], "%H:%M")

    found = files.result(path, time_of)
    if found is None:
        return 0.0
    now = datetime.datetime.now()
    apart = abs(found.hour * 60 + found.minute - now.hour * 60 - now.minute)
    return float(min(apart, 1440 - apart) < int(minutes))


# -- JSON, XML, SQL ---------------------------------------------------------------------------------------------------


def _json(path: str) -> Any:
    return json.loads(files.text(path))


def _yaml(path: str) -> Any:
    import yaml

    return yaml.safe_load(files.text(path))


def _at(value: Any, keys: list[Any]) -> tuple[bool, Any]:
    """(whether it is there, what is there)."""
    for key in keys:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return False, None
    return True, value


def check_json(result: Any, rules: Rules, is_yaml: bool = False) -> float:
    value = files.result(result, _yaml if is_yaml else _json)
    if value is None:
        return 0.0
    for rule in rules.get("expect", []):
        there, found = _at(value, rule["key"])
        if not there or not value_matches(found, rule):
            return 0.0
    return float(not any(value_matches(_at(value, rule["key"])[1], rule) for rule in rules.get("unexpect", [])))


def check_direct_json_object(result: Any, rules: Rules) -> float:
    if isinstance(result, str):
        try:
            result = json.loads(result.replace("'", '"'))
        except ValueError:
            return 0.0
    expected: dict[str, Any] = rules["expected"]
    if not isinstance(result, dict) or "__EVALUATION_FAILED__" in map(str, expected.values()):
        return 0.0
    wanted = {key: value for key, value in expected.items() if key != "ignore_list_order"}
    if rules.get("expect_in_result", False):
        return float(all(_holds(result.get(key), value) for key, value in wanted.items()))
    if expected.get("ignore_list_order", False):
        wanted = {key: sorted(value) for key, value in wanted.items()}
        result = {key: sorted(result.get(key) or []) for key in wanted}
    return float(all(result.get(key) == value for key, value in wanted.items()))


def _holds(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return any(value in found if isinstance(found, list) else value == found for value in wanted)
    return isinstance(wanted, str) and isinstance(found, str | list) and wanted in found


def is_included_all_json_objects(expected: Any, result: Any) -> float:
    """The reference comes first here, as in OSWorld."""
    ours, theirs = files.result(result, _json), files.reference(expected, _json)
    return float(isinstance(ours, dict) and all(k in ours and ours[k] == v for k, v in theirs.items()))


def check_json_settings(actual: Any, expected: Rules, **options: Any) -> float:
    value = files.result(actual, _json)
    if not isinstance(value, dict):
        return 0.0
    return float(all(key in value and value[key] == wanted for key, wanted in expected["expected"].items()))


def check_json_keybindings(actual: Any, expected: Rules, **options: Any) -> float:
    """A list of bindings, perhaps below one line of comment."""

    def read(path: str) -> Any:
        text = files.text(path)
        return json.loads(text.partition("\n")[2] if text.lstrip().startswith("//") else text)

    value = files.result(actual, read)
    return float(isinstance(value, list) and expected["expected"] in value)


_NAMESPACES = {
    short: f"https://accessibility.ubuntu.example.org/ns/{long}"
    for short, long in (("st", "state"), ("attr", "attributes"), ("cp", "component"), ("doc", "document"),
                        ("docattr", "document/attributes"), ("txt", "text"), ("val", "value"), ("act", "action"))
}  # fmt: skip


def check_accessibility_tree(result: str, rules: list[Rules], osname: str = "ubuntu") -> float:
    """The product, over rules, of how well some selected element's text agrees. Selectors need cssselect."""
    import lxml.etree
    from rapidfuzz import fuzz

    if osname != "ubuntu":
        raise VerifierError(f"there are no trees of {osname!r} here", where="metric")
    root = lxml.etree.fromstring(result.encode(), lxml.etree.XMLParser(resolve_entities=False, no_network=True))
    score = 1.0
    for rule in rules:
        found = root.xpath(rule["xpath"], namespaces=_NAMESPACES) if "xpath" in rule else _selected(root, rule)
        if not found:
            return 0.0
        if "text" in rule:
            texts = [element.text or "" for element in found]
            exact = rule.get("exact", True)
            score *= max(float(t == rule["text"]) if exact else fuzz.ratio(t, rule["text"]) / 100 for t in texts)
    return score


def _selected(root: Any, rule: Rules) -> Any:
    try:
        from lxml.cssselect import CSSSelector
    except ImportError as error:
        raise VerifierError("selectors need the package cssselect", where="metric", remedy="use an xpath") from error
    return CSSSelector(", ".join(rule["selectors"]), namespaces=_NAMESPACES)(root)


def run_sqlite3(result: Any, rules: Rules) -> float:
    """The first value of a query; the file is opened read-only."""
    import sqlite3

    def ask(path: str) -> float:
        base = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            base.execute("select count(*) from sqlite_master").fetchone()  # a query alone need not look at the file
            row = base.execute(rules["sql"]).fetchone()
        finally:
            base.close()
        return float((row or [0])[0] or 0)

    found = files.result(result, ask)
    return 0.0 if found is None else found
