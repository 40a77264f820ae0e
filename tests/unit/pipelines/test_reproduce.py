"""`cowork reproduce`: from a hash to the run, a clean tree, the work again, and a verdict."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.contracts.errors import CoworkError, DataError, OrchestrationError
from components.tracking.lineage import RECORD_FILE, RunRecord, StageRecord
from components.tracking.lineage import Artifact as Made
from pipelines.bundle import Bundle, contradictions, load_bundle, md5_text, read_bundle, shortcomings
from pipelines.find import find, run_key
from pipelines.reproduce import ENVIRONMENT_DIFFERS, Options, environment_differences, reproduce
from pipelines.source_changes import changes_of
from pipelines.verdict import DIFFERENT, Output, StageVerdict, Verdict, judge, table
from pipelines.workspace import Workspace
from tests.unit.pipelines import toy
from tests.unit.pipelines.conftest import SECRET

MODEL = "outputs/models/midtrain"


def git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@t", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe that ran, with a remote beside it that has its data and record. `recipe` and `remote` lie in here."""
    top = tmp_path_factory.mktemp("published")
    root = top / "recipe"
    toy.write_recipe(root, toy.STAGES)
    assert toy.cowork(root, "data", "remote", "../remote").returncode == 0
    git(root, "commit", "-qam", "remote")
    done = toy.cowork(root, "run", "--no-mlflow")
    assert done.returncode == 0, done.stdout + done.stderr
    done = toy.cowork(root, "data", "push", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["moved"] == 8, done.stderr
    return top


@pytest.fixture
def clone(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Everything deleted but the repository and the remote: a fresh clone, and a copy of the remote beside it."""
    git(published, "clone", "-q", str(published / "recipe"), str(tmp_path / "recipe"))
    shutil.copytree(published / "remote", tmp_path / "remote")
    here(monkeypatch, tmp_path / "recipe")
    return tmp_path / "recipe"


def here(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Commands in this process work on the toy recipe at `root`."""
    monkeypatch.chdir(root)
    for name in ("COWORK_REMOTE", "COWORK_RUN_DIR", "COWORK_FORKSERVER", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COWORK_REGISTRY", "tests.unit.pipelines.toy:STAGES")


def record_of(root: Path) -> Bundle:
    (folder,) = (root / ".cowork" / "runs").glob(f"*/{RECORD_FILE}")
    found = load_bundle(folder.parent)
    assert found is not None
    return found


@pytest.fixture
def bundle(published: Path) -> Bundle:
    return record_of(published / "recipe")


def digest_of(bundle: Bundle, path: str = MODEL) -> str:
    return next(entry.outs[path] for entry in bundle.stages().values() if path in entry.outs)


def in_remote(clone: Path, bundle: Bundle) -> Path:
    return clone.parent / "remote" / run_key(bundle.run.run_id)


def replace_record(clone: Path, bundle: Bundle, change: Callable[[dict[str, Any]], None], seal: bool = True) -> None:
    """Change the record in the remote; sealed again, it fits its own digest as a careful forger's would."""
    raw = json.loads(in_remote(clone, bundle).read_text())
    change(raw)
    text = json.dumps(raw)
    if seal:
        text = Bundle.model_validate(raw).text()
    in_remote(clone, bundle).chmod(0o644)
    in_remote(clone, bundle).write_text(text)


# The whole way.


def test_with_everything_deleted_but_repository_and_remote_the_result_is_bit_equal(clone: Path, bundle: Bundle) -> None:
    done = toy.cowork(clone, "reproduce", digest_of(bundle), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["verdict"] == "bit-equal" and verdict["first_difference"] == ""
    assert [(s["stage"], s["word"]) for s in verdict["stages"]] == [
        ("forge", "bit-equal"),
        ("midtrain", "bit-equal"),
    ], "what the artifact does not need is not run"
    assert all(out["expected"] == out["obtained"] for s in verdict["stages"] for out in s["outputs"])
    tree = next((clone / ".cowork" / "reproduce").glob("*/outputs/models/midtrain/weights.txt"))
    assert not (clone / "outputs").exists() and git(clone, "status", "--porcelain") == "", "the clone is untouched"
    assert "midtrain" in tree.read_text()
    assert "first stage that differs" not in done.stderr and f"{len(verdict['stages'])} stages" in done.stderr


def test_one_stage_alone_on_its_recorded_inputs_and_a_hidden_dependence_is_found(
    clone: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOY_SALT", "of this machine")  # forge reads it without declaring it
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3]))
    assert reproduce(Options(digest_of(bundle)[4:16], only=True)) == 0
    said = capsys.readouterr().out
    assert "restored" in said and "verdict: bit-equal" in said
    assert reproduce(Options(digest_of(bundle), as_json=True)) == DIFFERENT
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["first_difference"] == "forge" and verdict["verdict"] == "different"


def test_a_run_from_an_edited_tree_with_other_parameters_is_reproduced_with_its_edits(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unsent = shutil.ignore_patterns("fork.sock")
    shutil.copytree(published / "recipe", tmp_path / "recipe", symlinks=True, ignore=unsent)
    root = tmp_path / "recipe"
    (root / "given").write_text("another base\n")
    done = toy.cowork(root, "run", "--set", "midtrain.steps=99", "--no-mlflow", "--json")
    assert done.returncode == 0, done.stderr
    made = load_bundle(root / ".cowork" / "runs" / json.loads(done.stdout)["run"])
    assert made is not None and made.run.dirty and made.changes.state == "stored"
    assert "another base" in made.changes.patch and "steps" not in made.changes.patch
    git(root, "checkout", "-q", "--", "given", "params.yaml")
    here(monkeypatch, root)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3]))
    assert reproduce(Options(made.run.run_id, stage="midtrain", local=True)) == 0
    said = capsys.readouterr().out
    assert "verdict: bit-equal" in said
    assert (root / "given").read_text() == "the base\n" and "steps: 260" in (root / "params.yaml").read_text()
    assert '"steps": 99' in next(root.glob(".cowork/reproduce/*/outputs/models/midtrain/*")).read_text()


