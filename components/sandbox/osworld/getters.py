"""What a metric looks at: each getter fetches one thing from the guest or the host's folder of references.

A getter gives None where the guest has no such thing; that never passes. It raises `TaskError` where the task or its
reference is at fault, which is nobody's success either.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from components.contracts.errors import TaskError
from components.sandbox.osworld import browser
from components.sandbox.osworld.cache import Cache, FetchedFile
from components.sandbox.osworld.guest import HOME, Guest, GuestRefusal
from components.sandbox.osworld.registry import GETTERS
from components.sandbox.osworld.sources import Sources

Config = dict[str, Any]
LIVE = frozenset({
    "open_tabs_info", "active_tab_info", "active_url_from_accessTree", "active_tab_url_parse", "url_dashPart",
})  # fmt: skip
"""Getters that ask a running application: to be called before the desktop is frozen for grading."""
GIMP = f"{HOME}/.config/GIMP/2.10"


@dataclass(frozen=True)
class Scene:
    """All that getters need of one evaluation."""

    guest: Guest
    sources: Sources
    cache: Cache


def get(scene: Scene, config: Config) -> Any:
    """What the getter `config["type"]` gives. Raises `TaskError`, `SandboxError`."""
    name = str(config["type"])
    reason = GETTERS.get(name, "unknown getter")
    if reason:
        raise TaskError(f"not supported: {reason}", where=f"getter {name}", remedy="leave the task out")
    try:
        return _GETTERS[name](scene, config)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise TaskError(f"wrong parameters: {type(error).__name__}: {error}", where=f"getter {name}") from error


# -- rules and files --------------------------------------------------------------------------------------------------


def _vm_file(scene: Scene, config: Config) -> Any:
    def fetch(path: str, dest: str) -> str | None:
        try:
            data = scene.guest.read_file(path)
        except (FileNotFoundError, GuestRefusal):
            return None
        # In a place of its own: a reference of the same name must not be what is compared.
        return FetchedFile(scene.cache.write(f"result/{dest}", data))

    return _several(config, fetch)


def _cloud_file(scene: Scene, config: Config) -> Any:
    def fetch(path: str, dest: str) -> str:
        return scene.cache.write(f"expected/{dest}", scene.sources.read(path))

    return _several(config, fetch)


def _several(config: Config, fetch: Callable[[str, str], str | None]) -> Any:
    """One path, or with `multi` several; `gives` are the numbers of those that the metric gets."""
    if not config.get("multi", False):
        return fetch(config["path"], config["dest"])
    found = [fetch(path, dest) for path, dest in zip(config["path"], config["dest"], strict=True)]
    given = [found[number] for number in sorted(config.get("gives", [0]))]
    if None in given:
        return None
    return given[0] if len(given) == 1 else given


def _cache_file(scene: Scene, config: Config) -> str:
    path = scene.cache.path(config["path"])
    if not path.is_file():
        raise TaskError(f"no setup command wrote {config['path']}", where="getter cache_file")
    return str(path)


def _content_from_vm_file(scene: Scene, config: Config) -> Any:
    if (config["file_type"], config["file_content"]) != ("xlsx", "last_row"):
        raise TaskError("only the last row of an .xlsx is read", where="getter content_from_vm_file")
    path = _vm_file(scene, {"path": config["path"], "dest": config["path"].rpartition("/")[2]})
    if path is None:
        return None
    from components.sandbox.osworld.metrics.tables import last_row

    return last_row(path)


# -- the guest --------------------------------------------------------------------------------------------------------


def _command(scene: Scene, config: Config) -> str:
    return scene.guest.execute(config["command"], shell=bool(config.get("shell", False))).output


def _command_error(scene: Scene, config: Config) -> str:
    return scene.guest.execute(config["command"], shell=bool(config.get("shell", False))).error


def _wallpaper(scene: Scene, config: Config) -> str | None:
    try:
        return scene.cache.write(f"result/{config['dest']}", scene.guest.wallpaper())
    except FileNotFoundError:
        return None


def _tree(scene: Scene, config: Config) -> dict[str, Any] | None:
    try:
        return scene.guest.tree(config["path"])
    except FileNotFoundError:
        return None


def _gimp_config(scene: Scene, config: Config) -> Any:
    return _vm_file(scene, {"path": f"{GIMP}/{config['file_name']}", "dest": config["dest"]})


# -- the browser ------------------------------------------------------------------------------------------------------


def _tabs(scene: Scene, config: Config) -> list[dict[str, str]]:
    return [{"title": tab["title"], "url": tab["url"]} for tab in browser.tabs(scene.guest)]


def _active_tab(scene: Scene, config: Config) -> dict[str, str] | None:
    found = _tabs(scene, config)
    return found[0] if found else None


def _active_url(scene: Scene, config: Config) -> str | None:
    """OSWorld reads the address bar; ours asks the browser. `goto_prefix` is put before a bare host as there."""
    tab = _active_tab(scene, config)
    if tab is None:
        return None
    bare = re.sub(r"^[a-z]+://", "", tab["url"])
    return f"{config.get('goto_prefix', 'https://')}{bare}"


def _url_part(scene: Scene, config: Config) -> Any:
    url = _active_url(scene, config)
    if url is None:
        return None
    part = url.split("/")[int(config["partIndex"])]
    if config.get("needDeleteId", False):
        part = part.split("?")[0]
    return part if config.get("returnType", "string") == "string" else {str(config["key"]): part}


def _url_query(scene: Scene, config: Config) -> dict[str, Any] | None:
    url = _active_url(scene, config)
    if url is None:
        return None
    fields = {key: values[0] for key, values in parse_qs(urlsplit(url).query).items()}
    wanted = {key: fields.get(key, "") for key in config["parse_keys"]}
    for old, new in config.get("replace", {}).items():
        if old in wanted:
            wanted[new] = wanted.pop(old)
    return {key: value.split(",") if config.get("split_list", False) else value for key, value in wanted.items()}


def _preference(*path: str, otherwise: Any = None) -> Callable[[Scene, Config], Any]:
    def read(scene: Scene, config: Config) -> Any:
        value: Any = browser.preferences(scene.guest)
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return otherwise if value is None else value

    return read


def _yes(read: Callable[[Scene, Config], Any]) -> Callable[[Scene, Config], str]:
    """OSWorld's words for a switch."""
    return lambda scene, config: "true" if read(scene, config) else "false"


