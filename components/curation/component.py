"""The Kubeflow face of `curate-*` and of the data gates. KFP reads annotations as objects, so they are not postponed
here."""

from typing import Optional

from kfp import dsl

from pipelines.kfp_step import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def curate(
    settings: str,
    store: str,
    trajectories: dsl.Input[dsl.Dataset],
    harness: dsl.Input[dsl.Dataset],
    gate: dsl.Input[dsl.Dataset],
    corpus: dsl.Output[dsl.Dataset],
    metrics: dsl.Output[dsl.Metrics],
):
    """Turn trajectories into the corpus of one training stage."""
    from pipelines.kfp_step import run_step

    inputs = {"trajectories": trajectories, "harness": harness, "gate": gate}
    run_step(settings, store, inputs, {"corpus": corpus}, metrics)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def check_data(
    settings: str,
    store: str,
    tasks: dsl.Input[dsl.Dataset],
    gate: dsl.Output[dsl.Dataset],
    validation: dsl.Output[dsl.Dataset],
    page: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
    # What a gate does not look at is not connected. KFP strips Optional[...] only, hence no `| None`.
    harness: Optional[dsl.Input[dsl.Dataset]] = None,  # noqa: UP045
    trajectories_gui: Optional[dsl.Input[dsl.Dataset]] = None,  # noqa: UP045
    trajectories_terminal: Optional[dsl.Input[dsl.Dataset]] = None,  # noqa: UP045
    trajectories_hybrid: Optional[dsl.Input[dsl.Dataset]] = None,  # noqa: UP045
    corpus_midtrain: Optional[dsl.Input[dsl.Dataset]] = None,  # noqa: UP045
    corpus_gui_sft: Optional[dsl.Input[dsl.Dataset]] = None,  # noqa: UP045
    corpus_terminal_sft: Optional[dsl.Input[dsl.Dataset]] = None,  # noqa: UP045
    corpus_hybrid_sft: Optional[dsl.Input[dsl.Dataset]] = None,  # noqa: UP045
    scores_base: Optional[dsl.Input[dsl.Dataset]] = None,  # noqa: UP045
    scores_midtrain: Optional[dsl.Input[dsl.Dataset]] = None,  # noqa: UP045
    scores_gui_sft: Optional[dsl.Input[dsl.Dataset]] = None,  # noqa: UP045
    scores_terminal_sft: Optional[dsl.Input[dsl.Dataset]] = None,  # noqa: UP045
    scores_hybrid_sft: Optional[dsl.Input[dsl.Dataset]] = None,  # noqa: UP045
    scores_rl: Optional[dsl.Input[dsl.Dataset]] = None,  # noqa: UP045
):
    """Check one kind of data against its suite of declared rules; a failed gate stops the run."""
    from pipelines.kfp_step import run_step

    inputs = {
        "tasks": tasks,
        "harness": harness,
        "trajectories-gui": trajectories_gui,
        "trajectories-terminal": trajectories_terminal,
        "trajectories-hybrid": trajectories_hybrid,
        "corpus-midtrain": corpus_midtrain,
        "corpus-gui-sft": corpus_gui_sft,
        "corpus-terminal-sft": corpus_terminal_sft,
        "corpus-hybrid-sft": corpus_hybrid_sft,
        "scores-base": scores_base,
        "scores-midtrain": scores_midtrain,
        "scores-gui-sft": scores_gui_sft,
        "scores-terminal-sft": scores_terminal_sft,
        "scores-hybrid-sft": scores_hybrid_sft,
        "scores-rl": scores_rl,
    }
    run_step(settings, store, inputs, {"validation": validation, "gate": gate}, metrics, page)
