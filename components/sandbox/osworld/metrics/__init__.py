"""Our own metrics under OSWorld's names. `of(name)` gives one, or None; libraries load when one is called.

A metric takes what the getters gave and gives a score in [0, 1]. A result that cannot be read scores 0: the agent left
it so. A reference that cannot be read raises: that is the task's fault, and nobody's success.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

Metric = Callable[..., Any]

_MODULES: dict[str, str] = {
    "text": "check_include_exclude exact_match match_in_list is_in_list fuzzy_match literal_match diff_text_file"
    " check_list check_json check_direct_json_object is_included_all_json_objects check_line_number file_contains"
    " compare_terminal_and_txt compare_python_pure_text compare_text_file compare_config compare_answer"
    " is_extension_installed check_json_settings check_json_keybindings check_accessibility_tree run_sqlite3"
    " compare_time_in_speedtest_results compare_result_files",
    "tables": "check_csv compare_csv compare_table",
    "documents": "compare_docx_files compare_docx_files_and_ignore_new_lines compare_docx_lines compare_init_lines"
    " compare_docx_tables compare_docx_images compare_contains_image compare_line_spacing compare_font_names"
    " compare_subscript_contains has_page_numbers_in_footers is_first_line_centered contains_page_break"
    " find_default_font evaluate_strike_through_last_paragraph fuzzy_place_math evaluate_spacing",
    "slides": "compare_pptx_files check_strikethrough check_slide_orientation_Portrait check_transition"
    " evaluate_presentation_fill_to_rgb_distance check_auto_saving_time check_presenter_console_disable",
    "pictures": "compare_images check_structure_sim check_structure_sim_resized check_image_size check_image_mirror"
    " check_file_exists check_file_exists_and_structure_sim check_image_file_size compare_image_list"
    " increase_saturation decrease_brightness check_brightness_decrease_and_structure_sim"
    " check_saturation_increase_and_structure_sim check_contrast_increase_and_structure_sim check_sharper"
    " check_config_status",
    "browser": "is_expected_tabs is_expected_active_tab is_expected_active_tab_approximate is_expected_bookmarks"
    " is_cookie_deleted check_history_deleted is_shortcut_on_desktop check_font_size check_enabled_experiments"
    " is_expected_search_query is_expected_url_pattern_match is_expected_installed_extensions",
    "system": "check_gnome_favorite_apps is_utc_0 check_text_enlarged check_moved_jpgs is_in_vm_clickboard"
    " is_vlc_fullscreen check_libre_locale compare_zip_files compare_archive",
}
"""Module here -> the metrics in it."""


def names() -> list[str]:
    """All metrics of ours."""
    return [name for listed in _MODULES.values() for name in listed.split()]


def of(name: str) -> Metric | None:
    """Ours of that name; None when there is none."""
    module = next((module for module, listed in _MODULES.items() if name in listed.split()), None)
    if module is None:
        return None
    metric: Metric = getattr(import_module(f"{__name__}.{module}"), name)
    return metric
