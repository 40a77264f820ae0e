"""Modules, optimizers and random state as safetensors and JSON: no pickle, equal state gives equal bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contracts.errors import CheckpointError

if TYPE_CHECKING:
    import torch

    from components.training.optimizer import Optimizer

_MODEL = "model.safetensors"
_OPTIMIZER = "optimizer.safetensors"
_RNG = "rng.safetensors"
_STATE = "state.json"

HEADER_LIMIT = 100_000_000
"""Largest header the format allows, in bytes (safetensors format description)."""
_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8, "C64": 8,
}  # fmt: skip


# ------------------------------------------------------------------------------------------------- file check


@dataclass(frozen=True)
class SafetensorsReport:
    """`error` is "" or one of: file_missing, empty_file, header_cut, header_too_large, header_broken, file_cut,
    trailing_bytes, not_a_weight_file. `tensors` maps names to shapes."""

    accept: bool
    error: str = ""
    detail: str = ""
    tensors: dict[str, tuple[int, ...]] = field(default_factory=dict)


def safetensors_report(path: Path) -> SafetensorsReport:
    """Check a weight file by its header and length alone; reads no tensor data and never trusts a stated length.

    Layout: 8 bytes little-endian header length, JSON header, then the tensors end to end without gaps.
    """
    path = Path(path)
    if not path.is_file():
        return SafetensorsReport(False, "file_missing")
    size = path.stat().st_size
    if size == 0:
        return SafetensorsReport(False, "empty_file")
    with path.open("rb") as handle:
        lead = handle.read(9)
        if len(lead) >= 8 and all(32 <= b < 127 or b in (9, 10, 13) for b in lead[:8]):
            # eight printable characters would be a header of exabytes: a pointer file, a web page, a text
            return SafetensorsReport(False, "not_a_weight_file", f"begins with {lead[:8]!r}")
        if len(lead) < 9:
            return SafetensorsReport(False, "header_cut", f"{size} bytes in all")
        if lead[8:9] != b"{":
            return SafetensorsReport(False, "not_a_weight_file", "no JSON header at byte 8")
        length = int.from_bytes(lead[:8], "little")
        if length > HEADER_LIMIT:
            return SafetensorsReport(False, "header_too_large", f"header of {length} bytes stated")
        if length > size - 8:
            return SafetensorsReport(False, "header_cut", f"header of {length} bytes stated, {size - 8} there")
        handle.seek(8)
        header = handle.read(length)
    return _check_header(header, size - 8 - length)


def _check_header(header: bytes, data_bytes: int) -> SafetensorsReport:
    try:
        entries = json.loads(header, object_pairs_hook=_unique)
        entries.pop("__metadata__", None)
        spans: list[tuple[int, int]] = []
        tensors: dict[str, tuple[int, ...]] = {}
        for name, entry in entries.items():
            begin, end = entry["data_offsets"]
            shape = tuple(int(n) for n in entry["shape"])
            width = _BYTES.get(entry["dtype"])
            if min(shape, default=0) < 0 or not 0 <= begin <= end:
                raise ValueError(f"{name}: negative shape or reversed offsets")
            if width is not None and end - begin != width * math.prod(shape):
                raise ValueError(f"{name}: {end - begin} bytes for shape {shape} of {entry['dtype']}")
            tensors[name] = shape
            spans.append((begin, end))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return SafetensorsReport(False, "header_broken", str(error))
    place = 0
    for begin, end in sorted(spans):
        if begin != place:
            return SafetensorsReport(False, "header_broken", f"gap or overlap at byte {min(begin, place)}")
        place = end
    if data_bytes < place:
        return SafetensorsReport(False, "file_cut", f"{place} bytes of tensors stated, {data_bytes} there")
    if data_bytes > place:
        return SafetensorsReport(False, "trailing_bytes", f"{data_bytes - place} bytes after the last tensor")
    return SafetensorsReport(True, tensors=tensors)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name appears twice")
    return found


def safetensors_check(path: Path) -> dict[str, tuple[int, ...]]:
    """`safetensors_report` that raises CheckpointError naming the file."""
    report = safetensors_report(path)
    if not report.accept:
        raise CheckpointError(
            f"{report.error}: {report.detail or 'not usable'}",
            where=str(path),
            remedy="fetch or train the file again; nothing was overwritten",
        )
    return report.tensors


# -------------------------------------------------------------------------------------------- state of a training


def _split(value: Any, path: str, tensors: dict[str, Any]) -> Any:
    """JSON twin of a nested state: tensors move to `tensors` under their path; tuples and int keys survive."""
    import torch

    if isinstance(value, torch.Tensor):
        tensors[path] = value.detach().cpu().contiguous().clone()
        return {"tensor": path}
    if isinstance(value, Mapping):
        return {"map": [[k, _split(v, f"{path}.{k}", tensors)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_split(v, f"{path}.{i}", tensors) for i, v in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    raise CheckpointError(f"{path}: a {type(value).__name__} cannot be stored without pickle")


def _join(node: dict[str, Any], tensors: Mapping[str, Any]) -> Any:
    ((kind, body),) = node.items()
    if kind == "tensor":
        return tensors[body]
    if kind == "map":
        return {key: _join(child, tensors) for key, child in body}
    if kind in ("list", "tuple"):
        items = [_join(child, tensors) for child in body]
        return tuple(items) if kind == "tuple" else items
    return body


def _shared(state: Mapping[str, torch.Tensor]) -> tuple[dict[str, Any], dict[str, str]]:
    """One entry per storage, and for every further name of it (tied weights) the name it is stored under."""
    first: dict[tuple[Any, ...], str] = {}
    kept: dict[str, Any] = {}
    alias: dict[str, str] = {}
    for name, tensor in state.items():
        key = (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, tensor.device)
        if tensor.numel() and key in first:
            alias[name] = first[key]
            continue
        first[key] = name
        whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
        kept[name] = tensor.detach().cpu().contiguous() if whole else tensor.detach().cpu().clone().contiguous()
    return kept, alias


def save_state(
    folder: Path,
    *,
    model: torch.nn.Module | None = None,
    optimizer: Optimizer | None = None,
    extra: Mapping[str, Any] | None = None,
    rng: bool = True,
) -> None:
    """Write a training's state into `folder`: weights, optimizer, random state, and `extra` (nested plain values and
    tensors: scheduler state, data position, metric position). Tied weights are stored once and recorded."""
    import torch
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"alias": {}, "optimizer": None, "rng": None}
    loose: dict[str, Any] = {}
    if model is not None:
        weights, record["alias"] = _shared(model.state_dict())
        save_file(weights, folder / _MODEL, metadata={"format": "pt"})
    if optimizer is not None:
        record["optimizer"] = _split(optimizer.state_dict(), "optimizer", loose)
    record["extra"] = _split(dict(extra or {}), "extra", loose)
    save_file(loose, folder / _OPTIMIZER, metadata={"format": "pt"})
    if rng:
        states = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available():
            states |= {f"cuda{i}": s for i, s in enumerate(torch.cuda.get_rng_state_all())}
        save_file(states, folder / _RNG, metadata={"format": "pt"})
        record["rng"] = sorted(states)
    (folder / _STATE).write_text(json.dumps(record, sort_keys=True, separators=(",", ":")) + "\n")


def load_state(
    folder: Path, *, model: torch.nn.Module | None = None, optimizer: Optimizer | None = None
) -> dict[str, Any]:
    """Restore what `save_state` wrote, bit for bit, and return its `extra`. Every file is checked before any is used.

    Raises CheckpointError naming the file, or the tensors that are missing, unexpected or of another shape.
    """
    import torch
    from safetensors.torch import load_file

    folder = Path(folder)
    if not (folder / _STATE).is_file():
        raise CheckpointError(f"{_STATE} is missing", where=str(folder), remedy="not a training state")
    record = json.loads((folder / _STATE).read_text())
    needed = [_OPTIMIZER] + [_MODEL] * (model is not None) + [_RNG] * bool(record["rng"])
    for name in needed:
        safetensors_check(folder / name)
    loose = load_file(folder / _OPTIMIZER)
    if optimizer is not None and record["optimizer"] is None:
        raise CheckpointError("no optimizer state was saved", where=str(folder), remedy="resume with weights only")
    if model is not None:
        weights = load_file(folder / _MODEL)
        weights |= {name: weights[stored] for name, stored in record["alias"].items()}
        _load_weights(model, weights, str(folder / _MODEL))
    if optimizer is not None:
        optimizer.load_state_dict(_join(record["optimizer"], loose))
    if record["rng"]:
        states = load_file(folder / _RNG)
        torch.set_rng_state(states["cpu"])
        cuda = [states[name] for name in sorted(states, key=lambda n: (len(n), n)) if name != "cpu"]
        if cuda and torch.cuda.is_available() and torch.cuda.device_count() == len(cuda):
            torch.cuda.set_rng_state_all(cuda)
    return dict(_join(record["extra"], loose))


def _load_weights(model: torch.nn.Module, weights: Mapping[str, torch.Tensor], where: str) -> None:
    own = model.state_dict()
    problems = [f"{name} is missing" for name in own if name not in weights]
    problems += [f"{name} is not in the model" for name in weights if name not in own]
    problems += [
        f"{name} has shape {tuple(weights[name].shape)}, the model {tuple(own[name].shape)}"
        for name in own
        if name in weights and own[name].shape != weights[name].shape
    ]
    if problems:
        raise CheckpointError("; ".join(problems[:8]), where=where, remedy="the checkpoint is of another model")
    model.load_state_dict(dict(weights), strict=True)
