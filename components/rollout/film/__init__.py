"""Stored episodes as pictures: a strip, a GIF, a film."""
