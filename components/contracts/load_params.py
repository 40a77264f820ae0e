"""Loading `params.yaml`: every mistake is found before any work, with its line, its dotted path and the nearest key.

The file is read by the declared type, not by guessing: `lr: 1e-3` is a number because `lr` is one, `name: 0012`
stays text because `name` is text, and `yes` is never a truth value. Values from a command line (`--set a.b=c`) go
through the same door.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from components.contracts.errors import ParamsError
from components.contracts.params import Params
from components.contracts.secrets import why_secret

_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


class BadValue(ValueError):
    """A value that does not fit its declared type. The text says what was expected."""


@dataclass(frozen=True)
class Problem:
    """One mistake: where (file and line, or the option), at which dotted key, and what is wrong."""

    where: str
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.key}: {self.text}" if self.key else f"{self.where}: {self.text}"


# Values by declared type.


def _plain_type(declared: Any) -> Any:
    """The type under `Annotated`."""
    while get_origin(declared) is Annotated:
        declared = get_args(declared)[0]
    return declared


def describe(declared: Any) -> str:
    """The declared type in words for people."""
    declared = _plain_type(declared)
    if get_origin(declared) is Literal:
        return "one of " + ", ".join(str(choice) for choice in get_args(declared))
    if get_origin(declared) in (tuple, list) or declared in (tuple, list):
        return "a list"
    if isinstance(declared, type) and issubclass(declared, BaseModel):
        return "a section"
    return _KINDS.get(declared, getattr(declared, "__name__", str(declared)))


def coerce_text(text: str, declared: Any) -> Any:
    """A value written as text (a plain YAML scalar, a command-line word) as its declared type.

    Raises BadValue. Lists and mappings are JSON; numbers are decimal; only true/false are truth values.
    """
    kind = _plain_type(declared)
    if get_origin(kind) in (Union, types.UnionType):
        return _first_fit(text, get_args(kind))
    if get_origin(kind) is Literal:
        return _choice(text, get_args(kind))
    if kind is str:
        return text
    if kind is bool:
        if text.strip().lower() in ("true", "false"):
            return text.strip().lower() == "true"
        raise BadValue(f"expected true or false, got {text!r}")
    if kind is int:
        if _INT.fullmatch(text.strip()):
            return int(text)
        raise BadValue(f"expected a whole number, got {text!r}")
    if kind is float:
        if _FLOAT.fullmatch(text.strip()) and math.isfinite(float(text)):
            return float(text)
        raise BadValue(f"expected a finite number, got {text!r}")
    if kind is type(None):
        if text.strip() in ("", "~", "null"):
            return None
        raise BadValue(f"expected null, got {text!r}")
    try:
        value = json.loads(text)
    except ValueError:
        raise BadValue(f"expected {describe(kind)} written as JSON, got {text!r}") from None
    return coerce_value(value, kind)


def coerce_value(value: Any, declared: Any) -> Any:
    """An already typed value (JSON, a form, a compiled file) as its declared type, exactly. Raises BadValue."""
    kind = _plain_type(declared)
    origin = get_origin(kind) or kind
    if origin in (Union, types.UnionType):
        return _first_fit(value, get_args(kind))
    if isinstance(value, str) and kind is not str:
        return coerce_text(value, kind)
    if origin is Literal:
        return _choice(value, get_args(kind))
    if origin in (list, tuple):
        if not isinstance(value, list | tuple):
            raise BadValue(f"expected a list, got {value!r}")
        inner = [argument for argument in get_args(kind) if argument is not Ellipsis]
        items = [coerce_value(item, inner[0]) for item in value] if inner else list(value)
        return tuple(items) if origin is tuple else items
    if origin is dict:
        if isinstance(value, dict):
            return value
        raise BadValue(f"expected a mapping, got {value!r}")
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if math.isfinite(value):
            return float(value)
        raise BadValue(f"expected a finite number, got {value!r}")
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind in (bool, str, type(None)) and isinstance(value, kind):
        return value
    raise BadValue(f"expected {describe(kind)}, got {value!r}")


def _refuse_secret(text: str) -> None:
    """Raises BadValue, which does not repeat the text, when it looks like a secret."""
    if reason := why_secret(text):
        raise BadValue(
            f"looks like a secret ({reason}). Parameters are written to dvc.lock, run records and MLflow; "
            "put it in an environment variable"
        )


def _choice(value: Any, choices: Sequence[Any]) -> Any:
    for choice in choices:
        if value == choice:
            return choice
    near = nearest(str(value), [str(choice) for choice in choices])
    raise BadValue(f"expected one of {', '.join(map(str, choices))}, got {value!r} (did you mean {near!r}?)")


def _first_fit(value: Any, kinds: Sequence[Any]) -> Any:
    problems = []
    for kind in kinds:
        try:
            return coerce_value(value, kind)
        except BadValue as problem:
            problems.append(str(problem))
    raise BadValue(problems[0])


# Keys.


def nearest(word: str, words: Sequence[str]) -> str:
    """The most similar of `words`; "" when there are none."""
    found = difflib.get_close_matches(word, words, n=1, cutoff=0.0)
    return found[0] if found else ""


def dotted_keys(schema: type[BaseModel], prefix: str = "") -> dict[str, Any]:
    """Every leaf of a schema: dotted key -> declared type (with its `Annotated` limits)."""
    leaves: dict[str, Any] = {}
    for name, field in schema.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            leaves |= dotted_keys(field.annotation, f"{prefix}{name}.")
        else:
            leaves[prefix + name] = field.annotation
    return leaves


def unknown_key(key: str, schema: type[BaseModel], missing: Sequence[str] = ()) -> str:
    """What to say about a dotted key that the schema does not have.

    The likeliest meaning first: a key of this section that is missing from the file, one spelled much like it, the
    same name in another section, then whatever is nearest.
    """
    leaves = list(dotted_keys(schema))
    names = sorted({".".join(k.split(".")[:depth]) for k in leaves for depth in range(1, k.count(".") + 2)})
    if key in names:
        return f"a section, not a value; its keys: {', '.join(k for k in leaves if k.startswith(key + '.'))}"
    head, _, leaf = key.rpartition(".")
    siblings = [name for name in names if name.rpartition(".")[0] == head]
    best = (
        difflib.get_close_matches(key, siblings, n=1, cutoff=0.8)
        or [nearest(key, missing)] * bool(missing)
        or [nearest(key, [k for k in leaves if k.rpartition(".")[2] == leaf])]
    )[0] or nearest(key, siblings or leaves)
    return f"unknown key; did you mean {best!r}?"


# Files.


def _compose(text: str, where: str) -> Any:
    import yaml

    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"{where}:{mark.line + 1}" if mark else where
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ParamsError(f"not YAML: {reason}", where=line, remedy="see the line named") from None


class _Reader:
    """Walks a YAML node tree beside a schema, gathering values and problems."""

    def __init__(self, schema: type[BaseModel], where: str) -> None:
        self.schema, self.where = schema, where
        self.problems: list[Problem] = []
        self.lines: dict[str, int] = {}

    def _say(self, node: Any, key: str, text: str) -> None:
        self.problems.append(Problem(f"{self.where}:{node.start_mark.line + 1}", key, text))

    def section(self, node: Any, schema: type[BaseModel], prefix: str) -> dict[str, Any]:
        import yaml

        name = prefix.rstrip(".") or "the file"
        if not isinstance(node, yaml.MappingNode):
            self._say(node, prefix.rstrip("."), f"{name} must be a mapping of keys to values")
            return {}
        found: dict[str, Any] = {}
        given = {str(key_node.value) for key_node, _ in node.value}
        missing = [key for key, field in schema.model_fields.items() if key not in given and field.is_required()]
        for key_node, value_node in node.value:
            key = str(key_node.value)
            dotted = prefix + key
            self.lines[dotted] = key_node.start_mark.line + 1
            if key not in schema.model_fields:
                self._say(key_node, dotted, unknown_key(dotted, self.schema, [prefix + name for name in missing]))
            elif key in found:
                self._say(key_node, dotted, "given twice")
            else:
                declared = schema.model_fields[key].annotation
                if isinstance(declared, type) and issubclass(declared, BaseModel):
                    found[key] = self.section(value_node, declared, dotted + ".")
                else:
                    found[key] = self.leaf(value_node, declared, dotted)
        if given <= set(schema.model_fields):  # else the unknown key is most likely the missing one, and says so
            for key in missing:
                self._say(node, prefix + key, f"missing; expected {describe(schema.model_fields[key].annotation)}")
        return found

    def leaf(self, node: Any, declared: Any, dotted: str) -> Any:
        try:
            return self._value(node, declared)
        except BadValue as problem:
            self._say(node, dotted, str(problem))
            return None

    def _value(self, node: Any, declared: Any) -> Any:
        import yaml

        kind = _plain_type(declared)
        if isinstance(node, yaml.ScalarNode):
            _refuse_secret(node.value)
            if node.style in ("'", '"', "|", ">"):
                if kind is str or get_origin(kind) is Literal:
                    return coerce_text(node.value, kind)
                raise BadValue(f"expected {describe(kind)}, got the text {node.value!r}; write it without quotes")
            if not node.value:
                raise BadValue(f"expected {describe(kind)}, got nothing")
            if (get_origin(kind) or kind) in (list, tuple, dict):
                raise BadValue(f"expected {describe(kind)}, got {node.value!r}")
            return coerce_text(node.value, kind)
        if isinstance(node, yaml.SequenceNode) and (get_origin(kind) or kind) in (list, tuple):
            inner = [argument for argument in get_args(kind) if argument is not Ellipsis] or [str]
            items = [self._value(item, inner[0]) for item in node.value]
            return tuple(items) if (get_origin(kind) or kind) is tuple else items
        shape = "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
        raise BadValue(f"expected {describe(kind)}, got {shape}")


def _fail(problems: Sequence[Problem], where: str) -> ParamsError:
    if len(problems) == 1:
        only = problems[0]
        return ParamsError(f"{only.key}: {only.text}" if only.key else only.text, where=only.where)
    lines = "\n".join(f"  {problem}" for problem in problems)
    return ParamsError(f"{len(problems)} mistakes, nothing was started:\n{lines}", where=where)


def _limits(error: ValidationError, lines: dict[str, int], where: str) -> Iterator[Problem]:
    for item in error.errors():
        dotted = ".".join(str(part) for part in item["loc"])
        line = lines.get(dotted)
        got = f", got {item['input']!r}" if not isinstance(item["input"], dict) else ""
        place = f"{where}:{line}" if line else where
        yield Problem(place, dotted, item["msg"].replace("Input should be", "must be") + got)


def parse_set(assignment: str, schema: type[BaseModel] = Params) -> tuple[str, Any]:
    """`rl.lr=1e-4` -> ("rl.lr", 0.0001), typed by the schema. Raises ParamsError."""
    key, sign, text = assignment.partition("=")
    key = key.strip()
    try:
        _refuse_secret(text if sign else assignment)
    except BadValue as problem:
        raise ParamsError(f"{key if sign else 'the value'}: {problem}", where="--set") from None
    where = f"--set {assignment}"
    if not sign or not key:
        raise ParamsError("expected key=value, e.g. rl.lr=1e-4", where=where)
    leaves = dotted_keys(schema)
    if key not in leaves:
        raise ParamsError(f"{key}: {unknown_key(key, schema)}", where=where)
    try:
        return key, coerce_text(text, leaves[key])
    except BadValue as problem:
        raise ParamsError(f"{key}: {problem}", where=where) from None


def load_text(text: str, where: str, overrides: Sequence[str] = ()) -> Params:
    """Typed parameters from YAML text. `where` names the file in messages. Raises ParamsError with every mistake."""
    node = _compose(text, where)
    if node is None:
        raise ParamsError("the file is empty", where=where, remedy="start from a profile of pipelines/profiles")
    reader = _Reader(Params, where)
    values = reader.section(node, Params, "")
    sets = [parse_set(item) for item in overrides]
    if reader.problems:
        raise _fail(reader.problems, where)
    for key, value in sets:
        section = values
        *heads, leaf = key.split(".")
        for head in heads:
            section = section.setdefault(head, {})
        section[leaf] = value
        reader.lines.pop(key, None)
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        raise _fail(list(_limits(error, reader.lines, where)), where) from None


def load_params(path: Path, overrides: Sequence[str] = ()) -> Params:
    """The recipe's parameters from a file. Raises ParamsError; no work has begun then."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ParamsError("no such file", where=path.name, remedy="run in the repository, or name a profile") from None
    except (UnicodeDecodeError, OSError) as error:
        raise ParamsError(f"cannot be read: {error}", where=path.name) from None
    return load_text(text, path.name, overrides)


