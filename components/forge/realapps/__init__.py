"""Tasks over real applications: workflows, preparers and verifiers for the backend `x11`."""
