"""Scores from findings: joins, infeasible tasks, broken checks, the judge's own process; what is covered."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.contracts.errors import TaskError, VerifierError
from components.sandbox.osworld import coverage, getters, metrics, package
from components.sandbox.osworld.judge import Judge
from components.sandbox.osworld.loading import load_folder, load_list
from components.sandbox.osworld.registry import GETTERS, PACKAGE_METRICS, SETUP_TYPES
from components.sandbox.osworld.scoring import Finding, score, settled_by_ending
from components.sandbox.osworld.setup_steps import Setup
from components.sandbox.osworld.sources import Sources, tail
from components.sandbox.osworld.task import Evaluator, TaskFileError, as_task, of_task, read_task

RESULT = {"type": "vm_command_line", "command": "true"}


def task_of(evaluator: dict[str, Any], **more: Any) -> Evaluator:
    return read_task("os/t", {"id": "t", "instruction": "i", "evaluator": evaluator, **more}).evaluator


def listed(conj: str, expected: list[str]) -> Evaluator:
    rules = [{"type": "rule", "rules": {"expected": value}} for value in expected]
    return task_of({
        "func": ["fuzzy_match"] * len(expected), "conj": conj, "result": [RESULT] * len(expected), "expected": rules,
    })  # fmt: skip


def found(*results: Any, expected: str = "abcd") -> list[Finding]:
    return [Finding(result, {"expected": expected}) for result in results]


def test_and_gives_the_mean_and_0_as_soon_as_one_is_0_while_or_gives_the_best() -> None:
    both = listed("and", ["abcd", "abcd"])
    assert score(both, found("abcd", "ab")).score == pytest.approx((1 + 2 / 3) / 2)
    assert score(both, found("xyz", "abcd")).parts == (0.0,)
    either = listed("or", ["abcd", "abcd"])
    assert score(either, found("xyz", "ab")).score == pytest.approx(2 / 3)
    assert score(either, found("abcd", None)).parts == (1.0,)


def test_a_result_that_is_not_there_scores_0_before_any_metric_sees_it() -> None:
    same = task_of({"func": "exact_match", "result": RESULT, "expected": {"type": "rule", "rules": {"expected": None}}})
    assert score(same, [Finding(None, {"expected": None})]).score == 0.0


@pytest.mark.parametrize(
    ("evaluator", "finding"),
    [
        ({"func": "exact_match"}, Finding("x", {"no": "expected"})),
        ({"func": "exact_match"}, Finding("x", None)),
        ({"func": "check_csv"}, Finding("/nowhere", 5)),
        ({"func": "no_such_metric"}, Finding("x", {})),
        ({"func": "literal_match", "options": {"type": "colour"}}, Finding("x", "x")),
    ],
)
def test_a_check_that_breaks_is_an_error_and_never_a_score(evaluator: dict[str, Any], finding: Finding) -> None:
    whole = {**evaluator, "result": RESULT, "expected": {"type": "rule", "rules": {}}}
    if evaluator["func"] == "check_csv":
        assert score(task_of(whole), [finding]).score == 0.0  # an unreadable result is the agent's
        return
    with pytest.raises(VerifierError):
        score(task_of(whole), [finding])


def test_the_ending_decides_infeasible_tasks_and_a_claim_that_a_task_cannot_be_done() -> None:
    table = {(feasible, ending): settled_by_ending(feasible, ending)  # type: ignore[arg-type]
             for feasible in (True, False) for ending in ("done", "fail", "steps")}  # fmt: skip
    assert table == {
        (True, "done"): None, (True, "fail"): 0.0, (True, "steps"): None,
        (False, "done"): 0.0, (False, "fail"): 1.0, (False, "steps"): 0.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("evaluator", "code"),
    [
        ([], "checker_not_an_object"),
        ({}, "no_check"),
        ({"func": ["exact_match", ""], "result": [RESULT, RESULT]}, "no_check"),
        ({"func": ["infeasible", "exact_match"], "result": [RESULT, RESULT]}, "no_check"),
        ({"func": ["exact_match", "exact_match"], "result": [RESULT]}, "uneven_checker"),
        ({"func": ["exact_match"], "result": RESULT}, "uneven_checker"),
        ({"func": "exact_match", "result": [RESULT]}, "uneven_checker"),
        ({"func": "exact_match"}, "no_result"),
        ({"func": "exact_match", "result": {"path": "x"}}, "no_getter"),
        ({"func": "exact_match", "result": RESULT, "postconfig": [{"type": "juggle"}]}, "unknown_setup_step"),
        ({"func": "exact_match", "result": RESULT, "conj": "xor"}, "bad_field"),
    ],
)
def test_a_damaged_evaluator_is_named(evaluator: Any, code: str) -> None:
    with pytest.raises(TaskFileError) as error:
        read_task("os/t", {"id": "t", "instruction": "i", "evaluator": evaluator})
    assert error.value.code == code and "os/t" in str(error.value)


def test_a_task_survives_the_way_through_the_products_task() -> None:
    for task in load_folder(Path(coverage.__file__).parent / "tasks").tasks.values():
        assert of_task(as_task(task)) == task


def test_a_list_with_a_missing_task_is_refused_whole(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text('{"os": ["gone"]}')
    with pytest.raises(TaskFileError, match="task_file_missing"):
        load_list(tmp_path / "list.json")
    for text in ("[", "[]", '{"os": "gone"}', '{"os": ["../../etc/passwd"]}'):
        (tmp_path / "list.json").write_text(text)
        with pytest.raises(TaskFileError, match="damaged_file"):
            load_list(tmp_path / "list.json")


# -- the judge's process ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    judge = Judge(seconds=20)
    yield judge
    judge.close()


def test_the_judge_scores_as_in_this_process_and_reports_broken_checks(judge: Judge) -> None:
    either = listed("or", ["abcd", "abcd"])
    assert judge.score(either, found("xyz", "ab")) == score(either, found("xyz", "ab"))
    broken = task_of({"func": "exact_match", "result": RESULT})
    with pytest.raises(VerifierError, match="exact_match"):
        judge.score(broken, [Finding("x")])
    assert judge.score(either, found("abcd", "ab")).score == 1.0


def test_a_file_made_to_fill_the_memory_is_no_success_and_the_next_task_is_judged(tmp_path: Path) -> None:
    """A sheet of 200 MB in less than one: the reader gives up or its process ends, and nobody else notices."""
    from openpyxl import Workbook

    book = Workbook()
    book.active["A1"] = 1
    plain = io.BytesIO()
    book.save(plain)
    bomb = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            if entry.filename != "xl/worksheets/sheet1.xml":
                target.writestr(entry.filename, source.read(entry))
        row = b"<row>" + b'<c t="inlineStr"><is><t>' + b"a" * 1000 + b"</t></is></c>" * 1 + b"</row>"
        with target.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as part:
            part.write(b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>')
            for _ in range(200):
                part.write(row * 1000)
            part.write(b"</sheetData></worksheet>")
    rules = {"rules": [{"type": "check_cell", "sheet_idx": 0, "coordinate": "A1", "props": {}}]}
    check = task_of({"func": "compare_table", "result": RESULT, "options": rules})
    small = Judge(seconds=60, memory=400 << 20)
    try:
        try:
            assert small.score(check, [Finding(str(bomb))]).score == 0.0
        except VerifierError:
            pass
        either = listed("or", ["abcd"])
        assert small.score(either, found("abcd")).score == 1.0
    finally:
        small.close()


def test_a_check_that_takes_too_long_is_killed_and_the_next_task_is_judged(tmp_path: Path) -> None:
    slow = task_of({"func": "check_list", "result": RESULT, "expected": {"type": "rule", "rules": {}}})
    left = tmp_path / "left.txt"
    left.write_text("a" * 60 + "!\n")
    judge = Judge(seconds=10)
    try:
        with pytest.raises(VerifierError, match="more than 10 s"):
            judge.score(slow, [Finding(str(left), {"expect": ["(a+)+$"]})])
        assert judge.score(listed("or", ["abcd"]), found("abcd")).score == 1.0
    finally:
        judge.close()


# -- coverage ---------------------------------------------------------------------------------------------------------


def test_what_the_coverage_table_calls_ours_is_written_and_nothing_else_is() -> None:
    rows = list(coverage.entries())
    for kind, names in (("setup", SETUP_TYPES), ("getter", GETTERS)):
        assert [row.name for row in rows if row.kind == kind] == list(names)
    ours = {row.name for row in rows if row.kind == "getter" and row.status == "ours"}
    assert ours == set(getters.offered())
    steps = {row.name for row in rows if row.kind == "setup" and row.status == "ours"}
    assert steps == {name for name in SETUP_TYPES if hasattr(Setup, f"_{name}")}
    for row in rows:
        assert bool(row.reason) is (row.status == "not supported"), row
        if row.kind == "metric" and row.name != "infeasible":
            metric, why = package.metric(row.name)
            expected = "package" if metric else "ours" if metrics.of(row.name) else "not supported"
            assert row.status == expected and (row.status != "not supported" or why in row.reason)
    known = {name for listed_ in PACKAGE_METRICS.values() for name in listed_.split()}
    assert set(metrics.names()) <= known
    assert all(callable(metrics.of(name)) for name in metrics.names())


def test_the_coverage_table_is_printed() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-m", "components.sandbox.osworld.coverage"], env=environment, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert "compare_table" in done.stdout and "metric: 137 known" in done.stdout


def test_the_tasks_of_ours_use_only_what_is_covered() -> None:
    for key, task in load_folder(Path(coverage.__file__).parent / "tasks").tasks.items():
        for step in (*task.config, *task.evaluator.postconfig):
            assert coverage.unsupported("setup", step.type) == "", key
        for probe in task.evaluator.probes:
            assert coverage.unsupported("metric", probe.func) == "", key
            for config in filter(None, (probe.result, probe.expected)):
                assert coverage.unsupported("getter", config["type"]) == "", key


PACKAGE = {
    "__init__.py": "raise RuntimeError('the package as a whole must not be imported')\n",
    "evaluators/__init__.py": "raise RuntimeError('nor this')\n",
    "evaluators/metrics/__init__.py": "raise RuntimeError('nor this')\n",
    "evaluators/metrics/utils.py": "def same(a, b):\n    return a == b\n",
    "evaluators/metrics/general.py": "from desktop_env.evaluators.metrics.utils import same\n"
    "def exact_match(result, rules):\n    return 0.25 + same(result, rules['expected']) / 2\n"
    "def file_contains(path, rules):\n    raise OSError('damaged')\n",
    "evaluators/metrics/basic_os.py": "def check_gnome_favorite_apps(text, rule):\n    return eval(text)\n",
    "evaluators/metrics/pdf.py": "import no_such_library\ndef check_pdf_pages(path, rules):\n    return 1.0\n",
}


def test_metrics_of_an_installed_package_are_used_one_module_at_a_time_but_for_the_unsafe(tmp_path: Path) -> None:
    """In a process of its own: a package of the same layout, whose parents cannot be imported."""
    for name, text in PACKAGE.items():
        path = tmp_path / "desktop_env" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    code = (
        "from components.sandbox.osworld import coverage, package\n"
        "from components.sandbox.osworld.scoring import Finding, score\n"
        "from components.sandbox.osworld.task import read_task\n"
        "r = {'type': 'rule', 'rules': {}}\n"
        "def of(f):\n"
        "    e = {'func': f, 'result': r, 'expected': r}\n"
        "    return read_task('a/t', {'id': 't', 'instruction': 'i', 'evaluator': e}).evaluator\n"
        "print(score(of('exact_match'), [Finding('x', {'expected': 'x'})]).score)\n"
        "print(score(of('file_contains'), [Finding('/nowhere', {'expected': ['x']})]).score)\n"
        "unsafe = Finding('__import__(\"os\").getpid()', {'expected': []})\n"
        "print(score(of('check_gnome_favorite_apps'), [unsafe]).score)\n"
        "print(coverage.metric_entry('check_pdf_pages').reason)\n"
        "print([coverage.metric_entry(n).status for n in ('exact_match', 'check_gnome_favorite_apps', 'check_csv')])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert lines[:3] == ["0.75", "0.0", "0.0"], done.stderr
    assert "no_such_library" in lines[3]
    assert lines[4] == "['package', 'ours', 'ours']"


# -- files of tasks ---------------------------------------------------------------------------------------------------


def test_files_of_tasks_come_from_one_folder_and_never_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "chrome").mkdir()
    (tmp_path / "chrome" / "a b.txt").write_text("x")
    (tmp_path / "link").symlink_to("/etc/passwd")
    sources = Sources(tmp_path)
    assert sources.read("https://example.org/datasets/x/resolve/main/chrome/a%20b.txt?download=true") == b"x"
    assert sources.read("chrome/a b.txt") == b"x"
    outside = "https://example.org/resolve/main/../../etc/passwd"
    for address in ("../x", "/etc/passwd", "link", outside, "", "chrome", "no"):
        with pytest.raises(TaskError):
            sources.read(address)
    with pytest.raises(TaskError, match="nothing is downloaded"):
        Sources().read("https://example.org/resolve/main/x")
    with pytest.raises(TaskError):
        tail("a/../../b")
