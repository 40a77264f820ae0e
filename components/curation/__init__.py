"""Trajectories to corpora: record checks, packing, masks, splits."""
