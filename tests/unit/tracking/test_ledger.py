"""The ledger, the price table, the machine's counters and the totals of a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from components.contracts.errors import BudgetError, ParamsError
from components.tracking import machine
from components.tracking.costs import gather_costs, text
from components.tracking.events import SpoolSink, read_events, spool_path
from components.tracking.ledger import StageCost, add_events, run_costs, total
from components.tracking.lineage import Artifact, RunRecord, StageRecord
from components.tracking.meter import CAPS_FILE, Caps, RunMeter, read_caps, write_caps
from components.tracking.prices import PriceTable, load_prices
from pipelines.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = ROOT / "pipelines" / "prices.yaml"


def table(tmp_path: Path, body: str) -> PriceTable:
    path = tmp_path / "prices.yaml"
    path.write_text(body)
    return load_prices([path])


PRICES = """
models:
  - {model: m, from: 2026-01-01, input: 1, cached_input: 0.1, output: 10, source: here}
  - {model: m, from: 2026-06-01, input: 2, output: 20, source: here}
  - {model: local/*, from: 2020-01-01, input: 0, output: 0, source: here}
machine:
  - {unit: cpu, from: 2020-01-01, usd_per_hour: 0.36, source: here}
  - {unit: gpu, from: 2020-01-01, usd_per_hour: null, source: not set}
"""
MARCH, JULY, LONG_AGO = 1772323200000, 1782864000000, 1262304000000


# Prices.


def test_the_shipped_table_says_where_each_price_is_from_and_what_is_not_known() -> None:
    shipped = load_prices([SHIPPED])
    assert all(entry.source and entry.since for entry in (*shipped.models, *shipped.machine))
    assert shipped.usd("local/policy", JULY, 1e6, 1e6) == 0.0
    assert shipped.usd("gpt-5.4", JULY, 1e6, 1e6) == 17.5 and shipped.usd("gpt-5.4", JULY, 1e6, 0, 1e6) == 0.25
    assert shipped.usd("gpt-5.4", LONG_AGO, 1, 1) is None, "no price is older than its date"
    assert shipped.usd("gpt-5.4-something", JULY, 1, 1) is None and shipped.machine_usd("cpu", JULY, 5) is None


def test_the_newest_price_that_had_begun_counts(tmp_path: Path) -> None:
    prices = table(tmp_path, PRICES)
    assert prices.usd("m", MARCH, 1e6, 1e6) == 11.0 and prices.usd("m", JULY, 1e6, 1e6) == 22.0
    assert prices.usd("m", MARCH, 1e6, 0, 5e5) == 0.55 and prices.usd("m", JULY, 1e6, 0, 5e5) == 2.0
    assert prices.usd("m", LONG_AGO, 1, 1) is None and prices.usd("other", JULY, 1, 1) is None
    assert prices.of("local/anything", date(2026, 1, 1)) is not None
    assert prices.machine_usd("cpu", JULY, 100) == pytest.approx(0.01)
    assert prices.machine_usd("gpu", JULY, 100) is None and prices.machine_usd("gpu", JULY, 0) == 0.0
    assert prices.machine_usd("sandbox", JULY, 1) is None


def test_the_own_file_wins_for_what_it_names(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("models:\n  - {model: gpt-5.4, from: 2026-01-01, input: 1, output: 1, source: our contract}\n")
    prices = load_prices([own, tmp_path / "no such file", SHIPPED])
    assert prices.usd("gpt-5.4", JULY, 1e6, 1e6) == 2.0 and prices.usd("local/policy", JULY, 1, 1) == 0.0


@pytest.mark.parametrize(
    "body, word",
    [
        ("models: [{model: m, from: 2026-01-01, input: -1, output: 1, source: s}]", "models.0.input"),
        ("models: [{model: m, from: 2026-01-01, input: 1, source: s}]", "models.0.output"),
        ("models: [{model: m, from: soon, input: 1, output: 1, source: s}]", "models.0.from"),
        ("models: [{model: m, from: 2026-01-01, input: 1, output: 1}]", "models.0.source"),
        ("modles: []", "modles"),
        ("models: [", "cannot be read"),
        ("machine: [{unit: abacus, from: 2026-01-01, usd_per_hour: 1, source: s}]", "machine.0.unit"),
    ],
)
def test_a_file_that_is_no_price_table_is_refused_by_the_entry(tmp_path: Path, body: str, word: str) -> None:
    with pytest.raises(ParamsError, match=f"prices.yaml: {word}"):
        table(tmp_path, body)


# Entries.


def test_entries_are_priced_when_they_are_written_and_by_model(tmp_path: Path) -> None:
    prices = table(tmp_path, PRICES)
    with SpoolSink(spool_path(tmp_path, "collect", 1), pricer=prices.usd) as sink:
        sink.ledger("teacher", model="m", calls=2, tokens_in=1_000_000, tokens_out=500_000)
        sink.ledger("teacher", model="local/scripted", calls=7, tokens_in=0, tokens_out=0)
        sink.ledger("teacher", model="strange", calls=1, tokens_in=10, tokens_out=1)
        sink.ledger("inference", model="m", calls=1, tokens_in=1, tokens_out=1, usd=0.5)
    (cost,) = run_costs(tmp_path)
    assert cost.models["m"].usd == 12.5 and cost.models["m"].calls == 3
    assert cost.models["local/scripted"].usd_or_none == 0.0
    assert cost.models["strange"].usd_or_none is None and cost.unpriced_calls == 1
    assert cost.usd_models == 12.5
    figures = cost.figures()
    assert "usd_models" not in figures and "model.strange.usd" not in figures, "unknown is left out, never 0"
    assert figures["model.m.usd"] == 12.5 and figures["model.strange.calls"] == 1.0


def test_a_price_that_was_learned_later_prices_what_had_none(tmp_path: Path) -> None:
    with SpoolSink(spool_path(tmp_path, "collect", 1)) as sink:
        sink.ledger("teacher", model="m", calls=1, tokens_in=1_000_000, tokens_out=0)
    (before,), (after,) = run_costs(tmp_path), run_costs(tmp_path, table(tmp_path, PRICES))
    assert before.models["m"].usd_or_none is None and after.models["m"].usd_or_none == 2.0


def test_an_entry_is_on_disk_at_once_and_a_torn_line_costs_only_itself(tmp_path: Path) -> None:
    path = spool_path(tmp_path, "rl", 1)
    sink = SpoolSink(path)
    sink.ledger("train", tokens=10, parameters=1)
    assert len(read_events(path).events) == 1
    with path.open("a") as handle:
        handle.write('{"k": "ledger", "kind": "train", "amou')
    with SpoolSink(path) as again:
        again.ledger("train", tokens=5, parameters=1)
    assert run_costs(tmp_path)[0].train_tokens == 15


def test_a_forked_worker_s_entries_are_counted_though_it_ends_without_a_word(tmp_path: Path) -> None:
    sink = SpoolSink(spool_path(tmp_path, "evaluate", 1))
    sink.metric("held back", 1.0)
    pid = os.fork()
    if pid == 0:
        sink.ledger("sandbox", seconds=2.0)
        os._exit(0)
    os.waitpid(pid, 0)
    sink.ledger("sandbox", seconds=1.0)
    (cost,) = run_costs(tmp_path)
    assert cost.sandbox_seconds == 3.0


def test_the_same_call_counts_once_whoever_says_it_again(tmp_path: Path) -> None:
    for attempt in (1, 2):
        with SpoolSink(spool_path(tmp_path, "collect", attempt)) as sink:
            sink.ledger("teacher", model="m", call="a", opened=1)
            sink.ledger("teacher", model="m", call="a", calls=1, tokens_in=3, tokens_out=1, usd=1.0)
            sink.ledger("teacher", model="m", call="a", hits=1, calls=1, tokens_in=3, tokens_out=1, usd=1.0)
    use = run_costs(tmp_path)[0].models["m"]
    assert (use.calls, use.usd, use.cache_hits, use.unsettled_calls) == (1, 1.0, 2, 0)


def test_reading_piece_by_piece_gives_the_same_as_reading_at_once(tmp_path: Path) -> None:
    with SpoolSink(spool_path(tmp_path, "rl", 1)) as sink:
        sink.start("rl", 1, "k")
        sink.ledger("machine", seconds=1, cpu_seconds=3.0, gpu_seconds=0.0, energy_joules=None)
        sink.ledger("inference", model="m", calls=1, tokens_in=3, tokens_out=1, parameters=2)
        sink.end("finished")
    events = read_events(spool_path(tmp_path, "rl", 1)).events
    whole, pieces = StageCost(stage="rl"), StageCost(stage="rl")
    add_events(whole, events)
    for event in events:
        pieces.feed(1, event)
    assert whole == pieces and whole.flops == 2 * 2 * 4


# The machine.


KILLED = """
import os, sys
from pathlib import Path
from components.tracking import events
from components.tracking.events import SpoolSink, spool_path
events.MACHINE_SECONDS = 0.0
sink = SpoolSink(spool_path(Path(sys.argv[1]), "rl", 1))
sink.start("rl", 1, "k")
end = os.times().user + 0.3
while os.times().user < end:
    pass
sink.ledger("train", tokens=1, parameters=1)
sink.note("worked")
open(sys.argv[1] + "/ready", "w").close()
import signal
signal.pause()
"""


def test_a_killed_attempt_keeps_the_machine_time_it_had_told(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], env={**os.environ, "PYTHONPATH": os.getcwd()}
    )
    assert wait_until(lambda: (tmp_path / "ready").exists(), 60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (cost,) = run_costs(tmp_path)
    assert 0.25 <= cost.cpu_seconds < 30 and cost.seconds > 0 and cost.train_tokens == 1
    with SpoolSink(spool_path(tmp_path, "rl", 2)) as sink:
        sink.start("rl", 2, "k")
        sink.end("finished")
    assert run_costs(tmp_path)[0].cpu_seconds >= cost.cpu_seconds


def test_running_children_count_before_they_end() -> None:
    before = machine.cpu_seconds()
    busy = "import os\nwhile os.times().user < 0.3: pass\nprint('done', flush=True)\ninput()"
    child = subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"done\n"
    running = machine.cpu_seconds() - before
    child.communicate(b"\n")
    assert 0.25 <= running <= machine.cpu_seconds() - before + 0.05


def test_energy_is_what_the_counters_say_over_their_wrap_and_unknown_without_one(tmp_path: Path) -> None:
    package = tmp_path / "intel-rapl:0"
    part = tmp_path / "intel-rapl:0:0"
    for folder, start in ((package, 900_000), (part, 5)):
        folder.mkdir()
        (folder / "max_energy_range_uj").write_text("1000000\n")
        (folder / "energy_uj").write_text(f"{start}\n")
    usage = machine.Usage(counters=machine.powercap_counters(tmp_path), nvml=None)
    (package / "energy_uj").write_text("950000\n")
    assert usage.amounts()["energy_joules"] == pytest.approx(0.05)
    (package / "energy_uj").write_text("100000\n")  # it went over its end
    assert usage.amounts()["energy_joules"] == pytest.approx(0.2)
    (package / "energy_uj").unlink()
    assert usage.amounts()["energy_joules"] is None
    assert machine.Usage(counters=[], nvml=None).amounts()["energy_joules"] is None


def test_energy_of_a_stage_is_unknown_when_one_attempt_could_not_measure_it() -> None:
    cost = StageCost(stage="rl")
    for attempt, joules in ((1, 5.0), (2, 7.0)):
        cost.feed(attempt, {"k": "end", "t": 1, "status": "finished", "seconds": 1, "energy_joules": joules})
    assert cost.energy_joules == 12.0 == total([cost]).energy_joules
    cost.feed(3, {"k": "end", "t": 1, "status": "finished", "seconds": 1, "energy_joules": None})
    assert cost.energy_joules is None and total([cost]).energy_joules is None and "energy_joules" not in cost.figures()


# Caps.


def test_a_cap_is_kept_until_it_is_changed_and_infinity_lifts_it(tmp_path: Path) -> None:
    write_caps(tmp_path, Caps().changed(5.0, None))
    assert read_caps(tmp_path) == Caps(usd=5.0)
    write_caps(tmp_path, read_caps(tmp_path).changed(None, 1000.0))
    assert read_caps(tmp_path) == Caps(usd=5.0, tokens=1000.0)
    write_caps(tmp_path, read_caps(tmp_path).changed(float("inf"), None))
    assert read_caps(tmp_path) == Caps(tokens=1000.0)
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(ParamsError, match="--cap-usd: a cap is a number above 0"):
            Caps().changed(bad, None)


def test_a_cap_that_cannot_be_read_is_an_error_and_not_no_cap(tmp_path: Path) -> None:
    (tmp_path / CAPS_FILE).write_text('{"usd": "much"}')
    with pytest.raises(ParamsError, match="not a spend cap"):
        RunMeter(tmp_path, PriceTable()).check()


def test_priced_machine_time_counts_towards_the_cap(tmp_path: Path) -> None:
    write_caps(tmp_path, Caps(usd=0.01))
    meter = RunMeter(tmp_path, table(tmp_path, PRICES))
    sink = SpoolSink(spool_path(tmp_path, "rl", 1))
    sink.ledger("machine", seconds=60, cpu_seconds=90.0, gpu_seconds=0.0)
    meter.check()
    sink.ledger("machine", seconds=90, cpu_seconds=110.0, gpu_seconds=0.0)
    with pytest.raises(BudgetError, match="the cap is 0.01 USD"):
        meter.check()


# Totals.


def finished(name: str, status: str = "finished", digest: str = "", **metrics: float) -> StageRecord:
    outputs = [Artifact(name="x", path=name, digest=digest or f"md5:{name}")]
    return StageRecord(name=name, status=status, outputs=outputs, metrics=metrics)  # type: ignore[arg-type]


def test_totals_by_stage_and_per_kept_task_trajectory_and_point(tmp_path: Path) -> None:
    first, second = tmp_path / "runs" / "r1", tmp_path / "runs" / "r2"
    made = RunRecord(run_id="r2", status="finished")
    made.stages = [
        finished("forge", "reused", tasks_train=30.0, tasks_dev=10.0, rejected=5.0),
        finished("collect-gui", kept=20.0), finished("collect-hybrid", kept=30.0),
        finished("evaluate-base", success=0.0), finished("evaluate-rl", success=0.5),
    ]  # fmt: skip
    made.save(second)
    for folder, stage, usd in (
        (first, "forge", 8.0), (second, "collect-gui", 10.0), (second, "collect-hybrid", 15.0), (second, "rl", 17.0)
    ):  # fmt: skip
        with SpoolSink(spool_path(folder, stage, 1)) as sink:
            sink.start(stage, 1, "k")
            sink.ledger("teacher", model="m", calls=1, tokens_in=100, tokens_out=0, usd=usd)
            sink.end("finished")
    costs = gather_costs(second, made, table(tmp_path, PRICES), {"forge": first}.get)
    assert costs.spent.usd_models == 42.0 and costs.made.usd_models == 50.0
    assert [(c.stage, c.run) for c in costs.stages] == [
        ("forge", "r1"), ("collect-gui", ""), ("collect-hybrid", ""), ("rl", "")
    ]  # fmt: skip
    per = {one.unit: one for one in costs.per_unit}
    assert (per["kept task"].count, per["kept task"].amounts["usd_models"]) == (40.0, 0.2)
    assert (per["kept trajectory"].count, per["kept trajectory"].amounts["usd_models"]) == (50.0, 0.5)
    assert (per["point of score"].count, per["point of score"].amounts["usd_models"]) == (50.0, 1.0)
    assert per["kept trajectory"].amounts["tokens"] == 4.0
    shown = text(costs)
    assert "per" not in shown.split("\n")[0] and "forge" in shown and "r1" in shown and "kept trajectory" in shown
    json.dumps(costs.model_dump(mode="json"), allow_nan=False)


def test_nothing_gained_or_nothing_kept_has_no_price(tmp_path: Path) -> None:
    made = RunRecord(run_id="r", status="finished")
    made.stages = [
        finished("evaluate-base", success=0.5),
        finished("evaluate-rl", success=0.4),
        finished("collect-gui"),
    ]
    made.save(tmp_path)
    costs = gather_costs(tmp_path, made, PriceTable(), lambda _: None)
    assert all(value is None for one in costs.per_unit for value in one.amounts.values())
    assert [one.count for one in costs.per_unit] == [None, None, pytest.approx(-10.0)]
    assert "?" in text(costs)
