"""Secrets are known by their form or by the environment, hidden where text leaves, and refused as parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contracts.errors import DataError, ParamsError
from components.contracts.load_params import load_text, parse_set
from components.contracts.secrets import HIDDEN, redact, scrub, secrets_of, telling_name, why_secret

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "params.yaml").read_text(encoding="utf-8")

SECRETS = {
    "postgresql://me:hunter2!@db.local/x": "hunter2!",
    "https://me:pa@ss@host/path": "pa@ss",
    "amqp://u:p/w@host": "p/w",
    "https://ghtoken0123456789abcdef@github.com/x.git": "ghtoken0123456789abcdef",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=Zm9vYmFy+/==;EndpointSuffix=x": "Zm9vYmFy",
    "Server=s;Uid=u;Pwd=hunter22;": "hunter22",
    "https://a.blob.core.windows.net/c?sv=1&sig=abcDEF123%2Fxyz456": "abcDEF123",
    "Authorization: Bearer abcdef0123456789": "abcdef0123456789",
    "AKIAIOSFODNN7EXAMPLE": "AKIAIOSFODNN7EXAMPLE",
    "the key is sk-proj-abc123DEF456": "sk-proj-abc123DEF456",
    "hf_abcdefghijklmnopqrstuv": "hf_abcdefghijklmnopqrstuv",
    "ghp_abcdefghijklmnop0123": "ghp_abcdefghijklmnop0123",
    "xoxb-123456789-abcdef": "xoxb-123456789-abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl": "eyJhbGciOiJIUzI1NiJ9",
    '{"api_key": "abcdefgh1234"}': "abcdefgh1234",
    "password = correct-horse": "correct-horse",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----": "MIIEabc",
}
HARMLESS = [
    "components/training/base", "microsoft/Mage-VL", "Qwen/Qwen3-VL-30B-A3B-Instruct-2507-FP8", "normalized_1000",
    "leave_one_out_population_std", "s3://bucket/folder", "http://127.0.0.1:8080/v1?who=a@b", "git@github.com:me/x.git",
    "token_cost: 0.0005", "tokens=1234567890", "max_new_tokens: 64", "sha256:" + "0a1b2c3d" * 8, "0a1b2c3d" * 5,
    "token: sha256:" + "0a1b2c3d" * 8, "a risk-adjusted-1234567 task-skip", "error: missing_tool_call", "",
]  # fmt: skip


@pytest.mark.parametrize("text", SECRETS, ids=range(len(SECRETS)))
def test_a_secret_is_known_by_its_form(text: str) -> None:
    hidden = redact(text, [])
    assert SECRETS[text] not in hidden and HIDDEN in hidden
    assert redact(hidden, []) == hidden
    assert why_secret(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact(text, []) == text and why_secret(text) == ""


def test_what_stands_around_a_secret_stays() -> None:
    said = "cannot reach postgresql://me:hunter22@db.local:5432/x after 3 tries"
    assert redact(said, []) == f"cannot reach postgresql://{HIDDEN}@db.local:5432/x after 3 tries"


@pytest.mark.parametrize(
    "unit", ["x", "x://", "a:", "sk-", "token", "eyJ", "-----BEGIN ", "secret_", "Bearer ", "@", "="]
)
def test_a_long_line_of_anything_is_read_in_good_time(unit: str) -> None:
    """Where time grew with the square of the length this would not end."""
    redact(unit * (100_000 // len(unit)), [])
    why_secret(unit * (50_000 // len(unit)))


@pytest.mark.parametrize(
    "name, telling",
    [
        ("HF_TOKEN", True), ("AWS_SECRET_ACCESS_KEY", True), ("OPENAI_API_KEY", True), ("DB_PASSWORD", True),
        ("AZURE_STORAGE_CONNECTION_STRING", True), ("MLFLOW_TRACKING_PASSWORD", True), ("SENTRY_DSN", True),
        ("PWD", False), ("OLDPWD", False), ("TOKENIZERS_PARALLELISM", False), ("SSH_AUTH_SOCK", False),
        ("API_TOKEN_FILE", False), ("AWS_ACCESS_KEY_ID", False), ("KEYBOARD", False), ("PATH", False),
    ],
)  # fmt: skip
def test_a_variable_is_known_by_its_name(name: str, telling: bool) -> None:
    assert telling_name(name) is telling


def test_secrets_of_the_environment_are_hidden_whatever_they_look_like(tmp_path: Path) -> None:
    env = {
        "MY_TOKEN": "plain words here", "DATABASE_URL": "postgresql://me:s3cret@db/x", "SHORT_TOKEN": "abc",
        "CREDENTIALS": str(tmp_path), "HOME": "/root",
    }  # fmt: skip
    assert secrets_of(env) == {"plain words here": "MY_TOKEN", "s3cret": "DATABASE_URL"}
    assert redact("it said plain words here and s3cret", secrets_of(env)) == f"it said {HIDDEN} and {HIDDEN}"


def test_plain_data_is_scrubbed_through_and_digests_are_left_alone() -> None:
    digest = "md5:" + "12345678" * 4 + ".dir"
    given = {"a": ["x 12345678", 3, None], "digest": digest, "b": {"c": ("y",)}}
    assert scrub(given, ["12345678"]) == {"a": [f"x {HIDDEN}", 3, None], "digest": digest, "b": {"c": ["y"]}}


def test_an_error_does_not_repeat_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "canary-in-the-mine")
    error = DataError(
        "canary-in-the-mine was sent", where="https://me:hunter22@host/x", remedy="use canary-in-the-mine"
    )
    for said in (str(error), repr(error), error.message, error.where, error.remedy, str(error.args)):
        assert "canary" not in said and "hunter22" not in said


@pytest.mark.parametrize("secret", [*list(SECRETS)[:4], "sk-canary-0123456789", "aB3dE5fG7hI9jK1lM3nO5pQ7"])
@pytest.mark.parametrize("quote", ['"', ""])
def test_a_parameter_that_looks_like_a_secret_is_refused_with_the_reason_and_never_repeated(
    secret: str, quote: str
) -> None:
    text = TEXT.replace("base: components/training/base", f"base: {quote}{secret}{quote}")
    with pytest.raises(ParamsError, match="model.base: looks like a secret.*environment variable") as caught:
        load_text(text, "params.yaml")
    assert secret not in str(caught.value) and "params.yaml:9" in str(caught.value)


def test_it_is_refused_on_the_command_line_in_lists_and_where_a_number_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("model.base", "rl.lr", "no.such.key"):
        with pytest.raises(ParamsError, match="looks like a secret") as caught:
            parse_set(f"{key}=https://me:hunter22@host/x")
        assert "hunter22" not in str(caught.value)
    with pytest.raises(ParamsError, match="harness.routes: looks like a secret"):
        load_text(TEXT.replace("routes: [gui,", "routes: [ghp_abcdefghijklmnop0123,"), "params.yaml")
    monkeypatch.setenv("MY_TOKEN", "quite harmless")
    with pytest.raises(ParamsError, match="the value of the environment variable MY_TOKEN"):
        parse_set("model.base=quite harmless")