# Before the work.


def test_another_torch_is_said_before_anything_else(clone: Path, bundle: Bundle, tmp_path: Path) -> None:
    facts = tmp_path / "other" / "torch-9.9.9.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 9.9.9\n")
    shutil.rmtree(tmp_path / "remote" / "files")  # would be an error of its own, later
    environment = toy.environment()
    environment["PYTHONPATH"] = f"{tmp_path / 'other'}:{environment['PYTHONPATH']}"
    done = subprocess.run(
        toy.command("reproduce", digest_of(bundle)), cwd=clone, env=environment, capture_output=True, text=True
    )
    assert done.returncode == ENVIRONMENT_DIFFERS, done.stderr
    recorded = bundle.run.environment["torch"]
    assert f"environment differs\n  torch: {recorded} recorded, 9.9.9 here" in done.stdout
    assert "nothing was run" in done.stderr and not (clone / ".cowork" / "reproduce").exists()


def test_versions_and_image_must_agree_and_the_processor_is_only_said() -> None:
    old = {"python": "3.11.4", "torch": "2.13.0", "image": "sha256:aa", "cpu": "one", "cores": "2", "dvc": "3"}
    assert environment_differences(old, old) == []
    found = environment_differences(old, {**old, "cpu": "two", "image": "", "cores": "9", "dvc": "4"})
    assert [(d.name, d.exact) for d in found] == [("image", True), ("cpu", False)]


@pytest.mark.parametrize("hurt", ["flipped", "missing"])
def test_a_stored_object_that_is_not_whole_stops_it_by_name(
    clone: Path, bundle: Bundle, hurt: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = next(
        path
        for path in (clone.parent / "remote" / "files").rglob("*")
        if path.is_file() and b"forge " in path.read_bytes()[:6]
    )
    target.chmod(0o644)
    data = bytearray(target.read_bytes())
    data[40] ^= 1
    target.write_bytes(data) if hurt == "flipped" else target.unlink()
    word = "corrupt" if hurt == "flipped" else "missing"
    with pytest.raises(DataError, match=rf"outputs/tasks/data.txt: {word}"):
        reproduce(Options(digest_of(bundle)))
    assert not (clone / ".cowork" / "reproduce").exists(), "nothing was started"
    assert toy.cowork(clone, "data", "verify").returncode == DataError.exit_code


def test_the_code_of_the_commit_must_be_the_one_that_ran(
    clone: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_code(raw: dict[str, Any]) -> None:
        key = bundle.stages()["forge"].code_key
        raw["lock"] = raw["lock"].replace(key, f"sha256:{'0' * 64}")
        raw["lock_md5"] = md5_text(raw["lock"])
        for entry in raw["run"]["stages"]:
            entry["key"] = ""

    replace_record(clone, bundle, other_code)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3]))
    with pytest.raises(DataError, match="the code of forge at commit"):
        reproduce(Options(digest_of(bundle)))


