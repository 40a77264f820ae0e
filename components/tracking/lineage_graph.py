"""What an artifact came from, as a graph over run records: artifacts by digest, and the steps that made them.

Built from records alone; whether the bytes are still those of the digest is for a caller with access to the files
(`Node.state`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from components.contracts.digests import digest_value, short
from components.tracking.events import flatten
from components.tracking.lineage import Artifact, Fault, RunRecord, StageRecord, find_faults

State = Literal["verified", "missing", "different", "unchecked"]
"""`verified`: hashed again, the same. `different`: other bytes lie where it should. `missing`: nowhere to be found."""

WORDS = {
    "tasks": "task set", "harness": "harness", "trajectories": "trajectories", "corpus": "corpus",
    "checkpoint": "checkpoint", "scores": "scores", "feedback": "feedback", "report": "report",
}  # fmt: skip
"""What the product calls an artifact of that role."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Node(_Part):
    """One artifact. `maker` is the id of the step that made it; empty = given to the recipe from outside."""

    name: str
    path: str
    digest: str
    kind: Literal["data", "checkpoint"] = "data"
    maker: str = ""
    state: State = "unchecked"
    note: str = ""
    """Where it was found, or what is there instead."""

    @property
    def word(self) -> str:
        return WORDS.get(self.name.partition("-")[0], self.name)


class Step(_Part):
    """A stage of a run, with the parameters that were its own. `inputs` and `outputs` are node ids."""

    stage: str
    run: str
    key: str = ""
    attempt: int = 0
    status: str = ""
    seconds: float = 0.0
    params: dict[str, str] = Field(default_factory=dict)
    params_digest: str = ""
    metrics: dict[str, float] = Field(default_factory=dict)
    inputs: list[str] = Field(default_factory=list)
    outputs: list[str] = Field(default_factory=list)


class RunFacts(_Part):
    """What is common to all steps of a run. `image` is the digest of the image it ran in, empty = none."""

    commit: str = ""
    dirty: bool = False
    profile: str = ""
    seed: int = 0
    image: str = ""
    started: str = ""
    environment: dict[str, str] = Field(default_factory=dict)


class Graph(_Part):
    """The tree of one or more artifacts (`roots`); an artifact used twice is one node."""

    roots: list[str] = Field(default_factory=list)
    nodes: dict[str, Node] = Field(default_factory=dict)
    steps: dict[str, Step] = Field(default_factory=dict)
    """Makers before users."""
    runs: dict[str, RunFacts] = Field(default_factory=dict)
    faults: list[Fault] = Field(default_factory=list)

    def count(self, state: State) -> int:
        return sum(node.state == state for node in self.nodes.values())


ParamsOf = Callable[[RunRecord, str], Mapping[str, Any]]
"""The parameters of a record that a stage saw."""


def build_graph(
    roots: Iterable[Artifact], records: Sequence[RunRecord], params_of: ParamsOf | None = None, prefer: str = ""
) -> Graph:
    """The graph behind `roots`. `records`: newest first; a maker in run `prefer` is taken before any other."""
    graph = Graph()
    ordered = sorted(records, key=lambda record: record.run_id != prefer)

    def node(artifact: Artifact, near: str) -> str:
        item = f"{artifact.path or artifact.name}@{artifact.digest}"
        if item not in graph.nodes:
            found = Node(name=artifact.name, path=artifact.path, digest=artifact.digest, kind=artifact.kind)
            graph.nodes[item] = found
            made = _maker(artifact, ordered, near)
            if made:
                found.maker = step(*made)
                found.name = _output(made[1], artifact).name
                graph.steps[found.maker].outputs.append(item)
        return item

    def step(record: RunRecord, entry: StageRecord) -> str:
        name = f"{record.run_id}/{entry.name}"
        if name in graph.steps:
            return name
        made = Step(
            stage=entry.name, run=record.run_id, key=entry.key, attempt=entry.attempt, status=entry.status,
            seconds=entry.seconds, metrics=entry.metrics,
        )  # fmt: skip
        params = params_of(record, entry.name) if params_of else {}
        if params:
            made.params, made.params_digest = flatten(params), digest_value(params)
        graph.runs.setdefault(record.run_id, facts_of(record))
        # Inputs first, so that steps stand in an order in which they could have run.
        inputs = [node(artifact, record.run_id) for artifact in entry.inputs]
        graph.steps[name] = made
        made.inputs = inputs
        part = RunRecord(run_id=record.run_id, stages=[entry])
        graph.faults += [fault for fault in find_faults(part) if fault not in graph.faults]
        return name

    for artifact in roots:
        item = node(artifact, prefer)
        if item not in graph.roots:
            graph.roots.append(item)
    whole = RunRecord(run_id="", stages=[_entry(graph, made) for made in graph.steps.values()])
    graph.faults += [fault for fault in find_faults(whole) if fault not in graph.faults]
    return graph


def _entry(graph: Graph, step: Step) -> StageRecord:
    def artifacts(items: Iterable[str]) -> list[Artifact]:
        chosen = (graph.nodes[item] for item in items)
        return [Artifact(name=n.name, path=n.path, digest=n.digest, kind=n.kind) for n in chosen]

    return StageRecord(name=step.stage, inputs=artifacts(step.inputs), outputs=artifacts(step.outputs))


def _output(entry: StageRecord, artifact: Artifact) -> Artifact:
    same = [made for made in entry.outputs if made.digest == artifact.digest]
    return next((made for made in same if made.path == artifact.path), same[0])


