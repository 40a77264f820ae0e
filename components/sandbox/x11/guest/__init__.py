"""What runs inside a sandbox, under the system's python: the agent, and nothing of the host's packages."""