def test_a_dry_run_checks_everything_and_runs_nothing(
    clone: Path, bundle: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(Options(digest_of(bundle), dry_run=True)) == 0
    said = capsys.readouterr().out
    assert "would run at commit" in said and "forge, midtrain" in said and "4 objects" in said
    assert not (clone / ".cowork" / "reproduce").exists()


# What a hash means.


def test_every_name_of_a_run_leads_to_it(clone: Path, bundle: Bundle) -> None:
    def add_mlflow(raw: dict[str, Any]) -> None:
        raw["mlflow"] = {"e" * 32: "", "d" * 32: "evaluate-midtrain"}

    replace_record(clone, bundle, add_mlflow)
    main = Workspace(clone)
    model, scores = digest_of(bundle), digest_of(bundle, "outputs/scores/midtrain")
    plain = model.removeprefix("md5:").removesuffix(".dir")
    expected = {
        model: ("output", "midtrain"),
        plain: ("output", "midtrain"),
        plain[:7].upper(): ("output", "midtrain"),
        scores[4:16]: ("output", "evaluate-midtrain"),
        bundle.lock_md5: ("dvc.lock", ""),
        bundle.lock_md5[:12]: ("dvc.lock", ""),
        "e" * 32: ("MLflow run", ""),
        "d" * 32: ("MLflow run", "evaluate-midtrain"),
        bundle.run.run_id: ("run", ""),
        bundle.run.commit: ("commit", ""),
        bundle.run.commit[:10]: ("commit", ""),
    }
    assert md5_text((clone.parent / "remote").joinpath(run_key(bundle.run.run_id)).read_text()) != bundle.lock_md5
    for given, (kind, stage) in expected.items():
        target = find(main, given)
        assert (target.kind, target.stage, target.source) == (kind, stage, "remote"), given
        assert target.bundle.run.run_id == bundle.run.run_id
    assert find(main, bundle.lock_md5, "feedback").stage == "feedback"


def test_the_lock_is_the_file_that_dvc_wrote(published: Path, bundle: Bundle) -> None:
    assert bundle.lock_md5 == md5_text((published / "recipe" / "dvc.lock").read_text())
    assert bundle.changes.state == "none" and bundle.run.commit == git(published / "recipe", "rev-parse", "HEAD")
    assert bundle.curves["midtrain"]["loss"][:2] == [(0, 1.0), (1, 0.5)]


def test_a_hash_that_means_two_things_is_refused_with_both(clone: Path, bundle: Bundle) -> None:
    def twice(raw: dict[str, Any]) -> None:
        raw["mlflow"] = {digest_of(bundle)[4:13] + "0" * 23: ""}

    replace_record(clone, bundle, twice)
    with pytest.raises(OrchestrationError, match="ambiguous") as error:
        find(Workspace(clone), digest_of(bundle)[4:13])
    assert "MLflow run" in str(error.value) and MODEL in str(error.value)
    assert find(Workspace(clone), digest_of(bundle)).stage == "midtrain", "the full one is not ambiguous"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("abcd", "at least 7"),
        ("not-a-hash", "neither a hash nor the name of a run"),
        ("sha256:" + "a" * 64, "sha256 is not how outputs are named"),
        ("a" * 32, "hash_not_found"),
        ("20200101-000000-tiny-ffff", "hash_not_found"),
    ],
)
def test_what_is_no_hash_of_anything_says_what_is_wrong(clone: Path, given: str, says: str) -> None:
    with pytest.raises(OrchestrationError, match=says) as error:
        find(Workspace(clone), given)
    if "not_found" in says:
        assert "runs of this machine" in str(error.value) and "remote" in str(error.value), "it lists where it looked"


