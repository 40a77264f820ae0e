"""The Kubeflow face of `evaluate-*`. KFP reads annotations as objects, so they are not postponed here."""

from kfp import dsl

from pipelines.kfp_step import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def evaluate(
    settings: str,
    store: str,
    checkpoint: dsl.Input[dsl.Model],
    tasks: dsl.Input[dsl.Dataset],
    harness: dsl.Input[dsl.Dataset],
    scores: dsl.Output[dsl.Dataset],
    metrics: dsl.Output[dsl.Metrics],
):
    """Score a checkpoint on the held-out tasks and the single-step benches."""
    from pipelines.kfp_step import run_step

    inputs = {"checkpoint": checkpoint, "tasks": tasks, "harness": harness}
    run_step(settings, store, inputs, {"scores": scores}, metrics)
