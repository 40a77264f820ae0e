"""What a reviewer sees in MLflow, in a real browser: from a score by clicks to data, checkpoints, stages and commit.

`COWORK_SCREENSHOTS=FOLDER` keeps the pictures.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from components.tracking.events import SpoolSink, read_events, spool_path
from components.tracking.lineage import RunRecord
from components.tracking.mlflow_registry import MODEL
from components.tracking.mlflow_sink import drain
from components.tracking.promotion import Evaluation
from pipelines import records
from pipelines.follow import StageView
from tests.unit.tracking.mlflow_kit import SECONDS, Server, client_of, free_port, runs_of, serving, shift, uri_of

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(6 * SECONDS),
    pytest.mark.skipif(BROWSER is None, reason="no Chromium to look at the pages with: apt-get install chromium"),
]

STAGES = ("midtrain", "gui-sft", "terminal-sft", "hybrid-sft", "rl")
SUCCESS = {"midtrain": 0.0, "gui-sft": 0.148, "terminal-sft": 0.417, "hybrid-sft": 0.591, "rl": 0.614}
TASKS = "md5:" + "4c3ed4eb34c09eae3418ad52aadc1023" + ".dir"


def digest(stage: str) -> str:
    return "md5:" + f"{STAGES.index(stage) + 10:x}" * 32 + ".dir"


class Site(NamedTuple):
    server: Server
    uri: str
    runs: dict[str, Any]


def tell(run_dir: Path) -> None:
    """A recipe run of five trained stages, each from the one before, and their evaluations."""
    record = RunRecord(run_id=run_dir.name, commit="c0ffee" * 6 + "c0ff", profile="tiny", status="finished")
    record.params = {"seed": 0, "rl": {"lr": 2e-4}}
    before = "md5:" + "0" * 32 + ".dir"
    path = "components/training/base"
    at = 0
    for stage in STAGES:
        corpus = "md5:" + f"{STAGES.index(stage) + 1}" * 32 + ".dir"
        with SpoolSink(spool_path(run_dir, stage, 1)) as sink:
            sink.start(stage, 1, f"sha256:{stage}")
            sink.params({"seed": 0, "lr": 2e-4, "note": "x" * 7000})
            sink.artifact("input", "checkpoint", before, kind="checkpoint", path=path)
            sink.artifact("input", "corpus", corpus, path=f"outputs/corpora/{stage}")
            for step in range(60):
                sink.metric("loss", 2.0 / (step + 2), step)
            path = f"outputs/models/{stage}"
            sink.artifact("output", "checkpoint", digest(stage), kind="checkpoint", path=path, parent=before)
            sink.end("finished")
        with SpoolSink(spool_path(run_dir, f"evaluate-{stage}", 1)) as sink:
            sink.start(f"evaluate-{stage}", 1, f"sha256:e-{stage}")
            sink.artifact("input", "checkpoint", digest(stage), kind="checkpoint", path=path)
            sink.artifact("input", "tasks", TASKS, path="outputs/tasks")
            sink.evaluation(
                **Evaluation(
                    stage=stage, success=SUCCESS[stage], episodes=264, expected=264, infra_errors=0, bench="sha256:b"
                ).model_dump()
            )
            scores = "md5:" + f"{STAGES.index(stage)}e" * 16 + ".dir"
            sink.artifact("output", "scores", scores, path=f"outputs/scores/{stage}")
            sink.end("finished", metrics={"success": SUCCESS[stage], "calls": 4.1})
        before = digest(stage)
        for name in (stage, f"evaluate-{stage}"):
            at += 1000
            shift(spool_path(run_dir, name, 1), at)
            view = StageView(name)
            for event in read_events(spool_path(run_dir, name, 1)).events:
                view.feed(event)
                records.note_event(record, view, event)
    record.save(run_dir)


@pytest.fixture(scope="module")
def site(empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("pages")
    shutil.copy(empty_store / "mlflow.db", folder / "mlflow.db")
    run_dir = folder / ".cowork" / "runs" / "20300101-120000-tiny-ab12"
    tell(run_dir)
    assert drain(run_dir, uri_of(folder)).error == ""
    with serving(folder, free_port()) as server:
        yield Site(server, uri_of(folder), runs_of(uri_of(folder)))


def look(site: Site, page: str, name: str, wait_for: str) -> str:
    """Open a page of the server; its picture goes to the folder of pictures, its text comes back.

    The page is asked until `wait_for` is in it, because it loads its parts one by one.
    """
    folder = Path(os.environ.get("COWORK_SCREENSHOTS") or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    address = f"{site.server.uri}/#/{page}?workflowType=machine_learning"
    text = ""
    for budget in (20_000, 60_000, 120_000):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            command = [
                str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--hide-scrollbars", "--window-size=2000,1500", f"--user-data-dir={profile}",
                f"--virtual-time-budget={budget}", "--dump-dom", f"--screenshot={folder / name}.png", address,
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        text = plain(done.stdout)
        if wait_for in text:
            break
    picture = folder / f"{name}.png"
    assert wait_for in text, text[:2000]
    assert not picture.exists() or picture.stat().st_size > 20_000, "an empty page"
    return text


def plain(page: str) -> str:
    """The page's words, as a reader sees them."""
    without = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    text = html.unescape(re.sub(r"<[^>]*>", " ", without)).replace("\xa0", " ")
    return re.sub(r"\s+", " ", text).replace(" :", ":")


