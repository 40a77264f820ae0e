"""Forms with files (RFC 7578), for the two requests of OSWorld's API that use them."""

from __future__ import annotations

from email.message import Message
from typing import Any


class BadRequest(ValueError):
    """A request that cannot be read; nothing was done."""


def multipart(content_type: str, body: bytes) -> dict[str, Any]:
    """Fields by name: texts, and bytes for `file_data` and whatever has a file name. Raises `BadRequest`."""
    header = Message()
    header["content-type"] = content_type
    boundary = header.get_param("boundary")
    if not isinstance(boundary, str) or not boundary:
        raise BadRequest("the form has no boundary")
    fields: dict[str, Any] = {}
    parts = (b"\r\n" + body).split(b"\r\n--" + boundary.encode("latin-1", "replace"))
    if len(parts) < 2 or not parts[-1].startswith(b"--"):
        raise BadRequest("the form breaks off")
    for part in parts[1:-1]:
        head, found, value = part.partition(b"\r\n\r\n")
        if not found:
            raise BadRequest("a part of the form has no head")
        name, file = _names(head)
        if name:
            fields[name] = value if file else value.decode("utf-8", "replace")
    return fields


def _names(head: bytes) -> tuple[str, bool]:
    """(name of the field, whether it is a file)."""
    for line in head.decode("utf-8", "replace").split("\r\n"):
        key, _, value = line.partition(":")
        if key.strip().lower() == "content-disposition":
            header = Message()
            header["content-disposition"] = value.strip()
            name = header.get_param("name", header="content-disposition")
            file = header.get_param("filename", header="content-disposition")
            return (name if isinstance(name, str) else ""), file is not None
    return "", False