def test_a_forged_hash_is_told_from_an_unknown_one(clone: Path, bundle: Bundle) -> None:
    forged = digest_of(bundle)[4:28] + "deadbeef"
    with pytest.raises(OrchestrationError, match="mistyped or forged.*differs after 24 digits"):
        find(Workspace(clone), forged)


def test_a_given_input_is_told_as_one(clone: Path, bundle: Bundle) -> None:
    given = next(entry.deps["given"] for entry in bundle.stages().values() if "given" in entry.deps)
    with pytest.raises(OrchestrationError, match="that is given, which was given and not made"):
        find(Workspace(clone), given)


def test_a_committed_lock_is_enough_to_find_a_run_but_not_its_environment(clone: Path, bundle: Bundle) -> None:
    in_remote(clone, bundle).unlink()
    (clone / "dvc.lock").write_text(bundle.lock)
    git(clone, "add", "dvc.lock")
    git(clone, "commit", "-qm", "lock")
    target = find(Workspace(clone), digest_of(bundle))
    assert (target.source, target.bundle.run.commit) == ("git", git(clone, "rev-parse", "HEAD"))
    assert find(Workspace(clone), bundle.lock_md5).source == "git"
    with pytest.raises(OrchestrationError, match="environment_unknown"):
        reproduce(Options(digest_of(bundle)))
    assert reproduce(Options(digest_of(bundle), any_environment=True, dry_run=True)) == 0


def test_the_commit_that_brings_a_runs_lock_means_that_run_with_its_environment(clone: Path, bundle: Bundle) -> None:
    (clone / "dvc.lock").write_text(bundle.lock)
    git(clone, "add", "dvc.lock")
    git(clone, "commit", "-qm", "lock")
    head = git(clone, "rev-parse", "HEAD")
    target = find(Workspace(clone), head[:12])
    assert (target.kind, target.source, target.bundle.run.run_id) == ("commit", "remote", bundle.run.run_id)
    assert target.bundle.run.commit != head and target.bundle.run.environment
    (clone / "dvc.lock").write_text(bundle.lock + "\n")
    git(clone, "commit", "-qam", "another")
    assert find(Workspace(clone), git(clone, "rev-parse", "HEAD")).source == "git", "not that run's lock"


# Records that do not hold.


def test_a_record_that_was_changed_is_refused(clone: Path, bundle: Bundle) -> None:
    def other_seed(raw: dict[str, Any]) -> None:
        raw["run"]["seed"] = 5

    replace_record(clone, bundle, other_seed, seal=False)
    with pytest.raises(DataError, match="does not fit its digest"):
        find(Workspace(clone), digest_of(bundle))


def change_value(raw: dict[str, Any]) -> None:
    raw["run"]["params"]["midtrain"]["steps"] = 7


def change_key(raw: dict[str, Any]) -> None:
    raw["run"]["stages"][1]["key"] = f"sha256:{'2' * 64}"


def change_path(raw: dict[str, Any]) -> None:
    raw["lock"] = raw["lock"].replace("path: outputs/tasks", "path: ../../outputs/tasks")


