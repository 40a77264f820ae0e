"""The shop's pages: routes and forms around `shop.Shop`. Server-rendered, no script, nothing from elsewhere."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from components.sandbox.web.shop import Refused, Shop

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_TEMPLATES = Path(__file__).parent / "templates"
_FORM_LIMIT = 1 << 16
"""Bytes of a form at most."""
_HIGHEST = 2**31
UNSEEN = ("/style.css", "/favicon.ico")
"""What a browser fetches by itself: no visit of a page."""

Handler = Callable[["Request"], Awaitable["Response"]]


def make_app(visit: Callable[[str, str], AbstractContextManager[Shop]]) -> Starlette:
    """The application. `visit(method, path with query)` hears of every page asked for and gives the shop to answer it
    from: nobody else may use that one's database while the context is open."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse
    from starlette.routing import Route

    pages = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip

    def page(name: str, status: int = 200, /, **values: Any) -> Response:
        return HTMLResponse(pages.get_template(name).render(**values), status, headers={"Cache-Control": "no-store"})

    def to(path: str) -> Response:
        return RedirectResponse(path, 303)

    def route(path: str, method: str, answer: Callable[[Shop, Request, dict[str, str]], Response]) -> Route:
        async def handler(request: Request) -> Response:
            target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            try:
                values = await _form(request) if method == "POST" else dict(request.query_params)
                with visit(method, target) as shop:
                    return answer(shop, request, values)
            except Refused as refused:
                return page("message.html", refused.status, message=str(refused))
            except sqlite3.OperationalError:  # the database has reached its size
                return page("message.html", 507, message="The shop cannot store any more.")

        handler.__name__ = f"{method.lower()} {path}"
        return Route(path, handler, methods=[method])

    def listing(shop: Shop, request: Request, values: dict[str, str]) -> Response:
        words, category = values.get("q", ""), values.get("category", "")
        return page("products.html", products=shop.products(words, category), words=words, category=category,
                    categories=shop.categories())  # fmt: skip

    def product(shop: Shop, request: Request, values: dict[str, str]) -> Response:
        return page("product.html", product=shop.product(_number(request.path_params["number"])))

    def add(shop: Shop, request: Request, values: dict[str, str]) -> Response:
        shop.add(_number(values.get("product", "")), _number(values.get("quantity", "1")))
        return to("/cart")

    def remove(shop: Shop, request: Request, values: dict[str, str]) -> Response:
        shop.remove(_number(values.get("product", "")))
        return to("/cart")

    def cart(shop: Shop, request: Request, values: dict[str, str]) -> Response:
        rows = shop.cart()
        return page("cart.html", rows=rows, total=sum(r["total"] for r in rows), city=shop.account()["city"])

    def checkout(shop: Shop, request: Request, values: dict[str, str]) -> Response:
        return to(f"/orders/{shop.checkout(values.get('city', ''))}")

    def orders(shop: Shop, request: Request, values: dict[str, str]) -> Response:
        return page("orders.html", orders=shop.orders())

    def order(shop: Shop, request: Request, values: dict[str, str]) -> Response:
        return page("order.html", order=shop.order(_number(request.path_params["number"])))

    def cancel(shop: Shop, request: Request, values: dict[str, str]) -> Response:
        number = _number(request.path_params["number"])
        shop.cancel(number)
        return to(f"/orders/{number}")

    def account(shop: Shop, request: Request, values: dict[str, str]) -> Response:
        return page("account.html", account=shop.account(), saved="saved" in values)

    def change(shop: Shop, request: Request, values: dict[str, str]) -> Response:
        shop.change_account(*(values.get(key, "") for key in ("name", "city", "email")))
        return to("/account?saved=1")

    async def style(request: Request) -> Response:
        return PlainTextResponse((_TEMPLATES / "style.css").read_text(), media_type="text/css")

    async def nothing(request: Request) -> Response:
        return PlainTextResponse("", 404)

    return Starlette(
        routes=[
            Route(UNSEEN[0], style), Route(UNSEEN[1], nothing),
            route("/", "GET", listing), route("/search", "GET", listing),
            route("/product/{number}", "GET", product),
            route("/cart", "GET", cart), route("/cart/add", "POST", add), route("/cart/remove", "POST", remove),
            route("/checkout", "POST", checkout),
            route("/orders", "GET", orders), route("/orders/{number}", "GET", order),
            route("/orders/{number}/cancel", "POST", cancel),
            route("/account", "GET", account), route("/account", "POST", change),
        ]
    )  # fmt: skip


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form, the last value of each. Raises `Refused` when it is too large or no text."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _FORM_LIMIT:
            raise Refused("The form is too large.", 413)
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=100)
    except ValueError as error:
        raise Refused("The form cannot be read.") from error
    return {key: values[-1] for key, values in fields.items()}


def _number(text: str) -> int:
    """A whole number as a customer gives it: digits alone."""
    if not (text.isascii() and text.isdigit() and int(text[:12]) < _HIGHEST and len(text) <= 12):
        raise Refused("That is no number.")
    return int(text)
