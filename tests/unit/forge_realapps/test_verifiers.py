"""Verifiers over files of libraries: right ones pass, near misses and damage do not, broken input fails closed."""

from __future__ import annotations

import io
from typing import Any

import openpyxl
import pytest
from openpyxl.chart import BarChart, LineChart, Reference

from components.contracts.task import Check, Task, Verdict
from components.forge.realapps import documents
from components.forge.realapps.answers import number_of
from components.forge.realapps.evidence import Evidence
from components.forge.realapps.generate import generate
from components.forge.realapps.preparers import made_by
from components.forge.realapps.scene import judge
from components.sandbox.confine import detect
from components.sandbox.web.site import SiteRecord, Visit

pytestmark = pytest.mark.skipif(detect().confinement == "none", reason="this machine confines nothing")


@pytest.fixture(scope="module")
def tasks() -> dict[str, Task]:
    return {task.skill: task for task in generate(0)}


def end(task: Task, *, record: SiteRecord | None = None, unsaved: Any = (), **files: bytes | None) -> Verdict:
    """The verdict when an episode ends with the setup's files and these; None takes one away."""
    start = made_by(task.setup)
    names = {key: task.spec["args"][key] for key in files}
    now: dict[str, bytes | None] = dict(start.files)
    for key, data in files.items():
        now.pop(names[key], None)
        if data is not None:
            now[names[key]] = data
    return judge(task, Evidence(start, now, record), list(unsaved))


def book(change: Any, data: bytes) -> bytes:
    opened = openpyxl.load_workbook(io.BytesIO(data))
    change(opened.active)
    out = io.BytesIO()
    opened.save(out)
    return out.getvalue()


def reasons(verdict: Verdict) -> str:
    assert not verdict.success and not verdict.error, verdict
    return "; ".join(result.reason for result in verdict.results if not result.passed)


def test_a_banner_sheet_passes_only_with_both_banners_their_labels_and_the_right_chart(tasks: dict[str, Task]) -> None:
    task = tasks["calc-banner-chart"]
    args, data = task.spec["args"], made_by(task.setup).files[task.spec["args"]["path"]]

    def build(
        sheet: Any, *, ranges: Any = ("A1:C1", "E1:G1"), kind: Any = BarChart, direction: str = "col", last: int = 5
    ) -> None:
        for place in ranges:
            sheet.merge_cells(place)
        sheet["A1"], sheet["E1"] = args["left"], args["right"]
        chart = kind()
        if kind is BarChart:
            chart.type = direction
        chart.add_data(Reference(sheet, min_col=2, min_row=2, max_row=last), titles_from_data=True)
        sheet.add_chart(chart, "E3")

    assert end(task, new=book(build, data)).success
    assert "merged" in reasons(end(task, new=book(lambda s: build(s, ranges=("A1:C1",)), data)))
    assert "merged" in reasons(end(task, new=book(lambda s: build(s, ranges=("A1:B1", "E1:G1")), data)))
    assert "LineChart" in reasons(end(task, new=book(lambda s: build(s, kind=LineChart), data)))
    assert "chart" in reasons(end(task, new=book(lambda s: build(s, direction="bar"), data)))
    assert "chart" in reasons(end(task, new=book(lambda s: build(s, last=4), data)))
    assert "changed" in reasons(end(task, new=book(build, data), path=book(build, data)))
    swapped = book(lambda s: (build(s), s.__setitem__("B3", 1)), data)
    assert "B3" in reasons(end(task, new=swapped))


def test_a_total_may_be_a_formula_or_its_value_but_not_another_formula(tasks: dict[str, Task]) -> None:
    task = tasks["calc-total"]
    args, data = task.spec["args"], made_by(task.setup).files[task.spec["args"]["path"]]
    cell, column = f"{args['column']}5", args["column"]
    for right in (f"=SUM({column}2:{column}4)", f"=sum(${column}$2:${column}$4)", args["total"]):
        assert end(task, path=book(lambda s, v=right: s.__setitem__(cell, v), data)).success, right
    for wrong in (f"=SUM({column}2:{column}3)", args["total"] + 1, "total", None):
        reasons(end(task, path=book(lambda s, v=wrong: s.__setitem__(cell, v), data)))


def test_a_document_must_hold_its_lines_in_their_styles(tasks: dict[str, Task]) -> None:
    task = tasks["writer-heading"]
    lines, at = task.spec["args"]["lines"], task.spec["args"]["number"] - 1

    def made(style: str) -> bytes:
        return documents.document([[style if n == at else "", line] for n, line in enumerate(lines)])

    assert end(task, path=made("Heading 1")).success
    assert "Heading 2" in reasons(end(task, path=made("Heading 2")))
    assert "says" in reasons(end(task, path=documents.document([["Heading 1", line] for line in lines[:2]])))


def test_a_layered_picture_must_be_cleared_and_scaled(tasks: dict[str, Task]) -> None:
    task = tasks["gimp-layers"]
    assert "no readable" in reasons(end(task, new=b"gimp xcf v011\0"))
    assert "no such file" in reasons(end(task))


def test_a_picture_is_compared_by_what_it_shows(tasks: dict[str, Task]) -> None:
    from PIL import ImageOps

    task = tasks["gimp-mirror"]
    args = task.spec["args"]
    image = documents.draw(**args["drawing"])
    turned = ImageOps.mirror(image) if args["axis"].startswith("left") else ImageOps.flip(image)

    def saved(one: Any, form: str = "PNG") -> bytes:
        out = io.BytesIO()
        one.save(out, form)
        return out.getvalue()

    assert end(task, new=saved(turned)).success
    assert end(task, new=saved(turned.convert("RGBA"))).success
    assert "looks different" in reasons(end(task, new=saved(image)))
    assert "pixels" in reasons(end(task, new=saved(turned.resize((200, 150)))))
    assert "JPEG" in reasons(end(task, new=saved(turned, "JPEG")))


