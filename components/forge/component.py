"""The Kubeflow face of `forge` and `feedback`. KFP reads annotations as objects, so they are not postponed here."""

from kfp import dsl

from pipelines.kfp_step import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def forge(settings: str, store: str, tasks: dsl.Output[dsl.Dataset], metrics: dsl.Output[dsl.Metrics]):
    """Write the tasks of all splits: instruction, setup and verifier from one sampled specification."""
    from pipelines.kfp_step import run_step

    run_step(settings, store, {}, {"tasks": tasks}, metrics)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def feedback(
    settings: str,
    store: str,
    tasks: dsl.Input[dsl.Dataset],
    scores: dsl.Input[dsl.Dataset],
    gate: dsl.Input[dsl.Dataset],
    feedback: dsl.Output[dsl.Dataset],
    metrics: dsl.Output[dsl.Metrics],
):
    """Name the student's weakest skills for the next round of tasks."""
    from pipelines.kfp_step import run_step

    inputs = {"tasks": tasks, "scores": scores, "gate": gate}
    run_step(settings, store, inputs, {"feedback": feedback}, metrics)
