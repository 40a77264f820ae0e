"""The Kubeflow face of the five training stages and of the checkpoint they start from.

KFP reads annotations as objects, so they are not postponed here.
"""

from typing import Optional

from kfp import dsl

from pipelines.kfp_step import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def base_checkpoint(settings: str, store: str, checkpoint: dsl.Output[dsl.Model]):
    """Publish the aligned base checkpoint that is stored with the repository."""
    from pipelines.kfp_step import publish_base

    publish_base(settings, store, checkpoint)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def train_supervised(
    settings: str,
    store: str,
    checkpoint: dsl.Input[dsl.Model],
    corpus: dsl.Input[dsl.Dataset],
    gate: dsl.Input[dsl.Dataset],
    trained: dsl.Output[dsl.Model],
    metrics: dsl.Output[dsl.Metrics],
    grounding: Optional[dsl.Input[dsl.Dataset]] = None,  # noqa: UP045 - KFP strips Optional[...] only
    gui: Optional[dsl.Input[dsl.Dataset]] = None,  # noqa: UP045
):
    """Train a checkpoint on a corpus; `grounding` and `gui` are earlier corpora to replay."""
    from pipelines.kfp_step import run_step

    inputs = {"checkpoint": checkpoint, "corpus": corpus, "gate": gate, "grounding": grounding, "gui": gui}
    run_step(settings, store, inputs, {"checkpoint": trained}, metrics)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def train_online(
    settings: str,
    store: str,
    checkpoint: dsl.Input[dsl.Model],
    tasks: dsl.Input[dsl.Dataset],
    harness: dsl.Input[dsl.Dataset],
    trained: dsl.Output[dsl.Model],
    metrics: dsl.Output[dsl.Metrics],
):
    """Improve a checkpoint by online GRPO on tasks in the sandbox."""
    from pipelines.kfp_step import run_step

    inputs = {"checkpoint": checkpoint, "tasks": tasks, "harness": harness}
    run_step(settings, store, inputs, {"checkpoint": trained}, metrics)
