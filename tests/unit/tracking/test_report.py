"""Promises of the report page: whole in one file, nothing from a model can act in it, half a run still gives a page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from components.contracts.marks import mark_of
from components.tracking.lineage import RunRecord
from components.tracking.report.build import build_report
from components.tracking.report.charts import Series, label_of, line_chart, nice_ticks, smooth, thin
from components.tracking.report.data import CurveView, EpisodeView, ReportData, StepView
from tests.unit.tracking.sample_report import sample

SIZE = (288, 224)
CANARY = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>&\"'{{ 7*7 }}\u2028"


class Page(HTMLParser):
    """The elements of a page, the text between its tags, and the content of its scripts."""

    VOID = {"meta", "img", "input", "br", "link", "hr"}

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID and not (self.open and self.open[-1] == "svg" and tag in {"line", "rect", "circle"}):
            self.open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            attributes, before = self.scripts[-1]
            self.scripts[-1] = (attributes, before + data)
        else:
            self.text += data


@pytest.fixture(scope="module")
def html() -> str:
    return build_report(sample())


def test_the_page_is_one_well_formed_file_that_loads_nothing(html: str) -> None:
    page = Page(html)
    assert page.wrong == [] and page.open == []
    for tag, attributes in page.elements:
        assert tag not in {"link", "iframe", "object", "embed", "base"}
        for name in ("src", "href", "action", "srcset"):
            value = attributes.get(name) or "#"
            assert value.startswith(("#", "data:")), (tag, value)
    assert not re.search(r"url\(\s*['\"]?(?!data:)[a-z]+:|@import", html)
    hosts = set(re.findall(r"https?://([^/\"'\s<]+)", html))
    assert hosts <= {"www.w3.org"}, hosts  # the name of the SVG language, fetched by nobody


def test_the_policy_of_the_page_allows_its_own_script_and_no_other(html: str) -> None:
    page = Page(html)
    policy = next(a["content"] for t, a in page.elements if t == "meta" and a.get("http-equiv"))
    assert policy is not None and "default-src 'none'" in policy and "'unsafe-eval'" not in policy
    run = [text for attributes, text in page.scripts if attributes.get("type") != "application/json"]
    assert len(run) == 1
    hashed = base64.b64encode(hashlib.sha256(run[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{hashed}'" in policy


def test_every_stage_stands_in_the_table_beside_the_base(html: str) -> None:
    text = " ".join(Page(html).text.split())
    assert re.search(r"hybrid-sft ?screen or terminal, decided turn by turn 61\.0\+25\.0 55–67 4\.60 126\.0 66 %", text)
    for stage in ("base", "midtrain", "gui-sft", "terminal-sft", "hybrid-sft", "rl"):
        assert stage in text
    assert "+7.0 points" in text and "-8.7 %" in text


def test_every_part_that_is_given_is_shown(html: str) -> None:
    text = " ".join(Page(html).text.split())
    for words in (
        "passes without acting 41", "1,840 of 2,000", "overlapping", "more steps for the same tasks", "mean reward",
        "infrastructure failures masked", "2 values not a number", "with uncommitted changes", "per_call: 0.02",
        "13 T", "1 episode of evaluate-rl ended by an infrastructure failure", "find largest number",
    ):  # fmt: skip
        assert words in text, words
    assert "Not here" not in text


def test_pictures_are_in_the_page_once_however_often_they_are_shown() -> None:
    data = sample()
    viewer = next(text for attributes, text in Page(build_report(data)).scripts if attributes.get("type"))
    found = json.loads(viewer)
    assert set(found["screens"]) == {"one", "two"}
    png = base64.b64decode(found["screens"]["one"].removeprefix("data:image/png;base64,"))
    assert png == data.screens["one"]
    data.screens["never shown"] = b"\x89PNG"
    assert "never shown" not in build_report(data)


def test_text_of_a_model_stays_text_wherever_it_stands() -> None:
    data = sample()
    step = StepView(
        screen="one", think=CANARY, action=CANARY, output=CANARY, error=CANARY, raw=CANARY,
        call={"name": "bash", "arguments": {"command": CANARY}},
    )  # fmt: skip
    data.episodes = [
        EpisodeView(stage="rl", task_id=CANARY, skill=CANARY, instruction=CANARY, success=False, steps=[step])
    ]
    data.title = data.subtitle = CANARY
    data.notes, data.params, data.facts = [CANARY], {CANARY: CANARY}, {CANARY: CANARY}
    data.curves = [CurveView(stage=CANARY, name=CANARY, unit=CANARY, points=[(0, 1), (1, 2)])]
    data.scores["rl"].by_skill = {CANARY: data.scores["rl"].by_skill["rename a file"]}
    record = data.record or RunRecord(run_id="x")
    record.commit, record.stages[0].name, record.stages[0].key = CANARY, CANARY, CANARY
    html = build_report(data)
    plain, page = Page(build_report(sample())), Page(html)
    assert page.wrong == [] and page.open == []
    assert len(page.scripts) == len(plain.scripts) == 2
    assert not any("onerror" in attributes for _, attributes in page.elements)
    assert "document.title='owned'" in page.text and "{{ 7*7 }}" in page.text
    stored = json.loads(next(text for attributes, text in page.scripts if attributes.get("type")))
    assert stored["episodes"][0]["steps"][0]["think"] == CANARY


def test_an_empty_run_gives_a_page_that_says_what_is_missing() -> None:
    page = Page(build_report(ReportData()))
    assert page.wrong == []
    text = " ".join(page.text.split())
    for part in ("all scores", "learning curves", "episodes", "the data funnel", "harness trials", "lineage"):
        assert part in text.partition("Not here:")[2]


def test_half_a_run_names_the_missing_stages_and_screens() -> None:
    data = sample()
    del data.scores["rl"], data.screens["two"]
    data.rl = None
    text = " ".join(Page(build_report(data)).text.split())
    assert "Not here: scores of rl, the RL panel, 1 screenshots." in text
    assert "held-out tasks solved after hybrid-sft" in text


def test_the_same_data_gives_the_same_page() -> None:
    assert build_report(sample()) == build_report(sample())


def test_the_report_s_data_survives_json() -> None:
    data = sample()
    assert ReportData.model_validate_json(data.model_dump_json()) == data


@pytest.mark.parametrize(
    ("call", "kind", "points", "caption"),
    [
        ({"tool": "computer_use", "action": "left_click", "coordinate": [10, 20]}, "click", [(10, 20)], "clicks"),
        ({"name": "computer_use", "arguments": {"action": "double_click", "coordinate": [500, 1000]}}, "double",
         [(144, 224)], "double-clicks"),
        ({"tool": "computer_use", "action": "left_click_drag", "start": [1, 2], "coordinate": [3, 4]}, "drag",
         [(1, 2), (3, 4)], "drags"),
        ({"name": "computer_use", "arguments": {"action": "left_click_drag", "coordinate": [250, 250]}}, "drag",
         [(72, 56)], "drags"),
        ({"tool": "computer_use", "action": "scroll", "coordinate": [50, 60], "pixels": -120}, "scroll",
         [(50, 60), (50, 94)], "scrolls down 120"),
        ({"tool": "computer_use", "action": "key", "keys": ["ctrl", "s"]}, "none", [], "presses ctrl+s"),
        ({"tool": "computer_use", "action": "type", "text": "a\nb"}, "none", [], "types “a\nb”"),
        ({"tool": "bash", "command": "ls"}, "none", [], "$ ls"),
        ({"name": "bash", "arguments": {"restart": True}}, "none", [], "restart the shell"),
        ({"tool": "computer_use", "action": "terminate", "status": "failure"}, "none", [], "ends: failure"),
        ({"name": "computer_use", "arguments": {"action": "left_click", "coordinate": ["1", None]}}, "none", [],
         "clicks"),
        ({"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [float("nan"), 3]}}, "none", [],
         "clicks"),
        ({"name": "fly", "arguments": {"action": "up"}}, "none", [], "fly up"),
        (None, "none", [], ""),
    ],
)  # fmt: skip
def test_an_action_is_drawn_where_it_happened(call, kind, points, caption) -> None:  # type: ignore[no-untyped-def]
    mark = mark_of(call, SIZE)
    assert (mark["kind"], mark["points"], mark["caption"]) == (kind, points, caption)


def test_axis_ticks_are_round_and_inside() -> None:
    assert nice_ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert nice_ticks(-3, 17) == [0, 5, 10, 15]
    assert nice_ticks(2.0, 2.0) == [2.0]
    assert [label_of(value) for value in (0, 1200, 0.00031, 2.5e6, -0.5)] == ["0", "1.2k", "3.1e-4", "2.5M", "-0.5"]


def test_a_thinned_curve_keeps_its_spikes_and_its_end() -> None:
    points = [(float(i), 0.0) for i in range(5000)]
    points[1234] = (1234.0, 9.0)
    points[4321] = (4321.0, -9.0)
    kept = thin(points, 300)
    assert len(kept) <= 302
    assert (1234.0, 9.0) in kept and (4321.0, -9.0) in kept and kept[-1] == points[-1]
    assert [step for step, _ in kept] == sorted(step for step, _ in kept)


def test_a_moving_average_keeps_a_straight_line_straight() -> None:
    line = [(float(i), 2.0 * i) for i in range(50)]
    assert smooth(line, 9) == line


def test_a_curve_is_drawn_inside_its_axes_whatever_its_values() -> None:
    for points in (
        [(0, 1.0)],
        [(0, 5.0), (1, 5.0)],
        [(0, 1e-6), (10, 1e3)],
        [(0, -1.0), (3, 2.0)],
        [(5, 0.0), (6, 0.0)],
    ):
        chart = str(line_chart("c", [Series("c", "red", points)]))
        marks = re.findall(r'points="([^"]*)"', chart)
        assert marks
        for x, y in (pair.split(",") for mark in marks for pair in mark.split()):
            assert 0 <= float(x) <= 380 and 0 <= float(y) <= 190
    assert str(line_chart("c", [Series("c", "red", [])])) == ""


BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")


@pytest.mark.skipif(BROWSER is None, reason="needs a Chromium to open the page in")
def test_a_browser_runs_the_viewer_under_the_page_s_own_policy(html: str, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(html, encoding="utf-8")
    command = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=2000", "--dump-dom",
        (tmp_path / "report.html").as_uri(),
    ]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert shown.count('class="who"') == 3
    assert "step 1 of 3" in shown
    assert re.search(r'<circle cx="120" cy="84" r="7" class="ink dotted"', shown)
    assert re.search(r'<img id="shot"[^>]*src="data:image/png;base64,', shown)
