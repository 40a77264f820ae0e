"""What an artifact came from, built from run records."""

from __future__ import annotations

from xml.etree import ElementTree

from components.tracking.lineage import Artifact, RunRecord, StageRecord, find_faults
from components.tracking.lineage_graph import build_graph, final_artifacts, find_artifacts, summary_line, text_tree
from components.tracking.lineage_picture import graph_picture, pipeline_picture
from tests.unit.tracking.sample_report import record

SVG = "{http://www.w3.org/2000/svg}"


def made(letter: str, path: str = "", kind: str = "data", name: str = "x") -> Artifact:
    return Artifact(name=name, path=path or f"outputs/{letter}", digest=f"md5:{letter * 32}", kind=kind)  # type: ignore[arg-type]


def stage(
    name: str, reads: list[Artifact], writes: list[Artifact], status: str = "finished", key: str = ""
) -> StageRecord:
    return StageRecord(name=name, inputs=reads, outputs=writes, status=status, key=key)  # type: ignore[arg-type]


def test_the_tree_of_a_checkpoint_holds_all_it_came_from_and_nothing_else() -> None:
    run = record()
    for index, entry in enumerate(run.stages):  # the sample has no paths: give maker and readers the same
        for artifact in (*entry.inputs, *entry.outputs):
            artifact.path = f"outputs/{artifact.digest[0]}"
        entry.seconds = float(index)
    graph = build_graph(run.stage("rl").outputs, [run], lambda _, name: {"seed": 7, name: {"lr": 0.1}})
    stages = [step.stage for step in graph.steps.values()]
    assert set(stages) == {
        "forge", "harness", "collect-gui", "collect-hybrid", "curate-midtrain", "curate-gui-sft", "curate-hybrid-sft",
        "midtrain", "gui-sft", "hybrid-sft", "rl",
    }  # fmt: skip
    assert stages[-1] == "rl" and stages.index("forge") < stages.index("harness") < stages.index("collect-gui")
    assert len(graph.nodes) == 11 and len(stages) == 11, "what several stages read is there once"
    rl = graph.steps[f"{run.run_id}/rl"]
    assert rl.params == {"seed": "7", "rl.lr": "0.1"} and rl.params_digest.startswith("sha256:")
    facts = graph.runs[run.run_id]
    assert (facts.commit, facts.dirty, facts.profile) == (run.commit, True, "tiny")


def test_the_text_names_every_digest_in_full_every_maker_and_the_commit() -> None:
    run = RunRecord(run_id="r1", commit="c0ffee", environment={"image": "sha256:1234", "python": "3.11"})
    base, model = made("b", "given", "checkpoint"), made("c", kind="checkpoint", name="checkpoint")
    run.stages = [stage("rl", [base, made("d")], [model])]
    graph = build_graph([model], [run], lambda *_: {"rl": {f"p{n}": n for n in range(60)}})
    graph.nodes[f"given@{base.digest}"].state = "different"
    text = text_tree(graph)
    assert all(artifact.digest in text for artifact in (base, model, made("d")))
    assert "made by rl in run r1" in text and "commit c0ffee" in text and "image sha256:1234" in text
    assert "more" in text and max(map(len, text.splitlines())) <= 120
    assert text.splitlines()[-1] == "3 artifacts: 1 different, 2 unchecked" == summary_line(graph)
    assert "p59=59" in text_tree(graph, whole_params=True)


def test_the_maker_is_the_stage_that_did_the_work_not_one_that_took_it_as_it_was() -> None:
    first = RunRecord(run_id="first", commit="old", stages=[stage("forge", [made("a")], [made("b")], key="k1")])
    other = RunRecord(run_id="other", stages=[stage("forge", [made("9")], [made("b")], key="k2")])
    later = RunRecord(run_id="later", stages=[stage("forge", [made("a")], [made("b")], "reused", key="k1")])
    later.stages.append(stage("rl", [made("b")], [made("c")]))
    graph = build_graph([made("c")], [other, later, first], prefer="later")
    assert list(graph.steps) == ["first/forge", "later/rl"], "by the key it was reused under, not by being newest"
    assert graph.runs["first"].commit == "old"
    gone = build_graph([made("c")], [later])
    assert list(gone.steps) == ["later/forge", "later/rl"], "when the run is gone, what is known of it"


