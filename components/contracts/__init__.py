"""What crosses a border between components. Imports nothing else of ours."""
