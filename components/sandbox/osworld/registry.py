"""The names that OSWorld's task files may use (release 1.0.2), and why we do not offer some.

`coverage.py` prints them with what answers each. An empty reason: ours does it.
"""

from __future__ import annotations

_NETWORK = "needs an account and the open network; a slot has neither"
_UPSTREAM = "OSWorld itself does not carry it out"
_PAGE = "reads a live page of the open network"
_CONTENT = "reads the content of a page inside the browser; only addresses and titles are read here"
_VLC = "VLC is not among the desktop's applications"
_CODE = "VS Code is not among the desktop's applications"
_MAIL = "Thunderbird is not among the desktop's applications"

SETUP_TYPES: dict[str, str] = {
    "download": "", "upload_file": "", "open": "", "launch": "", "execute": "", "execute_with_verification": "",
    "command": "", "sleep": "", "activate_window": "", "close_window": "", "change_wallpaper": "",
    "chrome_open_tabs": "", "chrome_close_tabs": "", "update_browse_history": "", "login": _NETWORK,
    "googledrive": _NETWORK, "proxy": _NETWORK, "act": _UPSTREAM, "replay": _UPSTREAM, "tidy_desktop": _UPSTREAM,
}  # fmt: skip

GETTERS: dict[str, str] = {
    "rule": "", "vm_file": "", "cache_file": "", "cloud_file": "", "content_from_vm_file": "", "vm_command_line": "",
    "vm_command_error": "", "vm_screen_size": "", "vm_window_size": "", "vm_wallpaper": "", "list_directory": "",
    "accessibility_tree": "", "time_diff_range": "", "gimp_config_file": "", "open_tabs_info": "",
    "active_tab_info": "", "active_url_from_accessTree": "", "default_search_engine": "", "bookmarks": "",
    "history": "", "cookie_data": "", "enabled_experiments": "", "profile_name": "", "chrome_language": "",
    "chrome_font_size": "", "enable_do_not_track": "", "enable_enhanced_safety_browsing": "",
    "enable_safe_browsing": "", "new_startup_page": "", "data_delete_automacally": "", "shortcuts_on_desktop": "",
    "url_dashPart": "", "vlc_config": _VLC, "vlc_playing_info": _VLC, "default_video_player": _VLC,
    "vscode_config": _CODE, "googledrive_file": _NETWORK, "pdf_from_url": _PAGE, "page_info": _PAGE,
    "info_from_website": _PAGE, "gotoRecreationPage_and_get_html_content": _PAGE, "macys_product_url_parse": _PAGE,
    "number_of_search_results": _PAGE, "active_tab_html_parse": _CONTENT, "active_tab_url_parse": "",
    "url_path_parse": _PAGE, "find_unpacked_extension_path": "", "find_installed_extension_name": "",
    "rule_relativeTime": "its dates depend on the day and on where the host's address is looked up to be",
    "conference_city_in_order": "needs an account: a file of one task",
    "audio_in_slide": "", "background_image_in_slide": "", "replay": _UPSTREAM,
    "vm_terminal_output": "the text inside a terminal window cannot be read through X alone",
}  # fmt: skip

PACKAGE_METRICS: dict[str, str] = {
    "basic_os": "check_gnome_favorite_apps is_utc_0 check_text_enlarged check_moved_jpgs is_in_vm_clickboard",
    "chrome": "is_expected_tabs is_expected_bookmarks compare_pdfs compare_htmls compare_archive is_cookie_deleted"
    " is_shortcut_on_desktop check_font_size check_enabled_experiments check_history_deleted is_expected_search_query"
    " is_expected_active_tab is_expected_url_pattern_match is_added_to_steam_cart is_expected_installed_extensions"
    " compare_pdf_images is_expected_active_tab_approximate",
    "docs": "compare_font_names compare_subscript_contains has_page_numbers_in_footers compare_docx_lines"
    " evaluate_colored_words_in_tables check_highlighted_words evaluate_strike_through_last_paragraph"
    " evaluate_conversion evaluate_spacing check_italic_font_size_14 evaluate_alignment get_unique_train_ids"
    " check_no_duplicates compare_init_lines find_default_font contains_page_break compare_docx_files"
    " compare_docx_tables compare_line_spacing compare_insert_equation compare_highlighted_text is_first_line_centered"
    " check_tabstops compare_contains_image compare_docx_files_and_ignore_new_lines compare_docx_images"
    " compare_image_text compare_references compare_unique_train_records",
    "general": "check_csv check_accessibility_tree run_sqlite3 check_json check_list exact_match match_in_list"
    " is_in_list fuzzy_match check_include_exclude check_direct_json_object compare_time_in_speedtest_results"
    " is_included_all_json_objects is_gold_text_included_in_pdf check_line_number file_contains"
    " compare_terminal_and_txt fuzzy_place_math compare_python_pure_text diff_text_file literal_match",
    "gimp": "check_structure_sim_resized check_brightness_decrease_and_structure_sim"
    " check_contrast_increase_and_structure_sim check_saturation_increase_and_structure_sim check_image_size"
    " check_image_mirror check_palette_and_structure_sim check_textbox_on_leftside check_green_background"
    " check_file_exists_and_structure_sim check_triangle_position check_structure_sim check_config_status"
    " compare_image_list increase_saturation decrease_brightness check_file_exists compare_triangle_positions"
    " check_sharper check_image_file_size",
    "libreoffice": "check_libre_locale",
    "others": "compare_epub check_mp3_meta",
    "pdf": "check_pdf_pages",
    "slides": "check_presenter_console_disable check_image_stretch_and_center check_slide_numbers_color"
    " compare_pptx_files check_strikethrough check_slide_orientation_Portrait"
    " evaluate_presentation_fill_to_rgb_distance check_left_panel check_transition check_page_number_colors"
    " check_auto_saving_time",
    "table": "compare_table compare_csv compare_conference_city_in_order",
    "thunderbird": "check_thunderbird_prefs check_thunderbird_filter check_thunderbird_folder",
    "vlc": "is_vlc_playing is_vlc_recordings_folder is_vlc_fullscreen compare_images compare_audios compare_videos"
    " check_qt_bgcone check_one_instance_when_started_from_file check_qt_minimal_view check_qt_max_volume"
    " check_qt_slider_colours check_global_key_play_pause",
    "vscode": "compare_text_file compare_config compare_answer compare_result_files is_extension_installed"
    " check_json_settings check_json_keybindings check_python_file_by_test_suite check_python_file_by_gold_file"
    " check_html_background_image compare_zip_files",
}
"""Module of the package `desktop-env` -> its metrics."""

UNSAFE: dict[str, str] = {
    "check_gnome_favorite_apps": "the package evaluates the guest's text as Python; ours reads it as data",
    "check_python_file_by_test_suite": "it runs code that the agent wrote, on this host",
    "compare_archive": "the package unpacks an archive of the agent's wherever its names lead",
}
"""Metrics of the package that are never used from it, installed or not."""

INFEASIBLE = "infeasible"


def package_module(metric: str) -> str:
    """The package's module of a metric; "" for a name that it does not have."""
    return next((module for module, names in PACKAGE_METRICS.items() if metric in names.split()), "")
