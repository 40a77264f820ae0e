"""A real, persistent, confined `bash` for an episode, and the host's safe way into its files."""

from components.sandbox.confine import Confinement, Probe, ShellLimits, detect
from components.sandbox.shell.files import (
    UnsafeFileError,
    list_files,
    read_file_nofollow,
    safe_open,
    write_file_nofollow,
)
from components.sandbox.shell.session import GUEST_LIBRARY, ShellResult, ShellSession

__all__ = [
    "GUEST_LIBRARY", "Confinement", "Probe", "ShellLimits", "ShellResult", "ShellSession", "UnsafeFileError", "detect",
    "list_files", "read_file_nofollow", "safe_open", "write_file_nofollow",
]  # fmt: skip
