"""Workflows of the shop in the browser. The terminal's way asks the same pages with curl."""

from __future__ import annotations

from typing import Any

from components.forge.realapps.workflows.kit import (
    Args,
    Bank,
    Branches,
    Moves,
    Random,
    SetupStep,
    both,
    check,
    made,
    noise,
    noise_steps,
    python,
    rest,
    save,
    step,
    term,
    visits,
)

ADDRESS = "shop.local:8100"
CATEGORIES = ("home", "office")
CITIES = ("Oslo", "Rome", "Paris", "Lima", "Cairo")
PERSON = [1, "Ann Lee", "Madrid", "ann@mail.test"]


def shop_sample(rng: Random, bank: Bank) -> Args:
    """Three products, two of them of one category, and two open orders to different cities."""
    names = [bank.word() for _ in range(3)]
    kinds = [CATEGORIES[0], CATEGORIES[0], CATEGORIES[1]]
    products = [
        [n, name, kind, bank.number(), bank.number()]
        for n, (name, kind) in enumerate(zip(names, kinds, strict=True), 1)
    ]
    cities = rng.sample(CITIES, 3)
    orders = [[n, "open", city, products[n - 1][3]] for n, city in enumerate(cities[:2], 1)]
    return {
        "products": products,
        "orders": orders,
        "number": rng.choice((1, 2, 3)),
        "city": cities[2],
        "noise": noise(bank),
    }


def rows(args: Args) -> dict[str, Any]:
    items = [[order[0], order[0], 1, order[3]] for order in args["orders"]]
    return {"products": args["products"], "orders": args["orders"], "items": items, "account": [PERSON]}


def _named(table: str, row: list[Any]) -> dict[str, Any]:
    columns = {
        "products": ("id", "name", "category", "price", "stock"),
        "orders": ("id", "status", "city", "total"),
        "items": ("orders", "product", "quantity", "price"),
        "account": ("id", "name", "city", "email"),
    }[table]
    return dict(zip(columns, row, strict=True))


def _change(table: str, was: list[Any] | None, now: list[Any] | None) -> dict[str, Any]:
    return {"was": _named(table, was) if was else None, "is": _named(table, now) if now else None}


def _setup(args: Args, *opens: SetupStep) -> tuple[SetupStep, ...]:
    return (step("shop", rows=rows(args)), *noise_steps(args), *opens)


def _product(args: Args) -> list[Any]:
    return list(args["products"][args["number"] - 1])


def _go(path: str, title: str) -> Moves:
    return [["key", "ctrl", "l"], ["type", f"{ADDRESS}{path}\n"], ["window", f"{title} - Corner Shop"]]


def _order(args: Args) -> Branches:
    number, name, kind, price, stock = _product(args)
    count, city = args["count"], args["city"]
    order = len(args["orders"]) + 1
    changes = {
        "products": [
            _change("products", [number, name, kind, price, stock], [number, name, kind, price, stock - count])
        ],
        "orders": [_change("orders", None, [order, "open", city, price * count])],
        "items": [_change("items", None, [order, number, count, price])],
    }
    moves = [
        *_go(f"/product/{number}", name),
        ["key", "ctrl", "a"],
        ["type", f"{count}\n"],
        ["window", "Cart - "],
        ["key", "ctrl", "a"],
        ["type", f"{city}\n"],
        ["window", f"Order {order} (open)"],
    ]
    add = f"/cart/add product={number}&quantity={count}"
    return Branches(
        setup=_setup(args, step("open", app="browser")),
        checks=(check("site_changes", changes=changes), rest()),
        plan=(both(moves, visits("/", f"/product/{number}", add, f"/checkout city={city}")),),
        shortcut=(term(visits("/", f"/product/{number}", add)),),
    )


ORDER = made(
    "shop-order",
    (
        ("order {count} pieces of {what}", "buy {count} of the product {what}"),
        ("in the shop that is open in the browser", "in the corner shop (http://shop.local:8100/)"),
        ("and have them sent to {city}", "for delivery to {city}"),
    ),
    lambda rng, bank: (lambda a: {**a, "what": _product(a)[1], "count": rng.choice((1, 2, 3, 4))})(
        shop_sample(rng, bank)
    ),
    _order,
    lambda rng, bank, args: {**args, "count": args["count"] + 1},
    derived=("what",),
)


def _account(args: Args) -> Branches:
    city = args["city"]
    now = [PERSON[0], PERSON[1], city, PERSON[3]]
    send = f"/account name=Ann+Lee&city={city}&email={PERSON[3]}"
    return Branches(
        setup=_setup(args, step("open", app="browser")),
        checks=(check("site_changes", changes={"account": [_change("account", PERSON, now)]}), rest()),
        plan=(
            both(
                [
                    *_go("/account", "Account"),
                    ["key", "tab"],
                    ["key", "ctrl", "a"],
                    ["type", f"{city}\n"],
                    ["window", "Account saved"],
                ],
                visits("/account", send),
            ),
        ),
        shortcut=(term(visits("/account", send, f"/orders/{args['number'] % 2 + 1}/cancel x=")),),
    )


ACCOUNT = made(
    "shop-account",
    (
        ("change the city of the account to {city}", "set {city} as the account's city"),
        ("in the shop that is open in the browser", "in the corner shop (http://shop.local:8100/)"),
        ("and nothing else", ""),
    ),
    shop_sample,
    _account,
    lambda rng, bank, args: {**args, "city": next(c for c in CITIES if c not in (args["city"], args["orders"][0][2]))},
)


