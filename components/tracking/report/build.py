"""Builds the report page. One file, nothing from outside: styles, script, pictures and data are inside it."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from components.tracking.lineage_picture import pipeline_picture
from components.tracking.report.data import ReportData

TEMPLATES = Path(__file__).parent / "templates"


def _script_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever text it holds."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _outline(value: Any, depth: int = 0) -> str:
    """Parameters as indented text, like YAML."""
    pad = "  " * depth
    if isinstance(value, dict):
        lines = []
        for key, inner in value.items():
            nested = isinstance(inner, dict) and inner
            lines.append(f"{pad}{key}:" + (f"\n{_outline(inner, depth + 1)}" if nested else f" {_leaf(inner)}"))
        return "\n".join(lines)
    return f"{pad}{_leaf(value)}"


def _leaf(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def build_report(data: ReportData) -> str:
    """The page as HTML text.

    Everything that came from a model or a file is escaped; a Content-Security-Policy lets only this page's own
    script run and nothing be loaded from elsewhere, so that even an escaping fault would stay harmless.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    from components.tracking.report import views

    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    for name in ("percent", "number", "compact", "duration"):
        environment.filters[name] = getattr(views, name)
    heats = [
        ("By skill family", views.heat_table(data, "by_skill")),
        ("Skills no stage saw", views.heat_table(views.heldout_scores(data), "by_skill")),
        ("By app", views.heat_table(data, "by_app")),
        ("By channel a task allows", views.heat_table(data, "by_channel")),
        ("By split", views.heat_table(data, "by_split")),
        ("Grounding by kind of target", views.bench_table(data, "grounding", "by_kind")),
        ("Single steps by primitive", views.bench_table(data, "single_step", "by_primitive")),
    ]
    return environment.get_template("page.html").render(
        data=data,
        style=Markup((TEMPLATES / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=allowed,
        headline=views.headline(data),
        rows=views.stage_rows(data),
        definitions=views.definitions(),
        curves=views.curve_groups(data.curves),
        heats=[(title, table) for title, table in heats if table],
        viewer=Markup(_script_json(views.viewer_data(data))),
        funnel=views.funnel_groups(data.funnel),
        rl=views.rl_charts(data),
        costs=views.cost_rows(data),
        picture=Markup(pipeline_picture(data.record, data.checked)) if data.record else "",
        params=_outline(data.params),
        missing=views.missing(data),
        stage_color=views.color_of,
    )
