"""Runs, lineage, costs and the report. Stages use `events` only; nothing here imports mlflow at import time."""
