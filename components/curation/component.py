"""The Kubeflow face of `curate-*`. KFP reads annotations as objects, so they are not postponed here."""

from kfp import dsl

from pipelines.kfp_step import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def curate(
    settings: str,
    store: str,
    trajectories: dsl.Input[dsl.Dataset],
    harness: dsl.Input[dsl.Dataset],
    corpus: dsl.Output[dsl.Dataset],
    metrics: dsl.Output[dsl.Metrics],
):
    """Turn trajectories into the corpus of one training stage."""
    from pipelines.kfp_step import run_step

    run_step(settings, store, {"trajectories": trajectories, "harness": harness}, {"corpus": corpus}, metrics)
