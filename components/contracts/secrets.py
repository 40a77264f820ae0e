"""Secrets in text: known by their form, or because the environment holds them under a telling name.

Text leaves a run in four ways: event spools (and from there MLflow), logs, run records and error messages. All of them
pass `redact` or `scrub`. A parameter that looks like a secret is refused (`why_secret`): parameters are written to
`dvc.lock`, run records and MLflow, where a secret can never be called back.

A secret that has no known form and stands in no variable with a telling name cannot be recognised.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

HIDDEN = "[hidden]"
"""Stands where a secret stood."""

MIN_LENGTH = 6
"""Shorter values of the environment are not looked for: they would hide ordinary words."""


class _Form(NamedTuple):
    """How a kind of secret looks. `hints`: no text without one of them can hold it (most text has none: this is quick).
    What the group `keep` matches stays. Repetitions are bounded and begin at borders: a long line takes time in
    proportion to its length."""

    reason: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


_FORMS = (
    _Form(
        "a URL with a password",
        ("://",),
        re.compile(r"(?P<keep>(?<![\w+.-])[A-Za-z][\w+.-]{0,30}://)[^\s/@:\"'<>]{0,200}:[^\s/\"'<>]{1,500}(?=@)"),
    ),
    _Form(
        "a URL with a password",
        ("://",),
        re.compile(
            r"(?P<keep>(?<![\w+.-])[A-Za-z][\w+.-]{0,30}://)[^\s/@:\"'<>]{0,200}:(?!\d{1,5}[/?#])[^\s@\"'<>]{1,500}(?=@)"
        ),
    ),
    _Form(
        "a URL with a token",
        ("://",),
        re.compile(r"(?P<keep>(?<![\w+.-])[A-Za-z][\w+.-]{0,30}://)[^\s/@:\"'<>]{16,500}(?=@)"),
    ),
    _Form(
        "a private key",
        ("-----BEGIN ",),
        re.compile(
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)", re.DOTALL
        ),
    ),
    _Form("a JSON web token", ("eyJ",), re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*")),
    _Form(
        "an access key",
        ("_", "-", "AKIA", "ASIA", "AIza", "dapi"),
        re.compile(
            r"(?<![A-Za-z0-9])(?:"
            r"(?:AKIA|ASIA)[A-Z0-9]{12,}"  # Amazon
            r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{12,}"  # GitHub, GitLab
            r"|hf_[A-Za-z0-9]{16,}"  # Hugging Face
            r"|sk-(?=[\w-]{0,200}\d)[\w-]{8,}|sk_live_\w{8,}"  # OpenAI, Anthropic, Stripe
            r"|xox[abeoprs]-[\w-]{8,}|AIza[\w-]{20,}|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{20,}|dapi[0-9a-f]{20,}"
            r")"
        ),
    ),
    _Form(
        "a connection string",
        ("=",),
        re.compile(
            r"(?P<keep>\b(?:AccountKey|SharedAccessKey|SharedAccessSignature|Pwd|Password|PrimaryKey|SecretAccessKey)"
            r"\s*=\s*)(?!\[hidden\])[^\s;\"']{4,}",
            re.IGNORECASE,
        ),
    ),
    _Form(
        "a signed URL",
        ("=",),
        re.compile(r"(?P<keep>[?&](?:sig|X-Amz-Signature|X-Amz-Credential|Signature)=)[^\s&\"']{12,}", re.IGNORECASE),
    ),
    _Form(
        "a token",
        ("Bearer ", "Basic "),
        re.compile(r"(?P<keep>\b(?:Bearer|Basic)\s+)(?!\[hidden\])[A-Za-z0-9+/._~-]{12,}=*"),
    ),
    _Form(
        "a secret beside its name",
        ("=", ":"),
        re.compile(
            r"(?P<keep>(?<![A-Za-z])(?:api[_-]?key|access[_-]?key|account[_-]?key|secret(?:[_-]?\w{1,40})?|auth[_-]?token"
            r"|access[_-]?token|refresh[_-]?token|token|passwd|password|passphrase|credentials?)"
            r"[\"']?\s*[=:]\s*[\"']?)(?!\[hidden\])(?!(?:md5|sha\d+):)(?![\d.eE+-]{1,30}(?:[\s,;\"')}\]]|$))"
            r"[^\s,;\"'&)}\]]{8,}",
            re.IGNORECASE,
        ),
    ),
)
_RANDOM = re.compile(r"[A-Za-z0-9]{20,}")
_TELLING = {"SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "TOKEN", "APIKEY", "CREDENTIAL", "CREDENTIALS", "DSN", "SAS"}
_KEY_OF = {"API", "ACCESS", "ACCOUNT", "PRIVATE", "SECRET", "SIGNING", "ENCRYPTION", "AUTH", "STORAGE", "KEY", "SHARED"}
_PLACES = {"FILE", "PATH", "DIR", "SOCK", "FD", "ID"}
_SETTINGS = ("disabled", "enabled", "required", "optional")
_HASH = re.compile(r"(?:(?:md5|sha256|sha1|sha512):)?[0-9a-f]{32,}(?:\.dir)?")


@cache
def telling_name(name: str) -> bool:
    """Whether a variable of that name holds a secret: `HF_TOKEN`, `AWS_SECRET_ACCESS_KEY`, `DB_PASSWORD`..."""
    parts = [part for part in re.split(r"[^A-Z0-9]+", name.upper()) if part]
    if not parts or parts[-1] in _PLACES or name in ("PWD", "OLDPWD"):
        return False
    if set(parts) & _TELLING or "CONNECTION_STRING" in name.upper() or parts[-1] in ("PWD", "PASS"):
        return True
    return parts[-1] == "KEY" and bool(set(parts[:-1]) & _KEY_OF)


def secrets_of(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """value -> name of the environment's secrets, longest value first."""
    found: dict[str, str] = {}
    for name, value in (os.environ if environ is None else environ).items():
        if telling_name(name) and len(value) >= MIN_LENGTH and value.lower() not in _SETTINGS:
            if not (value.startswith(("/", "./")) and os.path.exists(value)):
                found[value] = name
        elif "://" in value and (password := _password(value)):
            found[password] = name
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def _password(url: str) -> str:
    """The password in a URL, "" when there is none long enough to look for."""
    match = re.match(r"[A-Za-z][\w+.-]*://[^\s/@:]*:([^\s/]+)@", url)
    return match[1] if match and len(match[1]) >= MIN_LENGTH else ""


