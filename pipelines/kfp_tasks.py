"""What every task of the Kubeflow pipeline has in common: its stage's name, settings, image, environment, retries."""

from __future__ import annotations

import copy
from collections.abc import Callable

from kfp import dsl
from kfp.dsl.base_component import BaseComponent
from kfp.dsl.python_component import PythonComponent

from pipelines.step import ENVIRONMENT


def named(component: BaseComponent, stage: str) -> PythonComponent:
    """The component under a stage's name, since KFP calls a task after its component, and in a stage's environment.

    The variables are set here and not one by one on the task, where each costs a look at the whole call stack.
    """
    assert isinstance(component, PythonComponent)
    spec = copy.deepcopy(component.component_spec)
    spec.name = stage
    spec.implementation.container.env = dict(ENVIRONMENT)
    return PythonComponent(component_spec=spec, python_func=component.python_func)


def stepper(settings: dsl.PipelineTask, store: object, image: object) -> Callable[..., dsl.PipelineTask]:
    """`step(stage, component, **inputs)`: a task with what every stage has: settings, store, image and retries.

    Retries are meant for the infrastructure; a failure that stays is refused at once on the next attempt (`kfp_step`).
    """

    def step(stage: str, component: BaseComponent, **inputs: dsl.Artifact) -> dsl.PipelineTask:
        told = settings.outputs[stage.replace("-", "_")]
        task = named(component, stage)(settings=told, store=store, **inputs)
        task.set_container_image(image)
        task.set_retry(num_retries=2, backoff_duration="10s", backoff_factor=3.0, backoff_max_duration="120s")
        return task

    return step
