"""The meter around paid model calls, against a real endpoint on loopback: the ledger is the provider's bill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.contracts.errors import BudgetError, ParamsError
from components.contracts.folding import ImagePart, Message, TextPart
from components.contracts.stage import NullSink
from components.rollout.chat import ChatEndpoint
from components.rollout.metering import EndpointError, PaidClient
from components.rollout.policy import Request
from components.rollout.workers import fork_map
from components.tracking.events import SpoolSink, list_spools, spool_path
from components.tracking.ledger import ModelUse, StageCost, run_costs
from components.tracking.meter import Caps, RunMeter, write_caps
from components.tracking.prices import ModelPrice, PriceTable
from pipelines.waiting import wait_until
from tests.unit.metering.chat_server import Provider, provider

PRICE = ModelPrice(
    **{
        "model": "priced",
        "from": date(2026, 1, 1),
        "input": 1e6,
        "cached_input": 5e5,
        "output": 2e6,
        "source": "a test",
    }
)  # type: ignore[arg-type]
"""USD 1 a token in, 0.50 a cached one, 2 a token out: `ask` of n words costs n - 1 + 10."""
TABLE = PriceTable((PRICE,))


def ask(text: str, noise: str = "") -> Request:
    return Request([Message("user", (TextPart(text),))], noise)


class Stage:
    """One attempt of a stage: its spool, meter, work directory, and a client on `base`."""

    def __init__(self, run_dir: Path, base: str, attempt: int = 1, model: str = "priced", **settings: Any) -> None:
        self.run_dir = run_dir
        self.sink = SpoolSink(spool_path(run_dir, "collect", attempt), pricer=TABLE.usd)
        self.sink.start("collect", attempt, "key")
        self.meter = RunMeter(run_dir, TABLE)
        self.client = PaidClient(
            ChatEndpoint(base, model, max_tokens=9),
            self.sink,
            self.meter,
            run_dir / "work",
            first_pause=0.01,
            **settings,
        )

    def answers(self, *texts: str, temperature: float = 0.0) -> list[str]:
        requests = [ask(text, f"n{k}") for k, text in enumerate(texts)]
        return [completion.text for completion in self.client.complete(requests, temperature)]


def cost_of(run_dir: Path) -> StageCost:
    (cost,) = run_costs(run_dir)
    return cost


def use_of(run_dir: Path, model: str = "priced") -> ModelUse:
    return cost_of(run_dir).models[model]


def billed(told: Provider) -> float:
    """The provider's own sum, in USD by the price above."""
    cached = 2 * len(told.bill)
    return told.total("prompt_tokens") - cached / 2 + 2 * told.total("completion_tokens")


def test_the_ledger_is_the_providers_bill(tmp_path: Path) -> None:
    with provider() as told:
        stage = Stage(tmp_path, told.base)
        assert stage.answers("one two", "three four five") == ["answer 1 to one two", "answer 1 to three four five"]
    use = use_of(tmp_path)
    assert (use.calls, use.tokens_in, use.tokens_out, use.cached_in) == (2, 5, 10, 4)
    assert use.usd == billed(told) == 23.0
    assert use.unsettled_calls == use.unpriced_calls == use.failed_calls == 0


def test_pictures_go_along_and_the_key_goes_into_the_header_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEACHER_API_KEY", "the-key-of-the-teacher-1")
    shot = np.zeros((4, 6, 3), np.uint8)
    with provider() as told:
        endpoint = ChatEndpoint(told.base, "priced", max_tokens=9, key_variable="TEACHER_API_KEY")
        request = Request([Message("user", (ImagePart(shot), TextPart("what is it")))])
        answer = endpoint.call(request, 0.0)
    assert answer.usage is not None and answer.usage.tokens_in == 53
    assert told.keys == ["Bearer the-key-of-the-teacher-1"]
    image = told.requests[0]["messages"][0]["content"][0]
    assert image["type"] == "image_url" and image["image_url"]["url"].startswith("data:image/png;base64,")


@pytest.mark.parametrize("base", ["ftp://x/v1", "http://me:pass@127.0.0.1/v1", "127.0.0.1"])
def test_an_address_with_a_password_or_without_http_is_refused(base: str) -> None:
    with pytest.raises(ParamsError):
        ChatEndpoint(base, "m", max_tokens=1)


def test_a_key_that_is_not_set_is_said_before_the_first_call() -> None:
    with pytest.raises(ParamsError, match="NO_SUCH_KEY is not set"):
        ChatEndpoint("http://127.0.0.1:1/v1", "m", max_tokens=1, key_variable="NO_SUCH_KEY")