def _experiments(scene: Scene, config: Config) -> Any:
    return browser.preferences(scene.guest, "Local State").get("browser", {}).get("enabled_labs_experiments", [])


def _language(scene: Scene, config: Config) -> Any:
    return browser.preferences(scene.guest, "Local State").get("intl", {}).get("app_locale", "en-US")


def _font_size(scene: Scene, config: Config) -> dict[str, int]:
    fonts = browser.preferences(scene.guest).get("webkit", {}).get("webprefs", {})
    return {"default_fixed_font_size": 13, "default_font_size": 16, "minimum_font_size": 13, **fonts}


def _safe(scene: Scene, config: Config) -> bool:
    part = browser.preferences(scene.guest).get("safebrowsing", {})
    return bool(part.get("enabled", False) or part.get("enhanced", False))


def _startup(scene: Scene, config: Config) -> bool:
    part = browser.preferences(scene.guest)
    return "session" not in part or part["session"].get("restore_on_startup") == 5


def _bookmarks(scene: Scene, config: Config) -> Any:
    return browser.preferences(scene.guest, "Default/Bookmarks").get("roots", {})


def _extensions(field: str) -> Callable[[Scene, Config], list[Any]]:
    def read(scene: Scene, config: Config) -> list[Any]:
        found: list[Any] = []
        for name in ("Default/Preferences", "Default/Secure Preferences"):
            settings = browser.preferences(scene.guest, name).get("extensions", {}).get("settings", {})
            found += [e["path"] if field == "path" else e.get("manifest", {}).get(field) for e in settings.values()
                      if (field in e or field in e.get("manifest", {}))]  # fmt: skip
        return found

    return read


def _shortcuts(scene: Scene, config: Config) -> dict[str, str]:
    folder = scene.guest.desktop_path()
    try:
        names = [child["name"] for child in scene.guest.tree(folder)["children"] if child["type"] == "file"]
    except FileNotFoundError:
        return {}
    return {
        name: scene.guest.read_file(f"{folder}/{name}").decode("utf-8", "replace")
        for name in names if name.endswith(".desktop")
    }  # fmt: skip


# -- slides -----------------------------------------------------------------------------------------------------------


def _slide_part(kind: str) -> Callable[[Scene, Config], Any]:
    def read(scene: Scene, config: Config) -> Any:
        from components.sandbox.osworld.metrics.slides import media_of_slide

        path = _vm_file(scene, {"path": config["ppt_file_path"], "dest": config["ppt_file_path"].rpartition("/")[2]})
        data = media_of_slide(path, int(config["slide_index"]), kind) if path else None
        return None if data is None else scene.cache.write(f"result/{config['dest']}", data)

    return read


_GETTERS: dict[str, Callable[[Scene, Config], Any]] = {
    "rule": lambda scene, config: config["rules"],
    "time_diff_range": lambda scene, config: config["diff_range_in_minutes"],
    "vm_file": _vm_file, "cloud_file": _cloud_file, "cache_file": _cache_file,
    "content_from_vm_file": _content_from_vm_file, "vm_command_line": _command, "vm_command_error": _command_error,
    "vm_screen_size": lambda scene, config: scene.guest.screen_size(),
    "vm_window_size": lambda scene, config: scene.guest.window_size(config["app_class_name"]),
    "vm_wallpaper": _wallpaper, "list_directory": _tree,
    "accessibility_tree": lambda scene, config: scene.guest.accessibility(),
    "gimp_config_file": _gimp_config, "open_tabs_info": _tabs, "active_tab_info": _active_tab,
    "active_url_from_accessTree": _active_url, "active_tab_url_parse": _url_query, "url_dashPart": _url_part,
    "default_search_engine": _preference(
        "default_search_provider_data", "template_url_data", "short_name", otherwise="Google"
    ),
    "profile_name": _preference("profile", "name"), "bookmarks": _bookmarks,
    "history": lambda scene, config: browser.table(
        scene.guest, "History", "SELECT url, title, last_visit_time FROM urls"
    ),
    "cookie_data": lambda scene, config: browser.table(scene.guest, "Cookies", "SELECT * FROM cookies"),
    "enabled_experiments": _experiments, "chrome_language": _language, "chrome_font_size": _font_size,
    "enable_do_not_track": _yes(_preference("enable_do_not_track")),
    "enable_enhanced_safety_browsing": _yes(_preference("safebrowsing", "enhanced")),
    "enable_safe_browsing": _yes(_safe), "new_startup_page": _yes(_startup),
    "data_delete_automacally": _yes(_preference("profile", "default_content_setting_values")),
    "shortcuts_on_desktop": _shortcuts, "find_unpacked_extension_path": _extensions("path"),
    "find_installed_extension_name": _extensions("name"), "audio_in_slide": _slide_part("audio"),
    "background_image_in_slide": _slide_part("image"),
}  # fmt: skip


def offered() -> frozenset[str]:
    """The getters that are written."""
    return frozenset(_GETTERS)
