"""What can be done in the shop: reads and changes of its database, no HTTP. A change happens whole or not at all."""

from __future__ import annotations

import sqlite3
from typing import Any

Row = dict[str, Any]

MOST = 99
"""Pieces of one product in a cart at most."""


class Refused(Exception):
    """What a customer asked for cannot be done; the text is for the customer. `status` is HTTP's."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Shop:
    """Over one open database. Not for several threads at once."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._db = database
        self._db.row_factory = sqlite3.Row

    def products(self, words: str = "", category: str = "") -> list[Row]:
        """By name; `words` must all be in the name, whatever the case."""
        found = self._all("SELECT * FROM products ORDER BY name")
        wanted = words.lower().split()
        return [
            row for row in found
            if all(word in row["name"].lower() for word in wanted) and category in ("", row["category"])
        ]  # fmt: skip

    def categories(self) -> list[str]:
        return [str(row["category"]) for row in self._all("SELECT DISTINCT category FROM products ORDER BY category")]

    def product(self, number: int) -> Row:
        return self._one("SELECT * FROM products WHERE id = ?", number, what="product")

    def cart(self) -> list[Row]:
        return self._all(
            "SELECT p.id, p.name, p.price, p.stock, c.quantity, p.price * c.quantity AS total "
            "FROM cart c JOIN products p ON p.id = c.product ORDER BY p.name"
        )

    def add(self, number: int, quantity: int) -> None:
        """Puts pieces of a product into the cart, on top of those that are there."""
        product = self.product(number)
        there = sum(row["quantity"] for row in self.cart() if row["id"] == number)
        if not 1 <= quantity <= MOST or there + quantity > MOST:
            raise Refused(f"Choose a quantity from 1 to {MOST}.")
        if there + quantity > product["stock"]:
            raise Refused(f"Only {product['stock']} of {product['name']} are in stock.", 409)
        with self._db:
            self._db.execute(
                "INSERT INTO cart VALUES (?, ?) "
                "ON CONFLICT (product) DO UPDATE SET quantity = quantity + excluded.quantity",
                (number, quantity),
            )

    def remove(self, number: int) -> None:
        """Takes a product out of the cart; nothing happens when it is not there."""
        with self._db:
            self._db.execute("DELETE FROM cart WHERE product = ?", (number,))

    def checkout(self, city: str) -> int:
        """Makes an order of what is in the cart and empties it; the order's number."""
        cart = self.cart()
        if not cart:
            raise Refused("The cart is empty.", 409)
        if not city.strip() or len(city) > 80:
            raise Refused("Say which city the order goes to.")
        short = [row["name"] for row in cart if row["quantity"] > row["stock"]]
        if short:
            raise Refused(f"Not enough in stock: {', '.join(short)}.", 409)
        with self._db:
            cursor = self._db.execute(
                "INSERT INTO orders (status, city, total) VALUES ('open', ?, ?)",
                (city.strip(), sum(row["total"] for row in cart)),
            )
            order = int(cursor.lastrowid or 0)
            for row in cart:
                self._db.execute(
                    "INSERT INTO items VALUES (?, ?, ?, ?)", (order, row["id"], row["quantity"], row["price"])
                )
                self._db.execute("UPDATE products SET stock = stock - ? WHERE id = ?", (row["quantity"], row["id"]))
            self._db.execute("DELETE FROM cart")
        return order

    def orders(self) -> list[Row]:
        return self._all("SELECT * FROM orders ORDER BY id")

    def order(self, number: int) -> Row:
        found = self._one("SELECT * FROM orders WHERE id = ?", number, what="order")
        found["items"] = self._all(
            "SELECT p.name, i.quantity, i.price FROM items i JOIN products p ON p.id = i.product "
            "WHERE i.orders = ? ORDER BY p.name", number,
        )  # fmt: skip
        return found

    def cancel(self, number: int) -> None:
        """Cancels an order that is still open; its pieces go back into stock."""
        if self.order(number)["status"] != "open":
            raise Refused("Only an open order can be cancelled.", 409)
        with self._db:
            self._db.execute("UPDATE orders SET status = 'cancelled' WHERE id = ?", (number,))
            for item in self._db.execute("SELECT product, quantity FROM items WHERE orders = ?", (number,)).fetchall():
                self._db.execute("UPDATE products SET stock = stock + ? WHERE id = ?", (item[1], item[0]))

    def account(self) -> Row:
        return self._one("SELECT * FROM account WHERE id = ?", 1, what="account")

    def change_account(self, name: str, city: str, email: str) -> None:
        values = [value.strip() for value in (name, city, email)]
        if not all(0 < len(value) <= 80 for value in values) or "@" not in values[2]:
            raise Refused("Name, city and a valid email address are needed.")
        with self._db:
            self._db.execute("UPDATE account SET name = ?, city = ?, email = ? WHERE id = 1", values)

    def _all(self, query: str, *values: object) -> list[Row]:
        return [dict(row) for row in self._db.execute(query, values)]

    def _one(self, query: str, number: int, *, what: str) -> Row:
        found = self._all(query, number)
        if not found:
            raise Refused(f"There is no {what} {number}.", 404)
        return found[0]