def test_a_retry_counts_once_for_each_real_call(tmp_path: Path) -> None:
    with provider([429, 503]) as told:
        assert Stage(tmp_path, told.base, parallel=1).answers("one two") == ["answer 1 to one two"]
    use = use_of(tmp_path)
    assert (use.calls, use.failed_calls, use.tokens_in, use.usd) == (3, 2, 2, billed(told))
    assert len(told.requests) == 3


def test_a_call_that_nobody_knows_the_price_of_is_unknown_and_not_free(tmp_path: Path) -> None:
    with provider(["break"]) as told:
        Stage(tmp_path, told.base).answers("one two")
    use = use_of(tmp_path)
    assert (use.calls, use.failed_calls, use.unpriced_calls) == (2, 1, 1)
    assert use.usd == 11.0 and use.usd_or_none is None
    with provider(["no usage"]) as told:
        Stage(tmp_path / "b", told.base).answers("one two")
    assert use_of(tmp_path / "b").usd_or_none is None


def test_a_refusal_that_stays_is_not_tried_again_and_what_was_answered_is_kept(tmp_path: Path) -> None:
    with provider([400]) as told:
        stage = Stage(tmp_path, told.base, parallel=1)
        with pytest.raises(EndpointError, match="answered 400: try later"):
            stage.answers("one", "two")
        assert len(told.requests) <= 2
        served = len(told.bill)
        Stage(tmp_path, told.base, attempt=2, parallel=1).answers("one", "two")
        assert len(told.bill) == 2, "only what was not answered is asked again"
    assert use_of(tmp_path).cache_hits == served


def test_an_endpoint_that_is_not_there_costs_nothing_and_is_named(tmp_path: Path) -> None:
    with provider() as told:
        base = told.base
    with pytest.raises(EndpointError, match="no connection"):
        Stage(tmp_path, base, tries=2).answers("one")
    use = use_of(tmp_path)
    assert (use.calls, use.failed_calls, use.usd_or_none) == (2, 2, 0.0)


def test_a_resumed_stage_gets_its_answers_again_for_nothing(tmp_path: Path) -> None:
    with provider() as told:
        first = Stage(tmp_path, told.base).answers("one two", "three")
        again = Stage(tmp_path, told.base, attempt=2).answers("one two", "three", "four")
    assert again[:2] == first and len(told.requests) == 3
    use = use_of(tmp_path)
    assert (use.calls, use.cache_hits, use.usd) == (3, 2, billed(told))


def test_the_same_greedy_question_is_asked_once_and_sampled_ones_are_told_apart_by_their_noise(tmp_path: Path) -> None:
    with provider() as told:
        stage = Stage(tmp_path, told.base)
        stage.answers("one", "one")
        assert len(told.requests) == 1
        stage.answers("one", "one", temperature=0.7)
        assert len(told.requests) == 3
        stage.answers("one", "one", temperature=0.7)
        assert len(told.requests) == 3
    assert (use_of(tmp_path).calls, use_of(tmp_path).cache_hits) == (3, 3)


def test_an_answer_of_another_run_is_free_in_this_one(tmp_path: Path) -> None:
    """The work directory outlives a run whose other parameters changed."""
    with provider() as told:
        Stage(tmp_path / "first", told.base).answers("one two")
        (tmp_path / "second").mkdir()
        (tmp_path / "first" / "work").rename(tmp_path / "second" / "work")
        Stage(tmp_path / "second", told.base).answers("one two")
        assert len(told.requests) == 1
    assert (use_of(tmp_path / "second").calls, use_of(tmp_path / "second").usd) == (0, 0.0)
    assert use_of(tmp_path / "second").cache_hits == 1


def test_a_call_that_was_paid_but_not_written_down_is_written_down_by_the_next_attempt(tmp_path: Path) -> None:
    """Killed between the answer and its entry in the ledger: the journal has it, the spool its announcement."""
    with provider() as told:
        Stage(tmp_path, told.base).answers("one two")
        (spool,) = list_spools(tmp_path)
        lines = spool.path.read_text().splitlines(keepends=True)
        assert '"usd"' in lines[-1]
        spool.path.write_text("".join(lines[:-1]) + lines[-1][:20])  # and the entry itself torn
        assert (use_of(tmp_path).calls, use_of(tmp_path).unsettled_calls) == (0, 1)
        Stage(tmp_path, told.base, attempt=2).answers("one two")
    use = use_of(tmp_path)
    assert (use.calls, use.unsettled_calls, use.usd, use.cache_hits) == (1, 0, billed(told), 0)


# The cap.


def capped(run_dir: Path, **caps: float) -> None:
    run_dir.mkdir(parents=True, exist_ok=True)
    write_caps(run_dir, Caps(**caps))


