"""Our own metrics: each passes what it asks for and nothing near it, on real files of the applications' formats."""

from __future__ import annotations

import io
import json
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps

from components.contracts.errors import VerifierError
from components.sandbox.osworld import metrics
from components.sandbox.osworld.metrics.rules import value_matches

Save = Callable[[str, Any], str]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Writes text, bytes, or anything with a `save` method; gives the path."""

    def write(name: str, content: Any) -> str:
        path = tmp_path / name
        if isinstance(content, str | bytes):
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        else:
            content.save(str(path))
        return str(path)

    return write


def of(name: str, *given: Any, **options: Any) -> float:
    metric = metrics.of(name)
    assert metric is not None
    return float(metric(*given, **options))


def both(name: str, right: Any, wrong: Any, *rest: Any, **options: Any) -> None:
    assert of(name, right, *rest, **options) == 1.0
    assert of(name, wrong, *rest, **options) < 1.0


def test_values_and_texts() -> None:
    both("check_include_exclude", "a total 12", "a total 12 draft", {"include": ["total 12"], "exclude": ["draft"]})
    both("exact_match", "x\n", "x", {"expected": "x\n"})
    both("match_in_list", "b", "c", {"expected": ["a", "b"]})
    both("is_in_list", ["a", "b"], ["a"], {"expected": "b"})
    both("fuzzy_match", "abcd", "abcx", {"expected": "abcd"})
    both("literal_match", "ABC", "ABD", "abc", ignore_case=True)
    both("literal_match", ["A", "1"], ["A"], ["a", 1], type="list", ignore_case=True)
    both("compare_answer", "42", "", {"expected": "42"})
    both("is_extension_installed", "a\nb", "a", {"type": "contain", "expected": "b"})
    both("check_direct_json_object", {"a": 1, "b": 2}, {"a": 2}, {"expected": {"a": 1}})
    within = {"expected": {"a": ["y"]}, "expect_in_result": True}
    both("check_direct_json_object", {"a": ["x", "y"]}, {"a": ["z"]}, within)
    assert of("check_direct_json_object", {"a": 1}, {"expected": {"a": "__EVALUATION_FAILED__"}}) == 0.0
    both("check_gnome_favorite_apps", "['b', 'a']", "__import__('os').abort()", {"expected": ["a", "b"]})
    both("is_utc_0", "1\n2\n3\nTime zone: UTC (UTC, +0000)", "1\n2\n3\nTime zone: X (X, +0100)")
    both("check_text_enlarged", "1.25", "1.0")
    both("is_vlc_fullscreen", {"width": 9, "height": 8}, {"width": 9, "height": 7}, {"width": 9, "height": 8})


RULES: list[tuple[Any, dict[str, Any], bool]] = [
    (5, {"method": "ge", "ref": 5}, True), ("x", {"method": "ge", "ref": 5}, False),
    ("Hello", {"method": "re.IGNORECASE", "ref": "^hel"}, True), ("Hello", {"method": "re", "ref": "^hel"}, False),
    ("3.04", {"method": "approx:0.1", "ref": 3}, True), ("x", {"method": "approx:0.1", "ref": 3}, False),
    (0, {"method": "range.te", "ref": [0, 2]}, False), (2, {"method": "range.te", "ref": [0, 2]}, True),
    ("b,a", {"method": "str_set_eq", "ref": ["a", "b"]}, True),
    ("b,a", {"method": "str_list_eq", "ref": ["a", "b"]}, False),
]  # fmt: skip


@pytest.mark.parametrize(("value", "rule", "holds"), RULES)
def test_a_rule_for_a_value_holds_or_does_not(value: Any, rule: dict[str, Any], holds: bool) -> None:
    assert value_matches(value, rule) is holds


@pytest.mark.parametrize("method", ["", "near", "range.xx", "re.compile", "re.Pattern", "__class__"])
def test_an_unknown_rule_is_a_broken_check(method: str) -> None:
    with pytest.raises(VerifierError):
        value_matches("x", {"method": method, "ref": "x"})


def test_text_files(save: Save) -> None:
    gold = save("gold.txt", "One two\n\nthree\n")
    loose = save("loose.txt", "one TWO three")
    both("compare_text_file", loose, save("w.txt", "one two four"), gold, ignore_blanks=True, ignore_case=True)
    assert of("compare_text_file", loose, gold) == 0.0
    both("diff_text_file", gold, loose, gold)
    both("file_contains", gold, loose, {"expected": ["One", "three"]})
    both("compare_config", gold, loose, {"expected": "One two\n\nthree\n"})
    both("check_line_number", save("t.txt", "at 10:00:00\nat 23:59:59\n"), gold, {"expected": 2})
    both("check_list", gold, loose, {"expect": ["^One", "e$"], "unexpect": ["four"]})
    both("compare_result_files", save("n.txt", "the answer is 4.0"), loose, save("n2.txt", "4.0\n"))
    code = save("a.py", "#!/usr/bin/python3\n# -*- coding: utf-8 -*-\n\nx = 1   \n\ny = 2\n")
    both("compare_python_pure_text", code, loose, save("b.py", "x = 1\ny = 2"))
    both("compare_terminal_and_txt", gold, loose, "One two\n\nthree\n")


def test_structured_files(save: Save) -> None:
    settings = save("s.json", json.dumps({"a": {"b": [1, {"c": "deep"}]}, "n": 7}))
    rules = {"expect": [{"key": ["a", "b", 1, "c"], "method": "eq", "ref": "deep"}],
             "unexpect": [{"key": ["n"], "method": "eq", "ref": 8}]}  # fmt: skip
    both("check_json", settings, save("bad.json", "{"), rules)
    both("check_json", save("s.yaml", "a:\n  b:\n    - 1\n    - c: deep\n"), settings + "x", rules, is_yaml=True)
    both("check_json_settings", settings, save("o.json", '{"n": 8}'), {"expected": {"n": 7}})
    both("check_json_keybindings", save("k.json", '// keys\n[{"key": "a"}]'), settings, {"expected": {"key": "a"}})
    assert of("is_included_all_json_objects", save("g.json", '{"n": 7}'), settings) == 1.0
    both("check_csv", save("a.csv", "item,count\nbolt,4\n"), save("b.csv", "item,count\nbolt,5\n"),
         {"expect": [{"item": "bolt", "count": "4"}], "unexpect": [{"item": "nut"}]})  # fmt: skip
    both("compare_csv", save("c.csv", "A,B \n1,2\n"), save("d.csv", "A,B\n1,3\n"), save("e.csv", "a,b\n1,2\n"),
         strict=False, ignore_case=True)  # fmt: skip
    base = sqlite3.connect(save("x.db", b""))
    base.execute("create table t(a)")
    base.execute("insert into t values(3)")
    base.commit()
    base.close()
    path = str(Path(settings).with_name("x.db"))
    both("run_sqlite3", path, settings, {"sql": "select a = 3 from t"})
    xml = '<d xmlns:st="https://accessibility.ubuntu.example.org/ns/state"><f name="x" st:active="true">hi</f></d>'
    both("check_accessibility_tree", xml, xml.replace("hi", "ho"), [{"xpath": "//f[@st:active='true']", "text": "hi"}])
    locale = '<oor:items xmlns:oor="http://openoffice.org/2001/registry"><item oor:path="/org.openoffice.Setup/L10N">' \
        '<prop oor:name="ooLocale"><value>de-DE</value></prop></item></oor:items>'  # fmt: skip
    both("check_libre_locale", save("r.xcu", locale), settings, {"locale_set": ["de*"]})


def workbook(**changes: Any) -> Any:
    from openpyxl import Workbook
    from openpyxl.chart import BarChart, Reference
    from openpyxl.styles import Font

    book = Workbook()
    sheet = book.active
    sheet.title = changes.get("title", "Data")
    for row in [["Name", "Value"], ["a", 1.00001], ["b", changes.get("b", 2)]]:
        sheet.append(row)
    if changes.get("bold"):
        sheet["A1"].font = Font(bold=True)
    sheet.freeze_panes = changes.get("freeze")
    sheet.sheet_view.zoomScale = changes.get("zoom", 100)
    sheet.column_dimensions["A"].width = changes.get("width", 10)
    sheet.auto_filter.ref = changes.get("filter")
    if changes.get("chart"):
        chart = BarChart()
        chart.type = changes["chart"]
        chart.title = "T"
        chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=3), titles_from_data=True)
        sheet.add_chart(chart, "D2")
    return book


TWO = {"sheet_idx0": 0, "sheet_idx1": "EI0"}
TABLE_RULES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"type": "sheet_data", **TWO}, {}, {"b": 3}),
    ({"type": "sheet_name"}, {}, {"title": "Other"}),
    ({"type": "freeze", **TWO}, {"freeze": "A2"}, {"freeze": "B1"}),
    ({"type": "zoom", "sheet_idx": 0, "method": "eq", "ref": 150}, {"zoom": 150}, {"zoom": 90}),
    ({"type": "style", **TWO, "props": ["font_bold"]}, {"bold": True}, {"bold": False}),
    ({"type": "col_props", **TWO, "props": ["width"]}, {"width": 30}, {"width": 12}),
    ({"type": "filter", **TWO}, {"filter": "A1:B3"}, {"filter": "A1:A3"}),
    ({"type": "chart", **TWO, "chart_props": ["type", "direction", "title"]}, {"chart": "col"}, {"chart": "bar"}),
    ({"type": "check_cell", "sheet_idx": "RNData", "coordinate": "A1", "props": {
        "value": {"method": "eq", "ref": "Name"}, "font_bold": {"method": "eq", "ref": True}}},
     {"bold": True}, {"bold": False}),
    ({"type": "sheet_fuzzy", **TWO, "rules": [{"range": ["A1:B3"], "type": "exact_match", "ignore_case": True}]},
     {}, {"b": 5}),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "right", "wrong"), TABLE_RULES, ids=[rule["type"] for rule, _, _ in TABLE_RULES])
def test_a_rule_for_a_workbook_tells_the_right_one(
    rule: dict[str, Any], right: dict[str, Any], wrong: dict[str, Any], save: Save
) -> None:
    gold = save("gold.xlsx", workbook(**right))
    both("compare_table", save("r.xlsx", workbook(**right)), save("w.xlsx", workbook(**wrong)), gold, rules=[rule])
    assert of("compare_table", save("broken.xlsx", b"PK no workbook"), gold, rules=[rule]) == 0.0
    with pytest.raises(VerifierError):
        of("compare_table", gold, str(Path(gold).with_name("gone.xlsx")), rules=[rule])
    with pytest.raises(VerifierError):
        of("compare_table", gold, gold, rules=[{"type": "pivot_table", **TWO}])


def document(*texts: str, **changes: Any) -> Any:
    from docx import Document
    from docx.enum.text import WD_BREAK

    made = Document()
    for number, text in enumerate(texts):
        paragraph = made.add_paragraph()
        run = paragraph.add_run(text)
        run.font.name = changes.get("font", "Serif")
        run.font.strike = changes.get("strike", False) and number == len(texts) - 1
        run.font.subscript = changes.get("subscript", False) and number == 0
        paragraph.paragraph_format.line_spacing = changes.get("spacing", (1.0, 1.0, 1.0))[number % 3]
        if number == 0:
            paragraph.alignment = changes.get("align")
    if changes.get("page_break"):
        made.paragraphs[-1].add_run().add_break(WD_BREAK.PAGE)
    for row in changes.get("table", []):
        table = made.tables[0] if made.tables else made.add_table(0, len(row))
        for cell, text in zip(table.add_row().cells, row, strict=True):
            cell.text = text
    if "footer" in changes:
        made.sections[0].footer.paragraphs[0].text = changes["footer"]
    if "image" in changes:
        made.add_picture(io.BytesIO(changes["image"]))
    return made


def test_documents(save: Save) -> None:
    gold = save("gold.docx", document("One", "two  three", "end"))
    same, other = save("same.docx", document("One", "two three", "end")), save("o.docx", document("One", "two", "End"))
    both("compare_docx_files", same, other, gold)
    assert of("compare_docx_files", same, gold, ignore_blanks=False) == 0.0
    both("compare_docx_files", save("sw.docx", document("end", "One", "two  three")), other, gold, ignore_order=True)
    assert 0.5 < of("compare_docx_files", other, gold, fuzzy_match=True) < 1.0
    spread = save("b.docx", document("One", "", "two three", "end"))
    both("compare_docx_files_and_ignore_new_lines", spread, other, gold)
    both("compare_docx_lines", save("l.docx", document("end", "One", "two  three", "One")), other, gold)
    both("compare_init_lines", save("i.docx", document("One", "two  three", "end", "more")), other, gold)
    both("compare_font_names", gold, save("f.docx", document("One", font="Mono")), {"font_name": "Serif"})
    spaced = {"spacing": (1.0, 2.0, 1.5)}
    both("evaluate_spacing", save("s.docx", document("a", "b", "c", **spaced)), gold)
    both("compare_line_spacing", save("s2.docx", document("a", "b", "c", **spaced)),
         save("s3.docx", document("a", "b", "c")), save("s4.docx", document("a", "b", "c", **spaced)))  # fmt: skip
    both("is_first_line_centered", save("c.docx", document("a", align=1)), gold)
    both("contains_page_break", save("p.docx", document("a", page_break=True)), gold, {"page_break_count": 1})
    both("has_page_numbers_in_footers", save("n.docx", document("a", footer="Page 1")), gold)
    struck = save("k.docx", document("One", "two three", "end", strike=True))
    both("evaluate_strike_through_last_paragraph", struck, same, gold)
    sub = save("u.docx", document("H2O", subscript=True))
    both("compare_subscript_contains", sub, gold, sub)
    table = save("t.docx", document("x", table=[["a", "b"]]))
    both("compare_docx_tables", table, save("t2.docx", document("x", table=[["a", "c"]])), table)
    picture = save("im.docx", document("x", image=png(shapes())))
    both("compare_docx_images", picture, gold, picture)
    assert of("compare_contains_image", picture, picture) == 1.0
    words = {"expected": ["alpha", "beta", "gamma"]}
    both("fuzzy_place_math", save("w.docx", document("alpha beta", "gamma")), gold, words)
    assert of("compare_docx_files", save("x.docx", b"no document"), gold) == 0.0


def deck(**changes: Any) -> Any:
    from pptx import Presentation
    from pptx.dml.color import RGBColor
    from pptx.util import Inches, Pt

    made = Presentation()
    if changes.get("portrait"):
        made.slide_width, made.slide_height = made.slide_height, made.slide_width
    slide = made.slides.add_slide(made.slide_layouts[6])
    box = slide.shapes.add_textbox(Inches(1), Inches(changes.get("top", 1)), Inches(3), Inches(1))
    run = box.text_frame.paragraphs[0].add_run()
    run.text = changes.get("text", "Plan")
    run.font.size = Pt(changes.get("size", 20))
    run.font.bold = changes.get("bold")
    if changes.get("strike"):
        run.font._element.set("strike", "sngStrike")
    if "fill" in changes:
        slide.background.fill.solid()
        slide.background.fill.fore_color.rgb = RGBColor(*changes["fill"])
    if "note" in changes:
        slide.notes_slide.notes_text_frame.text = changes["note"]
    return made


def test_presentations(save: Save) -> None:
    gold = save("gold.pptx", deck())
    for number, change in enumerate([{"text": "Plans"}, {"size": 30}, {"bold": True}, {"strike": True}, {"top": 2},
                                     {"fill": (255, 0, 0)}, {"note": "say"}]):  # fmt: skip
        both("compare_pptx_files", save("same.pptx", deck()), save(f"{number}.pptx", deck(**change)), gold)
    assert of("compare_pptx_files", save("top.pptx", deck(top=2)), gold, examine_shape=False) == 1.0
    with pytest.raises(VerifierError):
        of("compare_pptx_files", gold, gold, examine_modify_height=True)
    both("check_slide_orientation_Portrait", save("p.pptx", deck(portrait=True)), gold)
    one = {"slide_index_s": [0], "shape_index_s": [0], "paragraph_index_s": [0]}
    both("check_strikethrough", save("k.pptx", deck(strike=True)), gold, one)
    red = save("red.pptx", deck(fill=(255, 0, 0)))
    both("evaluate_presentation_fill_to_rgb_distance", red, gold, {"rgb": [255, 0, 0], "original_rgb": [0, 0, 0]})
    with zipfile.ZipFile(gold) as source, zipfile.ZipFile(Path(gold).with_name("tr.pptx"), "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name == "ppt/slides/slide1.xml":
                data = data.replace(b"</p:sld>", b"<p:transition><p:dissolve/></p:transition></p:sld>")
            target.writestr(name, data)
    moving = str(Path(gold).with_name("tr.pptx"))
    both("check_transition", moving, gold, {"slide_idx": 0, "transition_type": "dissolve"})


def shapes() -> Image.Image:
    image = Image.new("RGB", (90, 60), (240, 230, 200))
    draw = ImageDraw.Draw(image)
    draw.rectangle((5, 5, 40, 30), fill=(180, 60, 40))
    draw.ellipse((50, 20, 85, 55), fill=(60, 90, 170))
    return image


def png(image: Image.Image) -> bytes:
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def test_pictures(save: Save) -> None:
    original = shapes()
    gold = save("gold.png", original)
    mirrored = save("m.png", ImageOps.mirror(original))
    both("check_structure_sim", gold, mirrored, gold)
    both("check_image_mirror", mirrored, gold, gold)
    both("compare_images", gold, mirrored, gold)
    both("compare_image_list", [gold, gold], [gold, mirrored], [gold, gold])
    both("check_image_size", gold, save("s.png", original.resize((30, 20))), {"width": 90, "height": 60})
    both("check_image_file_size", gold, save("big.bmp", original), {"max_size": 5000})
    both("check_structure_sim_resized", save("big.png", original.resize((180, 120))), mirrored, gold)
    dark, bright = (save(f"{f}.png", ImageEnhance.Brightness(original).enhance(f)) for f in (0.7, 1.3))
    both("check_brightness_decrease_and_structure_sim", dark, bright, gold)
    assert of("decrease_brightness", gold, dark) == 1.0 and of("decrease_brightness", gold, bright) == 0.0
    rich, pale = (save(f"c{f}.png", ImageEnhance.Color(original).enhance(f)) for f in (1.3, 0.6))
    assert of("increase_saturation", gold, rich) == 1.0 and of("increase_saturation", gold, pale) == 0.0
    strong, weak = (save(f"k{f}.png", ImageEnhance.Contrast(original).enhance(f)) for f in (1.3, 0.6))
    both("check_contrast_increase_and_structure_sim", strong, weak, gold)
    soft = save("soft.png", original.filter(ImageFilter.GaussianBlur(2)))
    both("check_sharper", gold, soft, soft)
    both("check_config_status", save("rc", '# gimprc\n(theme "Dark")\n'), gold, {"key": "theme", "value": '"Dark"'})
    assert of("check_structure_sim", save("no.png", b"\x89PNG nothing"), gold) == 0.0


def test_what_a_browser_holds() -> None:
    tabs = [{"title": "a", "url": "https://www.a.example/"}, {"title": "b", "url": "http://b.example/x?y=1"}]
    urls = {"type": "url", "urls": ["b.example/x?y=1", "https://a.example"]}
    both("is_expected_tabs", tabs, tabs[:1], urls)
    both("is_expected_active_tab", tabs[0], tabs[1], {"type": "url", "url": "https://a.example"})
    both("is_expected_active_tab_approximate", tabs[1], tabs[0], {"type": "url", "url": "http://b.example/x?z=2"})
    both("is_expected_url_pattern_match", tabs[1], tabs[0], {"expected": [r"b\.example", r"y=\d"]})
    both("is_expected_search_query", tabs[1], tabs[0], {"expect": {"pattern": "y=1"}})
    both("check_history_deleted", [["https://news.example", "", 1]], [["https://shop.example", "", 1]],
         {"type": "keywords", "keywords": ["shop"]})  # fmt: skip
    both("is_cookie_deleted", [[1, ".b.example"]], [[1, ".a.example"]], {"type": "domains", "domains": [".a.example"]})
    bar = {"bookmark_bar": {"children": [{"type": "folder", "name": "F", "children": []},
                                         {"type": "url", "name": "u", "url": "https://a.example/"}]}}  # fmt: skip
    assert of("is_expected_bookmarks", bar, {"type": "bookmark_bar_folders_names", "names": ["F"]}) == 1.0
    assert of("is_expected_bookmarks", bar, {"type": "bookmark_bar_websites_urls", "urls": ["x"]}) == 0.0
    sizes = [{"default_font_size": size} for size in (20, 16)]
    both("check_font_size", *sizes, {"type": "range", "min": 18, "max": 30})
    both("check_enabled_experiments", ["x@1"], [], {"type": "names", "names": ["x"]})
    both("is_expected_installed_extensions", ["a", "b"], ["b"], {"expected": ["a"]})


def test_archives_are_compared_without_unpacking_them_anywhere(save: Save, tmp_path: Path) -> None:
    def archive(**members: str) -> bytes:
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as target:
            for name, text in members.items():
                target.writestr(name.replace("__", "/"), text)
        return data.getvalue()

    gold = save("gold.zip", archive(a="x", d__b="y"))
    both("compare_zip_files", save("r.zip", archive(d__b="y", a="x")), save("w.zip", archive(a="x")), gold)
    both("compare_archive", save("t.zip", archive(a="X", d__b="y")), save("w2.zip", archive(a="z", d__b="y")), gold,
         ignore_case=True)  # fmt: skip
    evil = io.BytesIO()
    with zipfile.ZipFile(evil, "w") as target:
        target.writestr("../../outside.txt", "x")
    assert of("compare_archive", save("evil.zip", evil.getvalue()), gold) == 0.0
    assert not list(tmp_path.parent.rglob("outside.txt"))


NOT_OF_FILES = frozenset(
    "exact_match match_in_list is_in_list fuzzy_match literal_match compare_answer is_extension_installed"
    " check_include_exclude is_in_vm_clickboard check_direct_json_object is_expected_installed_extensions"
    " is_expected_url_pattern_match".split()
)
"""Metrics of values: for them a path is a text like any other."""


@pytest.mark.parametrize("name", sorted(set(metrics.names()) - NOT_OF_FILES))
def test_no_metric_of_files_passes_a_result_that_cannot_be_read(name: str, save: Save) -> None:
    """Whatever the agent left in the file's place: a score of 0, or a broken check, never a success."""
    metric = metrics.of(name)
    assert metric is not None
    rule = {"expected": [], "expect": [], "rules": [], "type": "url", "url": "u", "font_name": "f", "max_size": 0,
            "key": "k", "value": "v", "width": 1, "names": [], "urls": ["u"], "sql": "select 1"}  # fmt: skip
    options = {"rules": [{"type": "sheet_name"}]} if name == "compare_table" else {}
    for junk in (save("junk.bin", bytes(range(256)) * 9), "/nowhere/at/all"):
        for given in ((junk,), (junk, rule)):
            try:
                value = metric(*given, **options)
            except Exception:
                continue
            assert float(value) == 0.0, given
