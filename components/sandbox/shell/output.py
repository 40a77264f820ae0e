"""A command's output, kept to a size: the beginning and the end stay, the middle is counted and dropped."""

from __future__ import annotations

import codecs


class CappedOutput:
    """Collects bytes of UTF-8 text and keeps at most `limit` characters of them, whatever arrives.

    Bytes that are not UTF-8 become U+FFFD. Memory is bounded by a few times `limit`.
    """

    def __init__(self, limit: int) -> None:
        self._head_limit = limit - limit // 2
        self._tail_limit = limit // 2
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._head = ""
        self._tail = ""
        self._length = 0

    def feed(self, data: bytes) -> None:
        self._add(self._decode(data))

    def _add(self, text: str) -> None:
        self._length += len(text)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += text[:room]
            text = text[room:]
        if text:
            self._tail = (self._tail + text)[-self._tail_limit :] if self._tail_limit else ""

    def finish(self) -> tuple[str, bool]:
        """(text, whether something was cut). The cut is marked where it is, with its size."""
        self._add(self._decode(b"", True))
        cut = self._length - len(self._head) - len(self._tail)
        if not cut:
            return self._head + self._tail, False
        return f"{self._head}\n[... {cut} characters cut ...]\n{self._tail}", True