def test_the_cap_stops_within_one_batch_and_goes_on_where_it_was_when_it_is_raised(tmp_path: Path) -> None:
    words = [f"w{k}" for k in range(20)]  # one word each: 1 - 1 + 10 = 10 USD
    capped(tmp_path, usd=35)
    with provider() as told:
        with pytest.raises(BudgetError, match="40.0000 USD, the cap is 35 USD") as caught:
            Stage(tmp_path, told.base, batch=4).answers(*words)
        assert caught.value.exit_code == 7
        assert len(told.bill) == 4
        with pytest.raises(BudgetError):
            Stage(tmp_path, told.base, attempt=2, batch=4).answers(*words)
        assert len(told.bill) == 4, "a cap that was not raised lets nothing begin"
        capped(tmp_path, usd=100)
        with pytest.raises(BudgetError):
            Stage(tmp_path, told.base, attempt=3, batch=4).answers(*words)
        assert 10 <= len(told.bill) <= 12
        capped(tmp_path)
        assert len(Stage(tmp_path, told.base, attempt=4, batch=4).answers(*words)) == 20
        assert len(told.bill) == len(told.requests) == 20, "nothing was paid twice"
    assert use_of(tmp_path).usd == billed(told)


def test_a_cap_in_tokens_counts_all_models(tmp_path: Path) -> None:
    capped(tmp_path, tokens=30)
    with provider() as told:
        free = SpoolSink(spool_path(tmp_path, "evaluate", 1))
        free.ledger("inference", model="local/x", calls=1, tokens_in=20, tokens_out=1)
        with pytest.raises(BudgetError, match="33 tokens, the cap is 30"):
            Stage(tmp_path, told.base, batch=1).answers(*"abcdef")
        assert len(told.bill) == 2


def test_under_a_cap_in_usd_a_model_without_a_price_is_refused_before_its_first_call(tmp_path: Path) -> None:
    capped(tmp_path, usd=5)
    with provider() as told:
        with pytest.raises(BudgetError, match="the price of mystery is not known"):
            Stage(tmp_path, told.base, model="mystery").answers("one")
        assert told.requests == []
    capped(tmp_path / "b", tokens=1000)
    with provider() as told:
        Stage(tmp_path / "b", told.base, model="mystery").answers("one")
    assert use_of(tmp_path / "b", "mystery").usd_or_none is None


def test_forked_workers_share_one_cap_and_keep_what_they_have(tmp_path: Path) -> None:
    capped(tmp_path, usd=45)
    words = [f"w{k}" for k in range(16)]
    with provider() as told:
        stage = Stage(tmp_path, told.base, batch=2)

        def part(mine: list[str]) -> list[str]:
            return stage.answers(*mine)

        with pytest.raises(BudgetError, match="the cap is 45 USD"):
            fork_map(part, words, 2)
        paid = len(told.bill)
        assert 5 <= paid <= 8, "one batch of each worker beyond the cap, at most"
        capped(tmp_path)
        stage = Stage(tmp_path, told.base, attempt=2, batch=2)
        assert fork_map(part, words, 2) == [f"answer 1 to {word}" for word in words]
        assert len(told.requests) == 16
    assert use_of(tmp_path).usd == billed(told)


SCRIPT = """
import sys
from pathlib import Path
from tests.unit.metering.test_paid_calls import Stage
stage = Stage(Path(sys.argv[1]), sys.argv[2], attempt=int(sys.argv[3]), batch=2, parallel=2)
print(len(stage.answers(*[f"w{k}" for k in range(8)])))
"""


def test_a_kill_in_the_middle_of_calls_loses_no_entry_and_doubles_none(tmp_path: Path) -> None:
    def start(attempt: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(tmp_path), told.base, str(attempt)], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": os.getcwd()},
        )  # fmt: skip

    with provider() as told:
        told.free = 3
        process = start(1)
        assert wait_until(lambda: len(told.requests) == 4 and len(told.bill) == 3, 60)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        told.gate.set()
        assert wait_until(lambda: len(told.bill) == len(told.requests), 60)
        lost = use_of(tmp_path).unsettled_calls
        assert lost >= 1, "the call that was under way is known to have no known end"
        process = start(2)
        assert process.communicate(timeout=120)[0] == "8\n"
    use = use_of(tmp_path)
    assert use.unsettled_calls == lost
    assert use.calls + lost == len(told.bill), "every call that the provider served is in the ledger, once"
    assert use.usd + 10 * lost == billed(told)


def test_a_stage_without_a_run_is_metered_into_nothing(tmp_path: Path) -> None:
    from components.contracts.stage import NullMeter

    with provider() as told:
        client = PaidClient(ChatEndpoint(told.base, "x", max_tokens=1), NullSink(), NullMeter(), tmp_path)
        assert client.complete([ask("one")], 0.0)[0].text == "answer 1 to one"
        client.close()
