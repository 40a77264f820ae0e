"""Self-contained sites for the browser of a desktop: served from outside the sandbox, reset to the byte."""
