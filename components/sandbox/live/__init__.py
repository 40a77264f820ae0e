"""A slot in the browser: its screen, what is done on it, and a way to take it over."""
