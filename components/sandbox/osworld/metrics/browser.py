"""Pages, bookmarks, history and settings of a browser, as the getters give them."""

from __future__ import annotations

import re
from itertools import product
from typing import Any
from urllib.parse import urlsplit

from components.contracts.errors import VerifierError
from components.sandbox.osworld.browser import same_address

Rule = dict[str, Any]


def _address(tab: Any) -> str:
    return str((tab.get("url") if isinstance(tab, dict) else tab) or "")


def _unknown(rule: Rule) -> VerifierError:
    return VerifierError(f"there is no type {rule.get('type')!r} of this rule", where="metric")


def is_expected_active_tab(tab: Any, rule: Rule) -> float:
    if rule["type"] != "url":
        raise _unknown(rule)
    return float(bool(tab) and same_address(_address(tab), rule["url"]))


def is_expected_active_tab_approximate(tab: Any, rule: Rule) -> float:
    """Without what follows the question mark."""
    if rule["type"] != "url":
        raise _unknown(rule)
    sides = [urlsplit(address)._replace(query="").geturl() for address in (_address(tab), rule["url"])]
    return float(bool(tab) and sides[0] == sides[1])


def is_expected_tabs(tabs: Any, rule: Rule) -> float:
    """Exactly these pages, in any order."""
    if rule["type"] != "url":
        raise _unknown(rule)
    left = [_address(tab) for tab in tabs or []]
    for url in rule["urls"]:
        found = next((address for address in left if same_address(address, url)), None)
        if found is None:
            return 0.0
        left.remove(found)
    return float(not left)


def is_expected_bookmarks(roots: Any, rule: Rule) -> float:
    if not roots:
        return 0.0
    bar: list[Rule] = roots["bookmark_bar"]["children"]
    if rule["type"] == "bookmark_bar_folders_names":
        return float({entry["name"] for entry in bar if entry["type"] == "folder"} == set(rule["names"]))
    if rule["type"] == "bookmark_bar_websites_urls":
        return float({entry["url"] for entry in bar if entry["type"] == "url"} == set(rule["urls"]))
    if rule["type"] == "liked_authors_websites_urls":
        folders = [entry for entry in bar if entry["type"] == "folder" and entry["name"] == "Liked Authors"]
        found = {entry["url"] for folder in folders[:1] for entry in folder["children"] if entry["type"] == "url"}
        choices = [[url] if isinstance(url, str) else url for url in rule["urls"]]
        return float(any(set(choice) == found for choice in product(*choices)))
    raise _unknown(rule)


def is_cookie_deleted(cookies: Any, rule: Rule) -> float:
    if rule["type"] != "domains":
        raise _unknown(rule)
    hosts = [str(row[1]).lstrip(".") for row in cookies]
    return float(not any(same_address(host, domain.lstrip(".")) for host in hosts for domain in rule["domains"]))


def check_history_deleted(rows: Any, rule: Rule) -> float:
    if rule["type"] != "keywords":
        raise _unknown(rule)
    return float(not any(word in str(row[0]) for row in rows for word in rule["keywords"]))


def is_shortcut_on_desktop(shortcuts: dict[str, str], rule: Rule) -> float:
    fields = {"name": "Name", "exec": "Exec"}
    if rule["type"] not in fields:
        raise _unknown(rule)
    line = f"{fields[rule['type']]}={rule[rule['type']]}"
    return float(any(line in text.splitlines() for text in shortcuts.values()))


def check_font_size(fonts: Rule, rule: Rule) -> float:
    size = fonts["default_font_size"]
    if rule["type"] == "value":
        return float(size == rule["value"])
    if rule["type"] == "range":
        return float(rule["min"] < size < rule["max"])
    raise _unknown(rule)


def check_enabled_experiments(experiments: list[str], rule: Rule) -> float:
    if rule["type"] != "names":
        raise _unknown(rule)
    return float([name.partition("@")[0] for name in experiments] == rule["names"])


def is_expected_search_query(tab: Any, rules: Rule) -> float:
    return float(bool(tab) and re.search(rules["expect"]["pattern"], _address(tab)) is not None)


def is_expected_url_pattern_match(result: Any, rules: Rule) -> float:
    return float(bool(result) and all(re.search(pattern, _address(result)) for pattern in rules["expected"]))


def is_expected_installed_extensions(installed: Any, rules: Rule) -> float:
    return float(bool(installed) and set(rules["expected"]) <= set(installed))
