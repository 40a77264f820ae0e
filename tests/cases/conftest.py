"""Fixtures that cases share with the unit tests of what they ask."""

from tests.unit.tracking.store_fixtures import empty_store, memory, root

__all__ = ["empty_store", "memory", "root"]