def change_output(raw: dict[str, Any]) -> None:
    raw["run"]["stages"][1]["outputs"][0]["digest"] = f"md5:{'3' * 32}.dir"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (change_value, "params.yaml and run record differ in midtrain.steps: 260 -> 7"),
        (change_value, "midtrain: lock and run record differ in midtrain.steps: 260 -> 7"),
        (change_key, "midtrain: its stage key is not that of its parameters, inputs and code"),
        (change_path, "../../outputs/tasks lies outside of the recipe"),
        (change_output, f"midtrain wrote {MODEL} as md5:{'3' * 32}.dir by the run record"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused_with_the_contradiction(
    clone: Path, bundle: Bundle, change: Callable[[dict[str, Any]], None], says: str
) -> None:
    def whole(raw: dict[str, Any]) -> None:
        change(raw)
        raw["lock_md5"] = md5_text(raw["lock"])

    replace_record(clone, bundle, whole)
    with pytest.raises(DataError, match="contradicts itself") as error:
        reproduce(Options(digest_of(bundle)))
    assert says in str(error.value) and not (clone / ".cowork" / "reproduce").exists()


def test_a_lock_whose_stages_do_not_follow_from_each_other_names_both(bundle: Bundle) -> None:
    forge = bundle.stages()["forge"].outs["outputs/tasks"].removeprefix("md5:")
    head, rest = bundle.lock.split("\n  midtrain:\n")
    torn = bundle.model_copy(update={"lock": f"{head}\n  midtrain:\n{rest.replace(forge, '1' * 32 + '.dir', 1)}"})
    found = contradictions(torn, ["forge", "midtrain"])
    assert f"midtrain read outputs/tasks as md5:{'1' * 32}.dir, but forge wrote it as md5:{forge}" in found
    assert contradictions(bundle, list(bundle.stages())) == []


def test_what_is_not_known_of_a_run_is_listed(bundle: Bundle) -> None:
    assert shortcomings(bundle) == {}
    run = bundle.run.model_copy(update={"commit": "", "environment": {}, "params": {}, "incomplete": ["outputs/tasks"]})
    changes = bundle.changes.model_copy(update={"state": "unknown", "digest": "sha256:ab"})
    found = shortcomings(bundle.model_copy(update={"run": run, "changes": changes}))
    assert list(found) == ["no_commit", "uncommitted_changes", "environment_unknown", "no_seed", "data_missing"]
    assert "sha256:ab" in found["uncommitted_changes"]


@pytest.mark.parametrize("text", ["", "{}", '{"schema": "cowork-record/1"}', "[1]"])
def test_what_is_no_record_is_an_error_that_says_so(text: str) -> None:
    with pytest.raises(DataError, match="not a run's record"):
        read_bundle(text, "there")


# What a tree was beyond its commit.


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "code"
    (root / "components").mkdir(parents=True)
    (root / ".dvc").mkdir()
    for name, text in (("components/a.py", "x = 1\n"), ("params.yaml", "seed: 1\n"), (".dvc/config", "")):
        (root / name).write_text(text)
    git(tmp_path, "init", "-q", str(root))
    git(root, "add", ".")
    git(root, "commit", "-qm", "start")
    return root


def test_parameters_and_the_remote_are_no_change_of_code(repository: Path) -> None:
    (repository / "params.yaml").write_text("seed: 2\n")
    (repository / "dvc.lock").write_text("schema: '2.0'\n")
    (repository / ".dvc/config").write_text("[core]\n")
    (repository / "notes.txt").write_text("not code")
    assert changes_of(repository).state == "none"


def test_edits_and_new_code_are_kept_so_that_they_can_be_applied(repository: Path, tmp_path: Path) -> None:
    (repository / "components/a.py").write_text("x = 2\n")
    (repository / "components/new.py").write_text("y = 'ü'\n")
    (repository / "components/data.bin").write_bytes(bytes(range(256)))
    changes = changes_of(repository)
    assert changes.state == "stored" and changes.digest.startswith("sha256:")
    status = git(repository, "status", "--porcelain")
    assert "?? components/new.py" in status and "\nA " not in f"\n{status}", "nothing was staged"
    git(tmp_path, "clone", "-q", str(repository), str(tmp_path / "fresh"))
    patch = changes.patch.encode()
    subprocess.run(["git", "-C", str(tmp_path / "fresh"), "apply", "--binary", "-"], input=patch, check=True)
    for name in ("a.py", "new.py", "data.bin"):
        assert (tmp_path / "fresh/components" / name).read_bytes() == (repository / "components" / name).read_bytes()


def test_an_edit_that_holds_a_secret_is_not_kept_only_its_digest(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEACHER_API_KEY", SECRET)
    (repository / "components/a.py").write_text(f"key = '{SECRET}'\n")
    changes = changes_of(repository)
    assert changes.state == "unknown" and changes.digest and "secret" in changes.why
    assert SECRET not in changes.model_dump_json() and base64.b64encode(SECRET.encode()).decode() not in str(changes)


def test_a_folder_outside_of_git_has_unknown_code(tmp_path: Path) -> None:
    assert changes_of(tmp_path).state == "unknown"


# The verdict.


def spool(run_dir: Path, stage: str, losses: list[float], metrics: dict[str, float]) -> None:
    from components.tracking.events import SpoolSink, spool_path

    with SpoolSink(spool_path(run_dir, stage, 1)) as sink:
        sink.start(stage, 1)
        for step, loss in enumerate(losses):
            sink.metric("loss", loss, step)
        sink.end("finished", metrics=metrics)


def judged(
    run_dir: Path, role: str, losses: list[float], metrics: dict[str, float], same: bool = False, inputs: bool = True
) -> StageVerdict:
    """The verdict on a stage recorded with losses 2, 1 and score 0.5, that gave these."""
    spool(run_dir, "s", losses, metrics)
    expected = StageRecord(name="s", metrics={"score": 0.5, "seconds": 9.0}, outputs=[Made(name=role, digest="md5:a")])
    outputs = [Output("outputs/s", "md5:a", "md5:a" if same else "md5:b")]
    return judge("s", outputs, inputs, expected, {"loss": [(0, 2.0), (1, 1.0)]}, run_dir, 0.02)


def test_equal_bytes_are_bit_equal_whatever_the_time_it_took(tmp_path: Path) -> None:
    assert judged(tmp_path, "checkpoint", [2.0, 1.0], {"score": 0.5, "seconds": 1.0}, same=True).word == "bit-equal"


def test_a_checkpoint_with_near_losses_and_scores_is_within_tolerance_and_says_what_was_compared(
    tmp_path: Path,
) -> None:
    verdict = judged(tmp_path, "checkpoint", [2.01, 1.01], {"score": 0.51, "seconds": 1.0})
    assert verdict.word == "within tolerance"
    assert [text.split(":")[0] for text in verdict.compared] == ["score", "curve loss"], "not the time"


@pytest.mark.parametrize(
    ("losses", "metrics"),
    [([2.0, 1.5], {"score": 0.5}), ([2.0, 1.0], {"score": 0.6}), ([2.0], {"score": 0.5}), ([2.0, 1.0], {})],
)
def test_far_losses_scores_or_other_steps_are_different(
    tmp_path: Path, losses: list[float], metrics: dict[str, float]
) -> None:
    verdict = judged(tmp_path, "checkpoint", losses, metrics)
    assert verdict.word == "different" and any(
        "NOT" in text or "not obtained" in text or "steps" in text for text in verdict.compared
    )


def test_data_has_no_tolerance(tmp_path: Path) -> None:
    assert judged(tmp_path, "corpus", [2.0, 1.0], {"score": 0.5}).word == "different"
    assert judged(tmp_path, "corpus", [2.0, 1.0], {"score": 0.5}, inputs=False).word == "inputs differ"


def test_the_worst_stage_decides_and_the_first_difference_is_named() -> None:
    verdict = Verdict("t", [StageVerdict("a", "bit-equal"), StageVerdict("b", "within tolerance")])
    assert (verdict.exit_code, verdict.first_difference) == (10, "b")
    verdict.stages.append(StageVerdict("c", "inputs differ"))
    assert verdict.exit_code == 10
    verdict.stages.append(StageVerdict("d", "different"))
    assert verdict.exit_code == 11 and verdict.first_difference == "b"
    verdict.stages.append(StageVerdict("e", "failed"))
    assert verdict.exit_code == OrchestrationError.exit_code
    assert "first stage that differs: b" in table(verdict) and "bit-equal" not in table(verdict).splitlines()[-1]
    assert Verdict("t", [StageVerdict("a", "restored"), StageVerdict("b", "bit-equal")]).exit_code == 0


def test_a_record_can_be_read_by_its_schema_alone(bundle: Bundle) -> None:
    assert isinstance(bundle.run, RunRecord) and read_bundle(bundle.text(), "here") == bundle.sealed()
    with pytest.raises(CoworkError, match="schema"):
        read_bundle(bundle.model_copy(update={"schema_": "cowork-record/9"}).text(), "here")
