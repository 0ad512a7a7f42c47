"""CSV records: where each ends in a text, and whether its quotes are valid.

Arrow's reader accepts a quote anywhere: of ``"a"b`` it makes one value, and an open quote swallows
the rows that follow. So records with quotes are first compared with the one form that they may
have.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pyarrow as pa

_LINE_END, _RETURN = b"\n\r"


class CsvRecords:
    """Splitter of records of one CSV dialect; delimiter, quote and escape are distinct ASCII.

    Args:
        delimiter: Character between two values.
        quote: Character around values.
        escape: Character before a quote, or before itself, inside of quoted values; None if a quote
            is doubled there.
        multiline: Whether quoted values may contain line ends.
    """

    def __init__(self, delimiter: str, quote: str, escape: str | None, *, multiline: bool) -> None:
        self._delimiter, self._quote = delimiter.encode(), quote.encode()
        self._escape = None if escape is None else escape.encode()
        self._multiline = multiline
        end, mark = re.escape(self._delimiter), re.escape(self._quote)
        before = mark if escape is None else re.escape(escape.encode())
        line_ends = b"" if multiline else rb"\r\n"
        escaped = rb"[\s\S]" if multiline else rb"[^\r\n]"
        pair = before + (mark if escape is None else escaped)
        inside = b"(?:[^" + mark + before + line_ends + b"]|" + pair + b")*+"
        plain = b"(?!" + mark + b")[^" + end + rb"\r\n]*+"
        any_value = b"(?:" + mark + inside + mark + b"|" + plain + b")"
        # A return at the end of what was read may belong to a line feed that follows.
        line_end = rb"(?:\r?\n|\r(?=[^\n]))"
        self._record = re.compile(any_value + b"(?:" + end + any_value + b")*+" + line_end)
        value = b"(?:" + mark + b"(" + inside + b")" + mark + b"|(" + plain + b"))"
        self._value = re.compile(value + b"(" + end + rb"|[\r\n]*\Z)")
        self._pair = re.compile(before + b"([" + before + mark + b"])")

    def ends(self, text: bytes) -> list[int]:
        """Return the offset, in bytes, after each complete record of a text, line end included.

        They end before the first record that is malformed, or that has no line end.
        """
        ends = [0]
        while found := self._record.match(text, ends[-1]):
            ends.append(found.end())
        return ends[1:]

    def first_end(self, text: bytes) -> int:
        """Return the offset, in bytes, after a text's first record; 0 if that is not whole.

        One that is malformed is not whole.
        """
        found = self._record.match(text)
        return found.end() if found else 0

    def whole(self, text: bytes) -> int:
        """Return the offset, in bytes, after a text's last complete record; 0 without any.

        What is after it is incomplete, or begins with a malformed record.
        """
        end = self._certain_end(text)
        return end or max(self.ends(text), default=0)

    def values(self, record: bytes) -> list[bytes]:
        """Return the values of a record, without quotes around them.

        Raises:
            ArrowInvalid: Its quotes are misplaced.
        """
        values = []
        for quoted, plain, _ in self._parts(record):
            values.append(plain if quoted is None else self._pair.sub(rb"\1", quoted))
        return values

    def for_arrow(self, text: bytes) -> bytes:
        """Return complete records in the form that Arrow expects: with quotes in values doubled.

        Args:
            text: The records; each is a line unless values may contain line ends.

        Raises:
            ArrowInvalid: The quotes of one of them are misplaced.
        """
        if self._quote not in text or self._certain_end(text + b"\n") > len(text):
            return text
        if not self._multiline:
            lines = text.split(b"\n")
            return b"\n".join(
                self._for_arrow(each) if self._quote in each else each for each in lines
            )
        # What follows the last whole record is none, or begins with one that is malformed.
        edges = [0, *self.ends(text), len(text)]
        return b"".join(self._for_arrow(text[low:high]) for low, high in pairwise(edges))

    def _for_arrow(self, record: bytes) -> bytes:
        parts = self._parts(record)
        if self._escape is None:
            return record
        mark = self._quote
        texts = []
        for quoted, plain, end in parts:
            if quoted is not None:
                inside = self._pair.sub(rb"\1", quoted).replace(mark, mark + mark)
                texts.append(mark + inside + mark + end)
            else:
                texts.append(plain + end)
        return b"".join(texts)

    def _parts(self, record: bytes) -> list[tuple[bytes | None, bytes, bytes]]:
        """Return what is inside of quotes, what is not quoted, and what follows, of each value.

        Raises:
            ArrowInvalid: The record's quotes are misplaced.
        """
        parts: list[tuple[bytes | None, bytes, bytes]] = []
        at, end = 0, self._delimiter
        while end == self._delimiter:
            found = self._value.match(record, at)
            if found is None:
                message = (
                    f"its value {len(parts) + 1} has no closing quote in it, or more text behind "
                    "one: a quote inside of a quoted value has to be "
                    + ("escaped as" if self._escape else "doubled, or escaped as")
                    + " `csv.escape` declares"
                    + ("" if self._multiline else ", and one with line ends needs `csv.multiline`")
                )
                raise pa.ArrowInvalid(message)
            at, end = found.end(), found[3]
            parts.append((found[1], found[2], end))
        return parts

    def _certain_end(self, text: bytes) -> int:
        """Return where the last whole record ends, if all up to there are certainly well formed.

        Found out of all quotes at once; 0 where it is not certain, as if a plain value has quotes.
        """
        if self._escape is not None and self._escape in text:
            return 0
        data = np.frombuffer(b"\n" + text, np.uint8)
        quotes = np.flatnonzero(data == self._quote[0])
        line_ends = np.flatnonzero(data == _LINE_END)
        if self._multiline:
            if text.count(b"\r") != text.count(b"\r\n"):
                return 0
            line_ends = line_ends[np.searchsorted(quotes, line_ends) % 2 == 0]
        end = int(line_ends[-1])
        quotes = quotes[: np.searchsorted(quotes, end)]
        if len(quotes) % 2 or (np.searchsorted(quotes, line_ends) % 2).any():
            return 0
        outside = np.zeros(256, np.bool_)
        outside[[*self._delimiter, _LINE_END, _RETURN]] = True
        outside[self._quote[0]] = self._escape is None
        before, behind = data[quotes[0::2] - 1], data[quotes[1::2] + 1]
        return end if outside[before].all() and outside[behind].all() else 0
