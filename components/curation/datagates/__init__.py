"""Data gates: suites of declared rules that tasks, trajectories, corpora and score files must pass."""
