"""The Kubeflow face of `report`. KFP reads annotations as objects, so they are not postponed here."""

from kfp import dsl

from pipelines.kfp_step import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def write_report(
    settings: str,
    store: str,
    tasks: dsl.Input[dsl.Dataset],
    harness: dsl.Input[dsl.Dataset],
    feedback: dsl.Input[dsl.Dataset],
    trajectories_gui: dsl.Input[dsl.Dataset],
    trajectories_terminal: dsl.Input[dsl.Dataset],
    trajectories_hybrid: dsl.Input[dsl.Dataset],
    corpus_midtrain: dsl.Input[dsl.Dataset],
    corpus_gui_sft: dsl.Input[dsl.Dataset],
    corpus_terminal_sft: dsl.Input[dsl.Dataset],
    corpus_hybrid_sft: dsl.Input[dsl.Dataset],
    model_midtrain: dsl.Input[dsl.Model],
    model_gui_sft: dsl.Input[dsl.Model],
    model_terminal_sft: dsl.Input[dsl.Model],
    model_hybrid_sft: dsl.Input[dsl.Model],
    model_rl: dsl.Input[dsl.Model],
    scores_base: dsl.Input[dsl.Dataset],
    scores_midtrain: dsl.Input[dsl.Dataset],
    scores_gui_sft: dsl.Input[dsl.Dataset],
    scores_terminal_sft: dsl.Input[dsl.Dataset],
    scores_hybrid_sft: dsl.Input[dsl.Dataset],
    scores_rl: dsl.Input[dsl.Dataset],
    gate: dsl.Input[dsl.Dataset],
    report: dsl.Output[dsl.Artifact],
    page: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
):
    """Gather scores, curves, data funnel and lineage on one self-contained page."""
    from pipelines.kfp_step import run_step

    inputs = {
        "tasks": tasks,
        "harness": harness,
        "feedback": feedback,
        "trajectories-gui": trajectories_gui,
        "trajectories-terminal": trajectories_terminal,
        "trajectories-hybrid": trajectories_hybrid,
        "corpus-midtrain": corpus_midtrain,
        "corpus-gui-sft": corpus_gui_sft,
        "corpus-terminal-sft": corpus_terminal_sft,
        "corpus-hybrid-sft": corpus_hybrid_sft,
        "model-midtrain": model_midtrain,
        "model-gui-sft": model_gui_sft,
        "model-terminal-sft": model_terminal_sft,
        "model-hybrid-sft": model_hybrid_sft,
        "model-rl": model_rl,
        "scores-base": scores_base,
        "scores-midtrain": scores_midtrain,
        "scores-gui-sft": scores_gui_sft,
        "scores-terminal-sft": scores_terminal_sft,
        "scores-hybrid-sft": scores_hybrid_sft,
        "scores-rl": scores_rl,
        "gate": gate,
    }
    run_step(settings, store, inputs, {"report": report}, metrics, page)
