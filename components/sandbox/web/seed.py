"""The shop's database as bytes: schema and rows from a plain specification, the same bytes for the same rows."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from components.contracts.errors import TaskError

SCHEMA = """
PRAGMA page_size = 4096;
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, category TEXT NOT NULL,
  price INTEGER NOT NULL CHECK (price >= 0), stock INTEGER NOT NULL CHECK (stock >= 0));
CREATE TABLE cart (product INTEGER PRIMARY KEY REFERENCES products, quantity INTEGER NOT NULL CHECK (quantity > 0));
CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT NOT NULL, city TEXT NOT NULL, total INTEGER NOT NULL);
CREATE TABLE items (orders INTEGER NOT NULL REFERENCES orders, product INTEGER NOT NULL REFERENCES products,
  quantity INTEGER NOT NULL, price INTEGER NOT NULL, PRIMARY KEY (orders, product));
CREATE TABLE account (id INTEGER PRIMARY KEY CHECK (id = 1), name TEXT NOT NULL, city TEXT NOT NULL,
  email TEXT NOT NULL);
"""
"""Prices and totals in whole dollars. One customer, who is signed in: every slot has a shop of its own."""

COLUMNS: dict[str, tuple[str, ...]] = {
    "products": ("id", "name", "category", "price", "stock"),
    "cart": ("product", "quantity"),
    "orders": ("id", "status", "city", "total"),
    "items": ("orders", "product", "quantity", "price"),
    "account": ("id", "name", "city", "email"),
}
"""Tables and their columns, in the order of the schema."""


def seed_bytes(rows: Mapping[str, Sequence[Sequence[Any]]]) -> bytes:
    """The database that holds `rows` (table -> rows). Raises `TaskError` for unknown tables and rows that don't fit."""
    unknown = sorted(set(rows) - set(COLUMNS))
    if unknown:
        raise TaskError(f"the shop has no table {unknown[0]!r}", where="shop", remedy=f"one of {sorted(COLUMNS)}")
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(SCHEMA)
        try:
            for table, columns in COLUMNS.items():
                marks = ", ".join("?" for _ in columns)
                database.executemany(f"INSERT INTO {table} VALUES ({marks})", [tuple(r) for r in rows.get(table, ())])
        except (sqlite3.Error, TypeError) as error:
            raise TaskError(f"the shop's rows do not fit: {error}", where="shop", remedy="see seed.py") from error
        database.commit()
        return database.serialize()


def digest(database: bytes) -> str:
    """Identity of a database's bytes."""
    return hashlib.sha256(database).hexdigest()