def redact(text: str, known: Iterable[str] | None = None) -> str:
    """`text` with `HIDDEN` for everything in it that is or looks like a secret.

    `known` are values to look for; without it those of this process's environment.
    """
    if len(text) < MIN_LENGTH:
        return text
    for value in secrets_of() if known is None else known:
        if value in text:
            text = text.replace(value, HIDDEN)
    for form in _FORMS:
        if any(hint in text for hint in form.hints):
            text = form.pattern.sub(_hide, text)
    return text


def _hide(match: re.Match[str]) -> str:
    return (match.groupdict().get("keep") or "") + HIDDEN


def scrub(value: Any, known: Iterable[str] | None = None) -> Any:
    """Plain data (mappings, lists, text) with every text in it redacted. Digests stay whatever they spell."""
    known = list(secrets_of() if known is None else known)
    if isinstance(value, str):
        return value if _HASH.fullmatch(value) else redact(value, known)
    if isinstance(value, Mapping):
        return {key: scrub(inner, known) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [scrub(inner, known) for inner in value]
    return value


def why_secret(text: str) -> str:
    """Why a parameter's value must not be written down ("a URL with a password"), or "" when nothing speaks against it.

    Stricter than `redact`: a long random word is refused too. Lower-case hexadecimal is not: revisions and digests
    are parameters.
    """
    for value, name in secrets_of().items():
        if value in text:
            return f"the value of the environment variable {name}"
    for form in _FORMS:
        if form.pattern.search(text):
            return form.reason
    return "a random word like a key" if any(_random(word) for word in _RANDOM.findall(text)) else ""


def _random(word: str) -> bool:
    """Upper case, lower case and digits all through, as in keys; names of files and models are made of words."""
    kinds = [sum(letter.isupper() for letter in word), sum(letter.islower() for letter in word)]
    kinds.append(sum(letter.isdigit() for letter in word))
    changes = sum(_kind(a) != _kind(b) for a, b in zip(word, word[1:], strict=False))
    return min(kinds) >= 2 and changes >= len(word) // 4


def _kind(letter: str) -> int:
    return 0 if letter.isdigit() else 1 if letter.isupper() else 2
