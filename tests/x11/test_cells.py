"""The persistent Python of a desktop."""

from __future__ import annotations

from .conftest import Person


def test_names_last_and_a_last_expression_is_printed(shared: Person) -> None:
    assert shared.guest.python("import math\nx = 3\nprint('set')").output == "set\n"
    assert shared.guest.python("math.sqrt(x * 3)").output == "3.0\n"
    assert shared.guest.python("def f(n):\n    return n + x\nf(1); None").output == ""
    assert shared.guest.python("f(1)").output == "4\n"


def test_errors_are_answers_and_the_state_is_kept(shared: Person) -> None:
    shared.guest.python("kept = 5")
    for code, word in (
        ("1 / 0", "ZeroDivisionError"),
        ("def", "SyntaxError"),
        ("import sys; sys.exit(2)", "SystemExit"),
    ):
        cell = shared.guest.python(code)
        assert cell.failed and word in cell.output
    assert shared.guest.python("kept").output == "5\n"


def test_a_cell_that_runs_out_of_time_is_interrupted(shared: Person) -> None:
    shared.guest.python("kept = 6")
    cell = shared.guest.python("import time\nprint('begun', flush=True)\ntime.sleep(1000)", timeout=3)
    assert cell.timed_out and cell.output.startswith("begun\n")
    cell = shared.guest.python("while True:\n    try: time.sleep(1000)\n    except KeyboardInterrupt: pass", timeout=1)
    assert cell.timed_out and "restarted" in cell.output
    assert shared.guest.python("'kept' in globals()").output == "False\n"


def test_a_cell_that_ends_python_is_told(shared: Person) -> None:
    assert "python ended" in shared.guest.python("import os; os._exit(3)").output
    assert shared.guest.python("1 + 1").output == "2\n"
    shared.guest.python("x = 1")
    assert shared.guest.python("'x' in globals()", restart=True).output == "False\n"


def test_a_flood_is_cut_and_files_are_those_of_the_home(shared: Person) -> None:
    cell = shared.guest.python("print('x' * 5_000_000)", timeout=60)
    assert cell.truncated and len(cell.output) < 10_000
    shared.guest.python("open('by_python.txt', 'w').write('hello')")
    assert shared.bash("cat by_python.txt").output == "hello"
