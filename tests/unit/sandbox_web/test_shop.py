"""The shop over real HTTP on loopback: pages, visits, records, reset to the byte, faults of customers and of seeds."""

from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from components.contracts.errors import SandboxError, TaskError, VerifierError
from components.sandbox.web.records import differences, missing_visits, tables
from components.sandbox.web.seed import digest, seed_bytes
from components.sandbox.web.site import MOST_VISITS, Site, SiteRecord

ROWS: dict[str, Any] = {
    "products": [[1, "Blue Lamp", "home", 30, 5], [2, "River Map", "office", 12, 9]],
    "orders": [[1, "open", "Rome", 30]],
    "items": [[1, 1, 1, 30]],
    "account": [[1, "Ann Lee", "Madrid", "ann@mail.test"]],
}


class Open:
    """A served shop, and a customer who asks it for pages."""

    def __init__(self) -> None:
        self.site = Site()
        self.seed = seed_bytes(ROWS)
        self.site.reset(self.seed)
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.site.serve(listener)

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.address + path, timeout=30) as answer:
            return str(answer.read().decode())

    def post(self, path: str, form: str | bytes) -> str:
        data = form.encode() if isinstance(form, str) else form
        with urllib.request.urlopen(self.address + path, data=data, timeout=30) as answer:
            return str(answer.read().decode())

    def status(self, path: str, form: bytes | None = None) -> int:
        try:
            with urllib.request.urlopen(self.address + path, data=form, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


@pytest.fixture
def shop() -> Iterator[Open]:
    opened = Open()
    yield opened
    opened.site.close()


def test_browsing_changes_no_byte_and_leaves_its_visits_in_order(shop: Open) -> None:
    assert "Blue Lamp" in shop.get("/") and "River Map" not in shop.get("/search?q=lamp")
    assert "$30" in shop.get("/product/1") and "Madrid" in shop.get("/account")
    shop.get("/style.css")
    record = shop.site.record()
    assert record.before == record.after == shop.seed
    seen = [f"{visit.method} {visit.path}" for visit in record.visits]
    assert seen == ["GET /", "GET /search?q=lamp", "GET /product/1", "GET /account"]
    assert missing_visits(record, ["GET /product/1", r"GET /orders/\d+"]) == [r"GET /orders/\d+"]


def test_an_order_is_recorded_with_its_item_and_stock_and_nothing_else(shop: Open) -> None:
    assert "Blue Lamp" in shop.post("/cart/add", "product=1&quantity=2")
    assert "Order 2" in shop.post("/checkout", "city=Oslo")
    lamp = {"id": 1, "name": "Blue Lamp", "category": "home", "price": 30}
    assert differences(shop.site.record()) == {
        "products": [{"was": {**lamp, "stock": 5}, "is": {**lamp, "stock": 3}}],
        "orders": [{"was": None, "is": {"id": 2, "status": "open", "city": "Oslo", "total": 60}}],
        "items": [{"was": None, "is": {"orders": 2, "product": 1, "quantity": 2, "price": 30}}],
    }


def test_a_cancelled_order_gives_its_pieces_back_once(shop: Open) -> None:
    shop.post("/orders/1/cancel", "")
    assert shop.status("/orders/1/cancel", b"") == 409
    changed = differences(shop.site.record())
    assert changed["orders"][0]["is"]["status"] == "cancelled" and changed["products"][0]["is"]["stock"] == 6


@pytest.mark.parametrize(
    ("path", "form", "status"),
    [
        ("/product/99", None, 404),
        ("/product/one", None, 400),
        ("/product/99999999999999999999", None, 400),
        ("/nowhere", None, 404),
        ("/cart/add", b"product=1&quantity=0", 400),
        ("/cart/add", b"product=1&quantity=-1", 400),
        ("/cart/add", b"product=1&quantity=6", 409),
        ("/cart/add", b"product=1&quantity=1e3", 400),
        ("/cart/add", b"", 400),
        ("/cart/add", b"\xff\xfe=\xff", 400),
        ("/checkout", b"city=Oslo", 409),
        ("/account", b"name=&city=&email=", 400),
        ("/account", b"name=a&city=b&email=nothing", 400),
        ("/account", b"name=a&city=b&email=" + b"x" * (1 << 17), 413),
        ("/orders/1%27%20OR%201=1", None, 400),
    ],
)
def test_what_a_customer_gets_wrong_is_refused_and_changes_nothing(
    shop: Open, path: str, form: bytes | None, status: int
) -> None:
    assert shop.status(path, form) == status
    assert shop.site.record().after == shop.seed


def test_text_of_a_customer_is_shown_as_text(shop: Open) -> None:
    page = shop.post("/account", "name=%3Cscript%3E&city=Rome&email=a%40b")
    assert "<script>" not in page and "&lt;script&gt;" in page


def test_a_reset_gives_the_seed_back_byte_for_byte_and_forgets_the_visits(shop: Open) -> None:
    shop.post("/cart/add", "product=2&quantity=1")
    assert digest(shop.site.record().after) != digest(shop.seed)
    shop.site.reset(shop.seed)
    record = shop.site.record()
    assert digest(record.after) == digest(shop.seed) and record.visits == ()
    assert "The cart is empty" in shop.get("/cart")


def test_a_site_whose_database_is_not_its_seed_is_not_ready(shop: Open) -> None:
    shop.site.check_ready()
    shop.post("/cart/add", "product=2&quantity=1")
    with pytest.raises(SandboxError, match="not ready"):
        shop.site.check_ready()


@pytest.mark.parametrize("seed", [b"", b"not a database", seed_bytes(ROWS)[:5000]])
def test_a_seed_that_is_no_whole_database_is_refused_at_the_reset(seed: bytes) -> None:
    with pytest.raises(SandboxError):
        Site().reset(seed)


def test_four_copies_of_one_seed_start_equal_and_do_not_see_each_other() -> None:
    shops = [Open() for _ in range(4)]
    try:
        assert len({digest(one.site.record().after) for one in shops}) == 1
        threads = [
            threading.Thread(target=one.post, args=("/cart/add", f"product=2&quantity={number}"))
            for number, one in enumerate(shops, 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        carts = [differences(one.site.record())["cart"] for one in shops]
        assert [[row["is"]["quantity"] for row in cart] for cart in carts] == [[1], [2], [3], [4]]
    finally:
        for one in shops:
            one.site.close()


def test_a_database_that_is_full_answers_and_keeps_what_it_had(shop: Open) -> None:
    shop.site._database.execute(f"PRAGMA max_page_count = {len(shop.seed) // 4096}")
    answers = set()
    for order in range(2, 400):
        answers.add(shop.status("/cart/add", b"product=2&quantity=1"))
        answers.add(shop.status("/checkout", b"city=" + b"y" * 80))
        answers.add(shop.status(f"/orders/{order}/cancel", b""))
        if 507 in answers:
            break
    assert 507 in answers and answers <= {200, 404, 409, 507}
    assert tables(shop.site.record().after)["account"] == tables(shop.seed)["account"]


def test_visits_are_counted_up_to_a_bound() -> None:
    site = Site()
    site.reset(seed_bytes(ROWS))
    for _ in range(MOST_VISITS + 10):
        with site._visit("GET", "/"):
            pass
    assert len(site.record().visits) == MOST_VISITS


def test_a_closed_site_answers_no_more_and_keeps_its_record(shop: Open) -> None:
    shop.get("/orders")
    shop.site.close()
    with pytest.raises(OSError):
        shop.get("/orders")
    assert [visit.path for visit in shop.site.record().visits] == ["/orders"]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_a_damaged_record_is_an_error_of_the_verifier_not_an_answer(damage: str) -> None:
    whole = seed_bytes(ROWS)
    after = {
        "cut": whole[: len(whole) // 2],
        "flipped": whole[:4096] + bytes(255 - byte for byte in whole[4096:]),
        "empty": b"",
        "other": b"x" * len(whole),
    }[damage]
    with pytest.raises(VerifierError):
        differences(SiteRecord((), whole, after))


@pytest.mark.parametrize(
    "rows", [{"nothing": [[1]]}, {"products": [[1]]}, {"products": [[1, "a", "b", -3, 1]]}, {"products": [1]}]
)
def test_a_specification_that_fits_no_table_is_refused(rows: dict[str, Any]) -> None:
    with pytest.raises(TaskError):
        seed_bytes(rows)


def test_equal_rows_give_equal_bytes() -> None:
    assert seed_bytes(ROWS) == seed_bytes({key: [list(row) for row in rows] for key, rows in ROWS.items()})
