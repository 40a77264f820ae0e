"""Plain .xlsx workbooks without any library: an archive (zip) of which one part, the sheet, is read and rewritten.

Plain means: nothing but what is listed here, in the archive, in the sheet and in each cell. Anything else is
`NotPlain`, and left to a library that knows all of the format. What is not changed is copied as it is.
Sources: ECMA-376 part 1 (SpreadsheetML, 18.3), APPNOTE.TXT 6.3.3 (zip).
"""

import pyexpat
import zlib

SHEET = "xl/worksheets/sheet1.xml"
STRINGS = "xl/sharedStrings.xml"
STYLES = "xl/styles.xml"
PARTS = {
    SHEET, STRINGS, "[Content_Types].xml", "_rels/.rels", "docProps/app.xml", "docProps/core.xml", "xl/workbook.xml",
    "xl/_rels/workbook.xml.rels", STYLES, "xl/theme/theme1.xml",
}  # fmt: skip
AROUND = {
    "worksheet", "sheetPr", "outlinePr", "pageSetUpPr", "dimension", "sheetViews", "sheetView", "selection",
    "sheetFormatPr", "cols", "col", "sheetData", "pageMargins",
}  # fmt: skip
INSIDE = {"row", "c", "v", "is", "t"}
LARGEST = 4 << 20


class NotPlain(Exception):
    """There is something here that this module does not know."""


def open_plain(data, as_text, as_value):
    """(rows of texts, function(path, rows) that writes) of a plain workbook's bytes, else `NotPlain`."""
    parts = read_zip(data)
    if SHEET not in parts or not PARTS.issuperset(parts):
        raise NotPlain
    sheet = unpacked(parts[SHEET])
    styles = unpacked(parts[STYLES]) if STYLES in parts else b""
    if styles.count(b'numFmtId="') != styles.count(b'numFmtId="0"'):  # numbers may be dates
        raise NotPlain
    strings = read_strings(unpacked(parts[STRINGS])) if STRINGS in parts else []
    cells = read_cells(sheet, strings)  # (row, column) -> (value, XML of the cell after its reference)
    texts = {place: as_text(value) for place, (value, _) in cells.items()}
    rows = [[] for _ in range(max((row for row, _ in texts), default=-1) + 1)]
    for (row, column), text in sorted(texts.items()):
        rows[row] += [""] * (column - len(rows[row])) + [text]

    def write(path, new_rows):
        lines = []
        for row, new_texts in enumerate(new_rows):
            line = []
            for column, text in enumerate(new_texts):
                if text == texts.get((row, column), ""):
                    xml = cells[row, column][1] if (row, column) in cells else None
                else:
                    xml = cell_xml(as_value(text))
                if xml:
                    line.append(f'<c r="{letters(column)}{row + 1}"{xml}</c>')
            if line:
                lines.append(f'<row r="{row + 1}">{"".join(line)}</row>')
        parts[SHEET] = packed(replace_data(sheet, "".join(lines), new_rows))
        with open(path, "wb") as file:
            file.write(write_zip(parts))

    return rows, write


def read_cells(sheet, strings):
    """The cells of a sheet's XML, refusing all that is not a plain value."""
    cells = {}
    stack = []
    kind = place = None
    pieces = []

    def start(name, attributes):
        nonlocal kind, place, pieces
        inside = "sheetData" in stack
        stack.append(name)
        if name not in (INSIDE if inside else AROUND):
            raise NotPlain
        if name == "row" and not {"r", "spans"}.issuperset(attributes):
            raise NotPlain
        if name == "c":
            kind = attributes.pop("t", "n")
            place = parse_reference(attributes.pop("r", ""))
            if attributes.pop("s", "0") != "0" or attributes or kind not in ("n", "s", "inlineStr", "b", "str"):
                raise NotPlain
            pieces = []
        if name == "t" and stack[-2] != "is":
            raise NotPlain

    def text(data):
        if stack[-1] in ("v", "t"):
            pieces.append(data)

    def end(name):
        stack.pop()
        if name == "c" and pieces:
            cells[place] = read_value(kind, "".join(pieces), strings)

    parse(sheet, start, text, end)
    return cells


def read_value(kind, text, strings):
    """(value, XML of the cell after its reference)."""
    if kind == "inlineStr":
        return text, string_xml(text)
    xml = f' t="{kind}"><v>{escape(text)}</v>'
    if kind == "s":
        return strings[int(text) if text.isdecimal() else len(strings)], xml
    if kind == "b":
        return text == "1", xml
    if kind == "str":
        return text, xml
    return (float(text) if any(mark in text for mark in ".eE") else int(text)), xml


def read_strings(data):
    """The shared strings, by number. Phonetic hints and formatted runs are not plain."""
    strings = []
    stack = []

    def start(name, _attributes):
        stack.append(name)
        if name not in ("sst", "si", "t"):
            raise NotPlain
        if name == "si":
            strings.append("")

    def text(data):
        if stack[-1] == "t":
            strings[-1] += data

    parse(data, start, text, lambda _name: stack.pop())
    return strings


