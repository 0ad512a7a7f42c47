"""Shapes of JSON objects: which of many have the same members in the same nesting.

Whether a member is missing or null, or has a name that nobody declared, Arrow's parser does not
report. If an object has the members of another one, what was found out of that holds for both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from sources.decoding.batch_cursor import Int64Array, Mask, spans

_QUOTE, _COLON, _COMMA, _BACKSLASH, _OPEN, _CLOSE = (ord(each) for each in '":,\\{}')
_WORD = 8
# Closing brackets that are looked at between two members: more than envelopes have.
_DEPTH = 4


class JsonShapes:
    """Member names and nesting of many JSON objects that have no blanks around colons.

    A name ends where a quote is followed by a colon: within a text, a quote has a backslash before
    it, and a text that is a value is not followed by a colon.

    Args:
        values: The objects, without nulls.
    """

    def __init__(self, values: pa.BinaryArray) -> None:
        content, starts, ends = spans(values)
        first = int(starts[0]) if len(starts) else 0
        last = int(ends[-1]) if len(ends) else 0
        # What is looked up around a name stays within the array.
        data = np.zeros(last - first + 2 * _WORD, np.uint8)
        data[_WORD:-_WORD] = content[first:last]
        self._data = data
        self._words = np.ndarray(len(data) - _WORD + 1, "<u8", data, strides=(1,))
        self._starts, self._ends = starts - first + _WORD, ends - first + _WORD
        is_end = (data[1:-1] == _QUOTE) & (data[2:] == _COLON) & (data[:-2] != _BACKSLASH)
        self._names: Int64Array = np.flatnonzero(is_end) + 1
        self._first = np.searchsorted(self._names, self._starts)
        self._counts = np.searchsorted(self._names, self._ends) - self._first

    def like(self, at: int) -> Mask:
        """Return a mask of the objects that have the same member names and nesting as one of them.

        All false if that one is written in an unexpected way, such as with blanks around colons.

        Args:
            at: Index of the object.
        """
        alike = np.zeros(len(self._starts), np.bool_)
        text = self._data[self._starts[at] : self._ends[at]].tobytes()
        count = int(self._counts[at])
        if count == 0 or _count_members(text) != count:
            return alike
        names = self._names[self._first[at] : self._first[at] + count]
        whole = (self._data[self._starts] == _OPEN) & (self._data[self._ends - 1] == _CLOSE)
        (found,) = np.nonzero((self._counts == count) & whole)
        for number, end in enumerate(names.tolist()):
            ends = self._names[self._first[found] + number]
            begin = self._begin_of_name(end)
            same = self._is_text(ends, self._data[begin - 1 : end + 2].tobytes())
            # Whether the member's value is an object, and which ones end before the member.
            same &= (self._data[ends + 2] == _OPEN) == (self._data[end + 2] == _OPEN)
            closed = self._closed_before(ends - (end - begin))
            found = found[same & (closed == self._closed_before(np.array([begin]))[0])]
        alike[found] = True
        return alike

    def _begin_of_name(self, end: int) -> int:
        """Return where the quote is that begins the name whose closing quote is at ``end``."""
        begin = end - 1
        while self._data[begin] != _QUOTE or self._data[begin - 1] == _BACKSLASH:
            begin -= 1
        return begin

    def _is_text(self, ends: Int64Array, text: bytes) -> Mask:
        """Return at which places a text stands that ends with a name's colon."""
        same = np.ones(len(ends), np.bool_)
        for done in range(0, len(text), _WORD):
            part = text[max(0, len(text) - done - _WORD) : len(text) - done]
            expected = np.uint64(int.from_bytes(part.rjust(_WORD, b"\0"), "little"))
            # The first bytes of a word are the lowest ones.
            mask = np.uint64(0xFFFFFFFFFFFFFFFF << 8 * (_WORD - len(part)) & 0xFFFFFFFFFFFFFFFF)
            same &= (self._words[ends + 2 - done - _WORD] & mask) == expected
        return same

    def _closed_before(self, begins: Int64Array) -> Int64Array:
        """Return how many objects end right before names, whose opening quotes are given."""
        count = np.zeros(len(begins), np.int64)
        is_closed = self._data[begins - 1] == _COMMA
        for distance in range(2, 2 + _DEPTH):
            is_closed &= self._data[begins - distance] == _CLOSE
            count += is_closed
        return count


def _count_members(text: bytes) -> int:
    """Return how many members a JSON object has, with those of objects in it; 0 if it is none."""
    try:
        document = orjson.loads(text)
    except ValueError:
        return 0
    return _members_of(document) if isinstance(document, dict) else 0


def _members_of(document: Any) -> int:
    if isinstance(document, dict):
        return len(document) + sum(_members_of(each) for each in document.values())
    return sum(_members_of(each) for each in document) if isinstance(document, list) else 0