def _maker(artifact: Artifact, records: Sequence[RunRecord], near: str) -> tuple[RunRecord, StageRecord] | None:
    """The stage that made this content: really made in run `near`, else in the run that `near` took it from (known by
    the key), else in another; a record that only took it as it was comes last."""
    found: list[tuple[RunRecord, StageRecord]] = []
    told = ""
    for record in records:
        for entry in record.stages:
            made = any(a.digest == artifact.digest and a.path == artifact.path for a in entry.outputs)
            if made and entry.status in ("finished", "reused"):
                found.append((record, entry))
                if record.run_id == near and entry.status == "reused":
                    told = entry.key

    def rank(item: tuple[RunRecord, StageRecord]) -> tuple[bool, bool, bool]:
        record, entry = item
        return entry.status != "finished", bool(told) and entry.key != told, record.run_id != near

    return min(found, key=rank, default=None)


def facts_of(record: RunRecord) -> RunFacts:
    environment = dict(record.environment)
    image = environment.pop("image", "")
    return RunFacts(
        commit=record.commit, dirty=record.dirty, profile=record.profile, seed=record.seed, image=image,
        started=record.started, environment=environment,
    )  # fmt: skip


def find_artifacts(records: Iterable[RunRecord], text: str) -> list[Artifact]:
    """The artifacts whose digest begins with `text` (with or without `md5:`), each content once, newest first."""
    entries = [entry for record in records for entry in record.stages]
    found: dict[str, Artifact] = {}
    # Outputs first: they bear the name that the maker gave them.
    for artifact in [a for e in entries for a in e.outputs] + [a for e in entries for a in e.inputs]:
        bare = artifact.digest.rpartition(":")[2]
        if artifact.digest.startswith(text) or bare.startswith(text):
            found.setdefault(artifact.digest, artifact)
    return list(found.values())


def final_artifacts(record: RunRecord) -> list[Artifact]:
    """What a run made or took that no stage of it reads: the ends of its DAG."""
    read = {artifact.digest for entry in record.stages for artifact in entry.inputs}
    done = [entry for entry in record.stages if entry.status in ("finished", "reused")]
    return [artifact for entry in done for artifact in entry.outputs if artifact.digest not in read]


# As text.


def text_tree(graph: Graph, *, whole_params: bool = False) -> str:
    """The tree for a console: every artifact with its full digest and state, its maker below it, then the runs."""
    lines: list[str] = []
    seen: set[str] = set()

    def show(item: str, head: str, pad: str) -> None:
        node = graph.nodes[item]
        place = node.path or node.name
        mark = "" if node.state == "unchecked" else f"  {node.state}" + (f" ({node.note})" if node.note else "")
        if item in seen and node.maker:
            lines.append(f"{head}{node.word} {place}  {node.digest}{mark}, see above")
            return
        seen.add(item)
        lines.append(f"{head}{node.word} {place}  {node.digest}{mark}")
        if not node.maker:
            return
        step = graph.steps[node.maker]
        below = bool(step.inputs)
        lines.append(f"{pad}{'│  ' if below else '   '}{_said(step)}")
        if step.params:
            shown = _params(step, whole_params)
            lines.extend(f"{pad}{'│  ' if below else '   '}{line}" for line in shown)
        for at, child in enumerate(step.inputs, start=1):
            last = at == len(step.inputs)
            show(child, f"{pad}{'└─ ' if last else '├─ '}", f"{pad}{'   ' if last else '│  '}")

    for root in graph.roots:
        show(root, "", "")
        lines.append("")
    lines += [line for name, facts in graph.runs.items() for line in _run_lines(name, facts)]
    lines += [f"{'fault' if fault.severe else 'note'} ({fault.code}): {fault.text}" for fault in graph.faults]
    return "\n".join([*lines, summary_line(graph)])


def summary_line(graph: Graph) -> str:
    """`12 artifacts: 11 verified, 1 missing`."""
    states: tuple[State, ...] = ("verified", "missing", "different", "unchecked")
    counts = [f"{graph.count(state)} {state}" for state in states if graph.count(state)]
    return f"{len(graph.nodes)} artifacts: {', '.join(counts)}"


def _said(step: Step) -> str:
    parts = [f"made by {step.stage} in run {step.run}"]
    parts += [f"attempt {step.attempt}"] if step.attempt > 1 else []
    parts += [f"{step.seconds:.0f} s"] if step.seconds else []
    parts += [f"key {short(step.key)}"] if step.key else []
    return ", ".join(parts)


_WIDTH = 96
"""Characters of a line of parameters; the rest is counted."""


def _params(step: Step, whole: bool) -> list[str]:
    if whole:
        return [f"params {step.params_digest}", *(f"  {name}={value}" for name, value in sorted(step.params.items()))]
    own = step.stage.replace("-", "_").partition("_")[0]
    chosen = sorted(step.params.items(), key=lambda item: not item[0].startswith(own))
    line, shown = f"params {short(step.params_digest)}:", 0
    for name, value in chosen:
        said = f" {name}={value[:40]}"
        if len(line) + len(said) > _WIDTH:
            break
        line, shown = line + said, shown + 1
    rest = len(chosen) - shown
    return [line + (f" and {rest} more" if rest else "")]


def _run_lines(name: str, facts: RunFacts) -> list[str]:
    commit = (facts.commit or "unknown") + (" with uncommitted changes" if facts.dirty else "")
    head = f"run {name}: commit {commit}, profile {facts.profile or 'unknown'}, seed {facts.seed}"
    told = facts.environment
    versions = ", ".join(f"{key} {told[key]}" for key in ("python", "torch", "transformers", "cpu") if key in told)
    return [head, f"  image {facts.image or 'none'}; {versions or 'environment unknown'}"]