def parse(data, start, text, end):
    parser = pyexpat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.CharacterDataHandler, parser.EndElementHandler = start, text, end
    declared, _, _ = data.partition(b"?>") if data.startswith(b"<?xml") else (b"", b"", b"")
    if b"<!" in data or (b"encoding" in declared and b"utf-8" not in declared.lower()):
        raise NotPlain  # comments, CDATA, other encodings: no usual writer of workbooks makes them
    try:
        parser.Parse(data, True)
    except (pyexpat.ExpatError, ValueError, IndexError):
        raise NotPlain from None


def replace_data(sheet, lines, rows):
    """The sheet's XML with other rows, and with their extent."""
    width = max(map(len, rows), default=0)
    begin = sheet.index(b"<sheetData")
    finish = sheet.find(b"</sheetData>")
    finish = finish + len(b"</sheetData>") if finish >= 0 else sheet.index(b"/>", begin) + 2
    head, tail = sheet[:begin], sheet[finish:]
    start = head.find(b"<dimension")
    if start >= 0:
        extent = f'<dimension ref="A1:{letters(max(width, 1) - 1)}{max(len(rows), 1)}"/>'
        head = head[:start] + extent.encode() + head[head.index(b"/>", start) + 2 :]
    return head + f"<sheetData>{lines}</sheetData>".encode() + tail


def cell_xml(value):
    if value is None:
        return None
    return string_xml(value) if isinstance(value, str) else f' t="n"><v>{value}</v>'


def string_xml(text):
    return f' t="inlineStr"><is><t xml:space="preserve">{escape(text)}</t></is>'


def escape(text):
    if any(mark < " " and mark not in "\t\n\r" or "\ud800" <= mark <= "\udfff" or mark in "\ufffe\uffff"
           for mark in text):  # fmt: skip
        raise ValueError("the workbook cannot hold this value there")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")


def parse_reference(text):
    """B3 -> (2, 1)."""
    name = text.rstrip("0123456789")
    number = text[len(name) :]
    if not (1 <= len(name) <= 2 and name.isascii() and name.isalpha() and name.isupper() and 1 <= len(number) <= 5):
        raise NotPlain
    column = 0
    for letter in name:
        column = column * 26 + ord(letter) - 64
    return int(number) - 1, column - 1


def letters(column):
    return chr(65 + column) if column < 26 else chr(64 + column // 26) + chr(65 + column % 26)


def number(data, offset, size):
    return int.from_bytes(data[offset : offset + size], "little")


def read_zip(data):
    """name -> (method, checksum, packed bytes, size), in order."""
    end = data.rfind(b"PK\5\6", -65557)
    if end < 0 or len(data) > LARGEST:
        raise NotPlain
    count, at = number(data, end + 10, 2), number(data, end + 16, 4)
    parts = {}
    for _ in range(count):
        if data[at : at + 4] != b"PK\1\2":
            raise NotPlain
        flags, method, checksum = number(data, at + 8, 2), number(data, at + 10, 2), number(data, at + 16, 4)
        packed_size, size, local = number(data, at + 20, 4), number(data, at + 24, 4), number(data, at + 42, 4)
        lengths = [number(data, at + offset, 2) for offset in (28, 30, 32)]
        name = data[at + 46 : at + 46 + lengths[0]].decode("utf-8", "replace")
        start = local + 30 + number(data, local + 26, 2) + number(data, local + 28, 2)
        if flags & 1 or method not in (0, 8) or size > LARGEST or data[local : local + 4] != b"PK\3\4" or name in parts:
            raise NotPlain
        parts[name] = (method, checksum, data[start : start + packed_size], size)
        at += 46 + sum(lengths)
    return parts


def unpacked(part):
    method, checksum, data, size = part
    try:
        data = zlib.decompressobj(-15).decompress(data, LARGEST) if method else data
    except zlib.error:
        raise NotPlain from None
    if len(data) != size or zlib.crc32(data) != checksum:
        raise NotPlain
    return data


def packed(data):
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return 8, zlib.crc32(data), packer.compress(data) + packer.flush(), len(data)


def write_zip(parts):
    """The archive, every part dated 1980-01-01."""
    body, directory = b"", b""
    for name, (method, checksum, data, size) in parts.items():
        label = name.encode()
        fields = b"\x14\0" + b"\0\0" + method.to_bytes(2, "little") + b"\0\0" + b"\x21\0"
        fields += b"".join(value.to_bytes(4, "little") for value in (checksum, len(data), size))
        fields += len(label).to_bytes(2, "little") + b"\0\0"
        directory += b"PK\1\2\x14\0" + fields + b"\0" * 10 + len(body).to_bytes(4, "little") + label
        body += b"PK\3\4" + fields + label + data
    end = b"PK\5\6\0\0\0\0" + len(parts).to_bytes(2, "little") * 2
    end += len(directory).to_bytes(4, "little") + len(body).to_bytes(4, "little") + b"\0\0"
    return body + directory + end
