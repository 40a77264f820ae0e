"""The Kubeflow face of `harness`. KFP reads annotations as objects, so they are not postponed here."""

from kfp import dsl

from pipelines.kfp_step import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def evolve_harness(
    settings: str,
    store: str,
    tasks: dsl.Input[dsl.Dataset],
    gate: dsl.Input[dsl.Dataset],
    harness: dsl.Output[dsl.Dataset],
    metrics: dsl.Output[dsl.Metrics],
):
    """Try the harness candidates on development tasks and keep the best, with all trials."""
    from pipelines.kfp_step import run_step

    run_step(settings, store, {"tasks": tasks, "gate": gate}, {"harness": harness}, metrics)