def bare(full: str) -> str:
    return full.removeprefix("md5:")


def test_the_registry_shows_a_version_a_stage_and_who_is_champion(site: Site) -> None:
    text = look(site, f"models/{MODEL}", "registry", "@ champion")
    assert [f"Version {number}" in text for number in range(1, 7)] == [True] * 5 + [False]
    assert text.count("@ champion") == text.count("@ candidate") == 1
    assert "rl: passed: 61.4" in text and "Aliases move by nothing else" in text


def test_a_version_leads_to_the_run_that_made_it_and_says_how_it_was_judged(site: Site) -> None:
    text = look(site, f"models/{MODEL}/versions/5", "version", "Source Run")
    assert "passed: 61.4 % of 264 held-out episodes; became champion" in text and digest("rl") in text
    assert re.search(r"Source Run:\s+rl", text)


def test_a_stage_s_page_links_data_by_digest_checkpoints_and_the_registry(site: Site) -> None:
    run = site.runs["rl"].info.run_id
    text = look(site, f"experiments/1/runs/{run}", "stage", f"{'5' * 32}.dir")
    assert "outputs/corpora/rl" in text and "training" in text
    assert "hybrid-sft-dddddddd" in text and "rl-eeeeeeee" in text, "read and made checkpoints, each a link"
    assert MODEL in text and "v5" in text and "cowork step rl" in text and "c0ffee" in text


def test_an_evaluation_s_page_links_the_measured_checkpoint_and_the_task_set(site: Site) -> None:
    run = site.runs["evaluate-rl"].info.run_id
    text = look(site, f"experiments/1/runs/{run}", "evaluation", bare(TASKS))
    assert "outputs/tasks" in text and "evaluation" in text
    assert "rl-eeeeeeee" in text and "0.614" in text


def test_a_checkpoint_s_page_shows_its_version_its_maker_and_its_scores(site: Site) -> None:
    model = site.runs["rl"].outputs.model_outputs[0].model_id
    text = look(site, f"experiments/1/models/{model}", "checkpoint", "Datasets used")
    assert "Not registered" not in text and MODEL in text
    assert "evaluate-rl" in text and "0.614" in text and bare(TASKS) in text


def test_the_recipe_s_page_lists_its_stages_and_holds_the_drawn_lineage(site: Site) -> None:
    run = site.runs["20300101-120000-tiny-ab12"].info.run_id
    text = look(site, f"experiments/1/runs/{run}", "recipe", "Child runs")
    assert all(stage in text for stage in STAGES) and digest("rl") in text
    assert "success.rl" in text and "0.614" in text
    text = look(site, f"experiments/1/runs/{run}/artifacts/lineage.svg", "lineage", "lineage.svg")
    assert "run.json" in text
    stage = site.runs["rl"].info.run_id
    assert "lineage.svg" in {item.path for item in client_of(site.uri).list_artifacts(stage)}


def test_curves_of_all_stages_can_be_compared(site: Site) -> None:
    runs = [site.runs[stage].info.run_id for stage in STAGES]
    listed = "%22" + "%22,%22".join(runs) + "%22"
    text = look(site, f"compare-runs?runs=[{listed}]&experiments=[%221%22]&x=", "compare", "Comparing 5 Runs")
    assert all(stage in text for stage in STAGES) and "loss" in text