def test_a_stage_that_failed_made_nothing() -> None:
    run = RunRecord(run_id="r", stages=[stage("rl", [], [made("c")], "failed")])
    graph = build_graph([made("c")], [run])
    assert graph.steps == {} and [node.maker for node in graph.nodes.values()] == [""]
    assert final_artifacts(run) == []


def test_an_artifact_is_found_by_the_beginning_of_its_digest_with_or_without_the_algorithm() -> None:
    run = RunRecord(run_id="r", stages=[stage("x", [made("a")], [made("b"), made("c")])])
    run.stages[0].outputs[1].digest = "md5:b" + "c" * 31
    assert [a.digest for a in find_artifacts([run], "md5:bc")] == ["md5:b" + "c" * 31]
    assert [a.digest for a in find_artifacts([run], "bb")] == [made("b").digest]
    assert len(find_artifacts([run], "b")) == 2 and find_artifacts([run], "f") == []
    assert [a.path for a in final_artifacts(run)] == ["outputs/b", "outputs/c"]


def test_a_loop_in_the_records_ends() -> None:
    run = RunRecord(run_id="r", stages=[stage("a", [made("b")], [made("a")]), stage("b", [made("a")], [made("b")])])
    graph = build_graph([made("a")], [run])
    assert len(graph.steps) == 2
    text_tree(graph)
    ElementTree.fromstring(graph_picture(graph))


def test_a_shortened_digest_is_a_fault_and_makes_the_tree_one() -> None:
    weak = Artifact(name="corpus", path="outputs/w", digest="md5:1234abcd")
    run = RunRecord(run_id="r", stages=[stage("rl", [weak], [made("c", kind="checkpoint")])])
    (fault,) = find_faults(run)
    assert (fault.code, fault.severe) == ("weak_identity", True) and "1234abcd" in fault.text
    assert build_graph([made("c", kind="checkpoint")], [run]).faults == [fault]


def test_a_model_measured_on_its_own_training_data_is_said() -> None:
    model = made("c", kind="checkpoint")
    train, copy = made("d", "outputs/train"), made("d", "outputs/eval")
    run = RunRecord(
        run_id="r", stages=[stage("rl", [train], [model]), stage("evaluate-rl", [model, copy], [made("e")])]
    )
    (fault,) = find_faults(run)
    assert (fault.code, fault.severe) == ("train_equals_eval", False)
    assert "outputs/eval" in fault.text and "outputs/train" in fault.text
    assert [f.code for f in build_graph([made("e")], [run]).faults] == ["train_equals_eval"]
    run.stages[1].inputs[1] = train
    assert find_faults(run) == [], "one task set for both: its splits are apart, and the gates look at them"


def test_the_picture_marks_what_was_looked_at_and_shows_what_was_given() -> None:
    base, model = made("b", "components/training/base", "checkpoint"), made("c", kind="checkpoint")
    run = RunRecord(run_id="r", stages=[stage("rl", [base], [model])])
    graph = build_graph([model], [run])
    graph.nodes[f"{model.path}@{model.digest}"].state = "verified"
    graph.nodes[f"{base.path}@{base.digest}"].state = "different"
    for picture in (
        graph_picture(graph),
        pipeline_picture(run, {model.digest: "verified", base.digest: "different"}),
    ):
        texts = [node.text for node in ElementTree.fromstring(picture).iter(f"{SVG}text")]
        assert {"rl", "base", "given", "✓", "✗"} <= set(texts)
        titles = "\n".join(node.text or "" for node in ElementTree.fromstring(picture).iter(f"{SVG}title"))
        assert model.digest in titles and base.digest in titles
    assert "✓" not in pipeline_picture(run)