# Changing a file in place.


def _node_at(node: Any, parts: Sequence[str]) -> Any:
    for part in parts:
        pairs = {str(key.value): value for key, value in getattr(node, "value", [])}
        if part not in pairs:
            return None
        node = pairs[part]
    return node


def write_scalar(value: Any) -> str:
    """A value as it is written in the file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value if re.fullmatch(r"[A-Za-z_][\w./@-]*", value) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(write_scalar(item) for item in value) + "]"
    return repr(value)


def edit_text(text: str, key: str, value: Any, where: str = "params.yaml") -> str:
    """The YAML text with one value replaced; comments and layout stay. Raises ParamsError when the key is not there."""
    node = _node_at(_compose(text, where), key.split("."))
    if node is None:
        raise ParamsError(f"{key}: not in the file", where=where, remedy=f"add a line for {key}, then set it")
    return text[: node.start_mark.index] + write_scalar(value) + text[node.end_mark.index :]


def set_values(text: str, sets: Sequence[str], where: str = "params.yaml") -> tuple[str, Params]:
    """The text with these `key=value`s set, and what it means. Raises ParamsError for what does not fit."""
    params = load_text(text, where, sets)
    for item in sets:
        key, value = parse_set(item)
        text = edit_text(text, key, value, where)
    return text, params
