"""A command line read as bash reads it, as far as needed to see which commands it runs and which files it writes.

Nothing is expanded: a word that the shell would change before use says so (`expands`). What cannot be read raises
`Unreadable`, and is never taken as harmless.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_OPERATORS = (
    "&>>", "<<<", "<<-", "&&", "||", "|&", ";;", "<<", ">>", ">|", "&>", ">&", "<&", "<>", ";", "&", "|", "(", ")", "<",
    ">", "\n",
)  # fmt: skip
_WRITES = (">", ">|", "&>", ">&", "<>")
_REDIRECTS = (*_WRITES, ">>", "&>>", "<", "<<<", "<<", "<<-", "<&")
_SKIPPED = frozenset("{ } ! if then else elif do while until time fi done esac coproc".split())
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=")


class Unreadable(Exception):
    """A quote or a bracket that is never closed, say."""


@dataclass
class Word:
    """`text` without quotes. `expands`: the shell puts something else in its place; `plain`: nothing was quoted."""

    text: str = ""
    expands: bool = False
    globs: bool = False
    plain: bool = True


@dataclass
class Simple:
    """One command. `writes`: files it creates or empties by redirection; `appends` those it adds to.

    `piped`: reads what another command prints; `reads`: files it reads by redirection; `given`: text of here-documents.
    """

    words: list[Word] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    writes: list[Word] = field(default_factory=list)
    appends: list[Word] = field(default_factory=list)
    reads: list[Word] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    piped: bool = False


@dataclass
class Line:
    """`inner` are command lines inside it: substitutions of any kind, wherever they stand."""

    commands: list[Simple]
    inner: list[str]


_Token = str | Word


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.tokens: list[_Token] = []
        self.inner: list[str] = []
        self.bodies: dict[int, str] = {}
        """Here-documents by the position of their operator in `tokens`."""
        self._word: Word | None = None
        self._waiting: list[tuple[int, bool]] = []

    def run(self) -> None:
        text = self.text
        while self.at < len(text):
            char = text[self.at]
            if char in " \t\r":
                self._end()
                self.at += 1
            elif char == "#" and self._word is None:
                self.at = len(text) if (end := text.find("\n", self.at)) < 0 else end
            elif char == "\\":
                if text[self.at + 1 : self.at + 2] != "\n":
                    self._add(text[self.at + 1 : self.at + 2], plain=False)
                self.at += 2
            elif char == "'":
                end = self._find("'", self.at + 1)
                self._add(text[self.at + 1 : end], plain=False)
                self.at = end + 1
            elif char == '"':
                self._double()
            elif char == "`":
                self._backticks()
            elif char == "$":
                self._dollar()
            elif text.startswith(("<(", ">("), self.at):
                self._inner(self.at + 2)
            elif (operator := next((o for o in _OPERATORS if text.startswith(o, self.at)), "")) != "":
                self._operator(operator)
            else:
                self._add(char, expands=char in "{", globs=char in "*?[")
                self.at += 1
        self._end()
        if self._waiting:
            self._documents()

    def _add(self, text: str, *, expands: bool = False, globs: bool = False, plain: bool = True) -> None:
        word = self._word = self._word or Word()
        word.text += text
        word.expands |= expands
        word.globs |= globs
        word.plain &= plain

    def _end(self) -> None:
        if self._word is not None:
            # `{` and `{}` alone are words of the grammar and of find, not lists of alternatives.
            if self._word.plain and self._word.text in ("{", "}", "{}"):
                self._word.expands = False
            self.tokens.append(self._word)
            self._word = None

    def _find(self, mark: str, start: int) -> int:
        end = self.text.find(mark, start)
        if end < 0:
            raise Unreadable(f"{mark} is never closed")
        return end

    def _double(self) -> None:
        self._add("", plain=False)
        self.at += 1
        while True:
            if self.at >= len(self.text):
                raise Unreadable('" is never closed')
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in tuple('"\\$`\n'):
                self._add(self.text[self.at + 1 : self.at + 2].replace("\n", ""), plain=False)
                self.at += 2
            elif char == "`":
                self._backticks()
            elif char == "$":
                self._dollar()
            else:
                self._add(char, plain=False)
                self.at += 1

    def _backticks(self) -> None:
        end = self.at + 1
        while (end := self._find("`", end)) and self.text[end - 1] == "\\":
            end += 1
        self.inner.append(self.text[self.at + 1 : end].replace("\\`", "`"))
        self._add("`", expands=True)
        self.at = end + 1

    def _dollar(self) -> None:
        if self.text.startswith("$(", self.at):
            self._inner(self.at + 2)
        else:
            name = re.match(r"\$(\w+|\{[^}]*\}|[*@#?!$-])", self.text[self.at :])
            found = name.group(0) if name else "$"
            if name and "(" in found:
                self.inner += re.findall(r"\$\((.*)\)", found) or [found.strip("${}")]  # ${x:-$(...)}
            # $'...' holds any character by its number.
            special = self.text[self.at + 1 : self.at + 2] in ("'", '"')
            self._add(found, expands=bool(name) or special)
            self.at += len(found)

    def _inner(self, start: int) -> None:
        """A substitution whose text begins at `start`, up to its closing bracket."""
        depth, at = 1, start
        while depth:
            if at >= len(self.text):
                raise Unreadable("( is never closed")
            char = self.text[at]
            if char == "\\":
                at += 1
            elif char == "'":
                at = self._find("'", at + 1)
            elif char == '"':
                at += 1
                while self.text[at : at + 1] != '"':
                    if at >= len(self.text):
                        raise Unreadable('" is never closed')
                    at += 2 if self.text[at] == "\\" else 1
            depth += (char == "(") - (char == ")")
            at += 1
        self.inner.append(self.text[start : at - 1])
        self._add("$()", expands=True)
        self.at = at

    def _operator(self, operator: str) -> None:
        if operator[0] in "<>" and self._word is not None and self._word.plain and self._word.text.isdigit():
            self._word = None  # the number of a descriptor
        self._end()
        self.tokens.append(operator)
        self.at += len(operator)
        if operator in ("<<", "<<-"):
            self._waiting.append((len(self.tokens) - 1, operator == "<<-"))
        elif operator == "\n" and self._waiting:
            self._documents()

    def _documents(self) -> None:
        """Bodies of the here-documents of the line that ended."""
        for place, indented in self._waiting:
            end = self.tokens[place + 1] if place + 1 < len(self.tokens) else None
            if not isinstance(end, Word):
                raise Unreadable("a here-document without its end mark")
            lines: list[str] = []
            while True:
                line, newline, _ = self.text[self.at :].partition("\n")
                self.at += len(line) + len(newline)
                if (line.lstrip("\t") if indented else line) == end.text:
                    break
                lines.append(line)
                if not newline:
                    break
            body = "\n".join(lines)
            self.bodies[place] = body
            if end.plain:  # substitutions in it are carried out
                for found in re.finditer(r"\$\(([^()]*)\)|`([^`]*)`", body):
                    self.inner.append(found.group(1) or found.group(2) or "")
        self._waiting.clear()


def read_line(text: str) -> Line:
    """All commands of a command line, in order. Raises `Unreadable`."""
    lexer = _Lexer(text)
    lexer.run()
    commands: list[Simple] = []
    now = Simple()
    place = 0

    def close(piped: bool) -> Simple:
        if now.words or now.variables or now.writes or now.appends:
            commands.append(now)
        return Simple(piped=piped)

    while place < len(lexer.tokens):
        token = lexer.tokens[place]
        place += 1
        if isinstance(token, Word):
            _take(now, token)
        elif token in _REDIRECTS:
            target = lexer.tokens[place] if place < len(lexer.tokens) else None
            if not isinstance(target, Word):
                raise Unreadable(f"{token} without a file")
            place += 1
            if token in ("<<", "<<-"):
                now.given.append(lexer.bodies.get(place - 2, ""))
            elif token == "<<<":
                now.given.append(target.text)
            elif token in (">>", "&>>"):
                now.appends.append(target)
            elif token == "<":
                now.reads.append(target)
            elif token in _WRITES and not (token == ">&" and re.fullmatch(r"\d+-?|-", target.text)):
                now.writes.append(target)
        else:
            now = close(token in ("|", "|&"))
    close(False)
    return Line(commands, lexer.inner)


def _take(command: Simple, word: Word) -> None:
    if not command.words:
        if word.plain and word.text in _SKIPPED:
            return
        name = _ASSIGNMENT.match(word.text)
        if name:
            command.variables.append(name.group(1))
            return
    if word.plain and word.text == "{" and command.words and command.words[0].text == "function":
        command.words.clear()  # what follows is run when the function is called
        return
    command.words.append(word)