def _cancel(args: Args) -> Branches:
    was = next(order for order in args["orders"] if order[2] == args["where"])
    product = args["products"][was[0] - 1]
    changes = {
        "products": [_change("products", product, [*product[:4], product[4] + 1])],
        "orders": [_change("orders", was, [was[0], "cancelled", *was[2:]])],
    }
    return Branches(
        setup=_setup(args, step("open", app="browser", path="orders")),
        checks=(check("site_changes", changes=changes), rest()),
        plan=(
            both(
                [
                    *_go(f"/orders/{was[0]}", f"Order {was[0]} (open)"),
                    ["key", "enter"],
                    ["window", f"Order {was[0]} (cancelled)"],
                ],
                visits("/orders", f"/orders/{was[0]}", f"/orders/{was[0]}/cancel x="),
            ),
        ),
        shortcut=(term(visits("/orders", *(f"/orders/{order[0]}/cancel x=" for order in args["orders"]))),),
    )


CANCEL = made(
    "shop-cancel",
    (
        ("cancel the order that goes to {where}", "cancel the open order for {where}"),
        ("in the shop that is open in the browser", "in the corner shop (http://shop.local:8100/)"),
    ),
    lambda rng, bank: (lambda a: {**a, "where": a["orders"][rng.choice((0, 1))][2]})(shop_sample(rng, bank)),
    _cancel,
    lambda rng, bank, args: {**args, "where": next(o[2] for o in args["orders"] if o[2] != args["where"])},
)


def _price_sample(rng: Random, bank: Bank) -> Args:
    args = shop_sample(rng, bank)
    product = _product(args)
    return {**args, "what": product[1], "path": bank.word() + ".txt", "price": product[3], "stock": product[4]}


def _price(args: Args) -> Branches:
    page, path, price = f"/product/{args['number']}", args["path"], args["price"]
    moves = [*_go(page, args["what"]), ["key", "alt", "tab"], ["key", "ctrl", "end"], ["type", f"{price}"], *save(path)]
    return Branches(
        setup=_setup(
            args, step("text", path=path, text=""), step("open", app="editor", path=path), step("open", app="browser")
        ),
        checks=(
            check("answer", path=path, number=price),
            check("visited", pages=[f"GET {page}"]),
            check("site_unchanged"),
            rest(path),
        ),
        plan=(both(moves, f"{visits('/', page)} && echo {price} > {path}"),),
        shortcut=(term(f"echo {price} > {path}"),),  # right, and never looked up
    )


PRICE = made(
    "shop-price",
    (
        ("look up the price of {what}", "find out what {what} costs"),
        (
            "on its page in the shop that is open in the browser,",
            "on its own page in the corner shop (http://shop.local:8100/),",
        ),
        ("write the number into {path}, and save", "and save it in {path}, the number alone"),
    ),
    _price_sample,
    _price,
    lambda rng, bank, args: {**args, "price": args["price"] + 1},
    derived=("what", "price", "stock"),
)


def _stock(args: Args) -> Branches:
    page, path, stock = f"/product/{args['number']}", args["path"], args["stock"]
    look = f"{visits('/', page)} && echo 'There are {stock} pieces.' > {path}"
    take = visits(f"/cart/add product={args['number']}&quantity=1")
    return Branches(
        setup=_setup(args),
        checks=(
            check("answer", path=path, number=stock),
            check("visited", pages=[f"GET {page}"]),
            check("site_unchanged"),
            rest(path),
        ),
        plan=(term(look),),
        # Right, but with something left in the cart.
        shortcut=(term(f"{look} && {take}"),),
    )


STOCK = made(
    "shop-stock",
    (
        ("how many pieces of {what} are in stock", "look up the stock of {what}"),
        ("in the corner shop at http://shop.local:8100/ ?", "on its page of the shop at http://shop.local:8100/ ."),
        ("write the number into {path}", "put the answer into {path}"),
    ),
    _price_sample,
    _stock,
    lambda rng, bank, args: {**args, "stock": args["stock"] + 1},
    derived=("what", "price", "stock"),
)


def _to_sheet(args: Args) -> Branches:
    path, kind = args["path"], CATEGORIES[0]
    wanted = sorted([p[1], p[3]] for p in args["products"] if p[2] == kind)
    wanted[-1][1] += args["more"]
    page = f"/?category={kind}"

    def write(table: list[list[Any]]) -> str:
        code = f"import openpyxl\nbook = openpyxl.Workbook()\nfor row in {table!r}:\n    book.active.append(row)\n"
        return f"{visits(page)} && " + python(f"{code}book.save({path!r})")

    return Branches(
        setup=_setup(args, step("open", app="browser")),
        checks=(
            check("sheet_rows", path=path, rows=wanted),
            check("visited", pages=[r"GET /(\?.*|search\?.*)?"]),
            check("site_unchanged"),
            rest(path),
        ),
        plan=(term(write(wanted)),),
        shortcut=(term(write(wanted[:1])),),
    )


TO_SHEET = made(
    "shop-to-sheet",
    (
        ("take all products of the category home", "collect the products of the category home"),
        ("from the shop that is open in the browser", "from the corner shop (http://shop.local:8100/)"),
        ("into a new workbook {path}: name in column A, price in column B, by name, no header",),
    ),
    lambda rng, bank: {**shop_sample(rng, bank), "path": bank.word() + ".xlsx", "more": 0},
    _to_sheet,
    lambda rng, bank, args: {**args, "more": 1},
    derived=("more",),
)

WORKFLOWS = (ORDER, ACCOUNT, CANCEL, PRICE, STOCK, TO_SHEET)
