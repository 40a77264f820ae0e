"""Failures, typed by the border they crossed.

A bad rollout is data, not a crash: a policy's bad tool call is a `CallError`, kept in the trajectory and
answered with text; an infrastructure failure is a `SandboxError` and gives reward `None` with a reason. Every
message says what happened, where, and what to do about it.
"""

from __future__ import annotations

from components.contracts.secrets import redact


class CoworkError(Exception):
    """Base of all product errors. `border` names the border crossed, `remedy` what the reader can do.

    What looks like a secret never gets into an error: its words go to logs, records and MLflow.
    """

    border = "internal"
    exit_code = 1

    def __init__(self, message: str, *, where: str = "", remedy: str = "") -> None:
        self.message, self.where, self.remedy = redact(message), redact(where), redact(remedy)
        super().__init__(self.message)

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text} ({self.remedy})" if self.remedy else text


class ParamsError(CoworkError):
    """A parameter is unknown, of the wrong type or out of range. Raised before any work starts."""

    border = "params"
    exit_code = 2


class TaskError(CoworkError):
    """A task, its setup or its files are malformed."""

    border = "task"


class SandboxError(CoworkError):
    """The desktop or the shell failed, not the agent. The episode's reward is `None`."""

    border = "sandbox"
    exit_code = 3


class PolicyError(CoworkError):
    """The model or its server failed, or was asked for something it cannot represent."""

    border = "policy"


class TeacherError(CoworkError):
    """The teacher could not continue an episode."""

    border = "teacher"


class VerifierError(CoworkError):
    """A verifier itself broke. It fails closed: the episode is not a success."""

    border = "verifier"


class DataError(CoworkError):
    """A record, shard or corpus breaks its contract."""

    border = "data"
    exit_code = 4


class CheckpointError(CoworkError):
    """A checkpoint is missing, half written or belongs to other data."""

    border = "checkpoint"
    exit_code = 5


class ClusterError(CoworkError):
    """Kubernetes, Argo or Kubeflow refused or lost something."""

    border = "cluster"


class OrchestrationError(CoworkError):
    """The run itself cannot go on: a lock is held, a stage failed, a tool is missing."""

    border = "orchestration"
    exit_code = 6


class BudgetError(CoworkError):
    """The run's spend cap is reached, or cannot be kept because a price is unknown. Nothing new was begun."""

    border = "budget"
    exit_code = 7


class CallError(CoworkError):
    """A response of the policy that cannot be executed. `code` is a stable short name, e.g. `missing_tool_call`.

    This is the policy's own zero: it is recorded, answered with text, and nothing reaches the desktop.
    """

    border = "policy"

    def __init__(self, code: str, message: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(message, where=where, remedy=remedy)
        self.code = code


class RefusedCall(CallError):
    """A call that a person, or a rule that stands for one, did not let through. Nothing reached the desktop.

    The model is told so as the answer of its tool. It is no error of the policy's: the response was fit to be executed.
    """

    def __init__(self, message: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__("refused", message, where=where, remedy=remedy)
