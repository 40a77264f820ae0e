"""The whole recipe as a Kubeflow pipeline, to be read from top to bottom. Task names are stage names.

Data flows as small manifests (see `kfp_store`). Two tasks are no stages: `configure`, which refuses bad parameters
before any work, and `base`, which publishes the checkpoint stored with the repository. `python -m
pipelines.kfp_compile` writes the compiled twin; a test holds this graph, `registry` and `dvc.yaml` together.

KFP reads annotations as objects, so they are not postponed here.
"""

from kfp import dsl

from components.curation.component import check_data, curate
from components.evaluation.component import evaluate
from components.forge.component import feedback, forge
from components.harness.component import evolve_harness
from components.rollout.component import collect
from components.tracking.component import write_report
from components.training.component import base_checkpoint, train_online, train_supervised
from pipelines.kfp_configure import configure
from pipelines.kfp_step import IMAGE
from pipelines.kfp_tasks import stepper

STORE = "/cowork/store"


@dsl.pipeline(name="mage-vl-cowork-recipe", display_name="Mage-VL-Cowork: the whole recipe")
def recipe(
    profile: str = "tiny",
    seed: int = 0,
    overrides: str = "{}",
    store: str = STORE,
    image: str = IMAGE,
):
    """Tasks, harness, trajectories, corpora, five trained stages, evaluation and a report.

    Args:
        profile: Name of a profile of pipelines/profiles; `tiny` runs on two CPU cores.
        seed: Seed of every named random stream; the same seed gives the same bytes.
        overrides: JSON object of dotted names laid over the profile, e.g. {"rl.iterations": 4}; 10,000 characters.
        store: Folder that every step sees and that holds the data, by content digest.
        image: Container image of the steps, best named by digest.
    """
    settings = configure(profile=profile, seed=seed, overrides=overrides)
    settings.set_container_image(image)
    settings.set_caching_options(False)  # it reads the profiles and the code inside the image
    step = stepper(settings, store, image)
    base = step("base", base_checkpoint).outputs["checkpoint"]

    # Tasks, and the harness that wins on the development tasks. What waits for a gate starts when the data passed it.
    tasks = step("forge", forge).outputs["tasks"]
    tasks_passed = step("gate-tasks", check_data, tasks=tasks).outputs["gate"]
    harness = step("harness", evolve_harness, tasks=tasks, gate=tasks_passed).outputs["harness"]
    world = {"tasks": tasks, "harness": harness}

    # Three teacher configurations collect trajectories.
    gui = step("collect-gui", collect, **world).outputs["trajectories"]
    terminal = step("collect-terminal", collect, **world).outputs["trajectories"]
    hybrid = step("collect-hybrid", collect, **world).outputs["trajectories"]
    collected = {"trajectories_gui": gui, "trajectories_terminal": terminal, "trajectories_hybrid": hybrid}
    passed = step("gate-trajectories", check_data, **world, **collected).outputs["gate"]

    # One corpus for each supervised stage.
    curated = {"harness": harness, "gate": passed}
    midtrain_corpus = step("curate-midtrain", curate, trajectories=gui, **curated).outputs["corpus"]
    gui_corpus = step("curate-gui-sft", curate, trajectories=gui, **curated).outputs["corpus"]
    terminal_corpus = step("curate-terminal-sft", curate, trajectories=terminal, **curated).outputs["corpus"]
    hybrid_corpus = step("curate-hybrid-sft", curate, trajectories=hybrid, **curated).outputs["corpus"]
    corpora = {
        "corpus_midtrain": midtrain_corpus,
        "corpus_gui_sft": gui_corpus,
        "corpus_terminal_sft": terminal_corpus,
        "corpus_hybrid_sft": hybrid_corpus,
    }
    learn = {"gate": step("gate-corpora", check_data, **world, **corpora).outputs["gate"]}
    replay = {**learn, "grounding": midtrain_corpus}

    # Five stages of one policy.
    midtrain = step("midtrain", train_supervised, checkpoint=base, corpus=midtrain_corpus, **learn).outputs["trained"]
    gui_sft = step("gui-sft", train_supervised, checkpoint=midtrain, corpus=gui_corpus, **replay).outputs["trained"]
    terminal_sft = step(
        "terminal-sft", train_supervised, checkpoint=gui_sft, corpus=terminal_corpus, gui=gui_corpus, **replay
    ).outputs["trained"]
    hybrid_sft = step(
        "hybrid-sft", train_supervised, checkpoint=terminal_sft, corpus=hybrid_corpus, gui=gui_corpus, **replay
    ).outputs["trained"]
    rl = step("rl", train_online, checkpoint=hybrid_sft, **world).outputs["trained"]

    # Every checkpoint on the same held-out tasks.
    scores_base = step("evaluate-base", evaluate, checkpoint=base, **world).outputs["scores"]
    scores_midtrain = step("evaluate-midtrain", evaluate, checkpoint=midtrain, **world).outputs["scores"]
    scores_gui_sft = step("evaluate-gui-sft", evaluate, checkpoint=gui_sft, **world).outputs["scores"]
    scores_terminal_sft = step("evaluate-terminal-sft", evaluate, checkpoint=terminal_sft, **world).outputs["scores"]
    scores_hybrid_sft = step("evaluate-hybrid-sft", evaluate, checkpoint=hybrid_sft, **world).outputs["scores"]
    scores_rl = step("evaluate-rl", evaluate, checkpoint=rl, **world).outputs["scores"]
    scores = {
        "scores_base": scores_base,
        "scores_midtrain": scores_midtrain,
        "scores_gui_sft": scores_gui_sft,
        "scores_terminal_sft": scores_terminal_sft,
        "scores_hybrid_sft": scores_hybrid_sft,
        "scores_rl": scores_rl,
    }
    believed = step("gate-scores", check_data, tasks=tasks, **scores).outputs["gate"]

    # What the next round of tasks should stress, and the page that shows it all.
    next_round = step("feedback", feedback, tasks=tasks, scores=scores_hybrid_sft, gate=believed).outputs["feedback"]
    step(
        "report",
        write_report,
        **world,
        feedback=next_round,
        **collected,
        **corpora,
        model_midtrain=midtrain,
        model_gui_sft=gui_sft,
        model_terminal_sft=terminal_sft,
        model_hybrid_sft=hybrid_sft,
        model_rl=rl,
        **scores,
        gate=believed,
    )