@pytest.mark.parametrize("damage", [b"", b"PK\3\4 nothing", b"\0" * 4096, None])
@pytest.mark.parametrize("skill", ["calc-set-cell", "writer-append", "impress-title", "editor-append"])
def test_a_damaged_or_missing_document_is_a_failure_of_the_agent(
    tasks: dict[str, Task], skill: str, damage: bytes | None
) -> None:
    reasons(end(tasks[skill], path=damage))


def test_a_file_too_large_to_look_at_is_a_failure_of_the_agent(tasks: dict[str, Task]) -> None:
    task = tasks["calc-set-cell"]
    start = made_by(task.setup)
    now: dict[str, bytes | None] = {**start.files, task.spec["args"]["path"]: None}
    assert "too large" in reasons(judge(task, Evidence(start, now)))


def test_an_unsaved_document_fails_with_the_note_unsaved(tasks: dict[str, Task]) -> None:
    verdict = end(tasks["writer-append"], unsaved=["letter.docx"])
    assert not verdict.success and "unsaved: letter.docx" in [result.reason for result in verdict.results]


@pytest.mark.parametrize(
    "check",
    [
        Check(check="no such check"),
        Check(check="cells", args={"path": "a.xlsx"}),
        Check(check="cells", args={"path": "a.exe", "values": {}}),
        Check(check="same_as_start", args={"path": "a.txt", "source": "never there"}),
        Check(check="site_unchanged"),
        Check(check="visited", args={"pages": ["("]}),
    ],
)
def test_a_check_that_cannot_be_carried_out_breaks_the_verdict_and_never_passes(
    tasks: dict[str, Task], check: Check
) -> None:
    task = tasks["editor-append"]
    broken = task.model_copy(update={"verifier": (check,)})
    start = made_by(task.setup)
    record = SiteRecord((), b"", b"") if check.check == "visited" else None
    files = {**start.files, "a.exe": b"", "a.xlsx": documents.workbook([{"name": "One", "rows": [[1]]}])}
    verdict = judge(broken, Evidence(start, files, record))
    assert not verdict.success and verdict.error
    assert judge(task.model_copy(update={"verifier": ()}), Evidence(start, start.files)).error


# -- the shop: answers need the work, and the work must leave no other trace ---------------------------------------


def answered(task: Task, answer: str, pages: list[str], after: bytes | None = None) -> Verdict:
    seed = made_by(task.setup).site
    record = SiteRecord(tuple(Visit("GET", page) for page in pages), seed, seed if after is None else after)
    return end(task, record=record, path=answer.encode())


def test_the_right_answer_counts_with_the_required_visits_alone(tasks: dict[str, Task]) -> None:
    task = tasks["shop-price"]
    price, page = task.spec["args"]["price"], f"/product/{task.spec['args']['number']}"
    assert answered(task, f"{price}\n", ["/", page]).success
    assert answered(task, f"It costs {price}.0 dollars", [page]).success
    assert "never asked for" in reasons(answered(task, f"{price}", []))
    assert "never asked for" in reasons(answered(task, f"{price}", ["/", page + "0"]))
    assert "does not say" in reasons(answered(task, f"It is not {price} but {price - 1}", [page]))
    assert "does not say" in reasons(answered(task, f"{price + 1}", [page]))


def test_a_read_only_task_fails_when_the_database_changed(tasks: dict[str, Task]) -> None:
    from components.sandbox.web.seed import seed_bytes

    task = tasks["shop-price"]
    price, page = task.spec["args"]["price"], f"/product/{task.spec['args']['number']}"
    rows = dict(task.setup[0].args["rows"])
    changed = seed_bytes({**rows, "cart": [[1, 1]]})
    assert "cart changed" in reasons(answered(task, f"{price}", [page], changed))


def test_one_record_changed_as_asked_passes_and_nothing_or_more_does_not(tasks: dict[str, Task]) -> None:
    from components.sandbox.web.seed import seed_bytes

    task = tasks["shop-account"]
    rows = dict(task.setup[0].args["rows"])
    seed = seed_bytes(rows)
    wanted = [1, "Ann Lee", task.spec["args"]["city"], "ann@mail.test"]

    def verdict(**tables: Any) -> Verdict:
        return end(task, record=SiteRecord((), seed, seed_bytes({**rows, **tables})))

    assert verdict(account=[wanted]).success
    assert "account" in reasons(verdict())
    assert "cart" in reasons(verdict(account=[wanted], cart=[[1, 1]]))
    assert "account" in reasons(verdict(account=[[*wanted[:3], "other@mail.test"]]))


@pytest.mark.parametrize("after", [b"", b"x" * 4096])
def test_a_damaged_database_breaks_the_verdict(tasks: dict[str, Task], after: bytes) -> None:
    task = tasks["shop-account"]
    verdict = end(task, record=SiteRecord((), made_by(task.setup).site, after))
    assert not verdict.success and verdict.error


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("42", 42), ("It costs 3,200 dollars", 3200), ("$3,200.50", 3200.5), ("-7", -7), ("the answer is 0.", 0),
        ("1,234,567", 1234567), ("It is not 42 but 41", None), ("not 42", None), ("42 or 41", None), ("", None),
        ("none", None), ("3,20", None), ("3.200,50", None), ("4x", None), ("1e3", None), ("no idea, 42", None),
        ("forty-two", None), ("12 34", None), ("x" * 3000 + " 42", None),
    ],
)  # fmt: skip
def test_numbers_in_answers(text: str, number: float | None) -> None:
    assert number_of(text) == number
