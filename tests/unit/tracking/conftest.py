"""Fixtures of this folder."""

from tests.unit.tracking.store_fixtures import empty_store, memory, root

__all__ = ["empty_store", "memory", "root"]
