"""The Kubeflow face of `collect-*`. KFP reads annotations as objects, so they are not postponed here."""

from kfp import dsl

from pipelines.kfp_step import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def collect(
    settings: str,
    store: str,
    tasks: dsl.Input[dsl.Dataset],
    harness: dsl.Input[dsl.Dataset],
    trajectories: dsl.Output[dsl.Dataset],
    metrics: dsl.Output[dsl.Metrics],
):
    """Let a teacher work through tasks in the sandbox; keep its episodes and the reasons of dropped ones."""
    from pipelines.kfp_step import run_step

    run_step(settings, store, {"tasks": tasks, "harness": harness}, {"trajectories": trajectories}, metrics)
