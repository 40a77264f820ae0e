"""The first task of the Kubeflow pipeline: refuse bad parameters, then tell every stage its settings.

KFP reads annotations as objects, so they are not postponed here.
"""

from typing import NamedTuple

from kfp import dsl

from pipelines.kfp_step import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def configure(profile: str, seed: int, overrides: str) -> NamedTuple(  # type: ignore[valid-type]
    "Settings",
    [
        ("base", str),
        ("forge", str),
        ("gate_tasks", str),
        ("harness", str),
        ("collect_gui", str),
        ("collect_terminal", str),
        ("collect_hybrid", str),
        ("gate_trajectories", str),
        ("curate_midtrain", str),
        ("curate_gui_sft", str),
        ("curate_terminal_sft", str),
        ("curate_hybrid_sft", str),
        ("gate_corpora", str),
        ("midtrain", str),
        ("gui_sft", str),
        ("terminal_sft", str),
        ("hybrid_sft", str),
        ("rl", str),
        ("evaluate_base", str),
        ("evaluate_midtrain", str),
        ("evaluate_gui_sft", str),
        ("evaluate_terminal_sft", str),
        ("evaluate_hybrid_sft", str),
        ("evaluate_rl", str),
        ("gate_scores", str),
        ("feedback", str),
        ("report", str),
    ],
):
    """Resolve the profile with what is laid over it, and cut it into one short text a stage: its cache key in words."""
    from pipelines.kfp_settings import resolve

    return resolve(profile, seed, overrides)
