"""Which regular expressions of Java, and patterns of LIKE, DuckDB reads as Spark does."""

from __future__ import annotations

import re
from typing import NamedTuple

# What ends a line in Java, where `.` and `$` stop.
_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_END = rf"(?:\r\n|[{_LINE_ENDS}])?\z"
_CLASS_PART = r"(?:\\[dw.\-\[\]/+*()|]|[A-Za-z0-9 _:;,./@#%=<>!\"'+*?(){}|$-])"
_TOKEN = re.compile(
    rf"""(?P<literal>[A-Za-z0-9 _:;,/@#%=<>!"'-])
    |(?P<escaped>\\[.+*?()\[\]{{}}|^$/\-\\])
    |(?P<kind>\\[dw])
    |(?P<any>[.])
    |(?P<class>\[\^?{_CLASS_PART}+\])
    |(?P<open>\((?:\?:)?)
    |(?P<close>\))
    |(?P<or>[|])
    |(?P<repeat>[*+?]|\{{[0-9]{{1,2}}(?:,(?:[0-9]{{1,2}})?)?\}})
    |(?P<begin>\^)
    |(?P<end>\$)""",
    re.VERBOSE,
)


class Pattern(NamedTuple):
    """A regular expression in RE2's syntax.

    Attributes:
        text: The expression.
        groups: Number of its groups.
        may_be_empty: Whether a repetition may match nothing.
        has_end: Whether it ends with ``$``, which may take a line's end into the match.
    """

    text: str
    groups: int
    may_be_empty: bool
    has_end: bool


def java_pattern(text: str) -> Pattern | None:
    """Convert a regular expression of Java, as in Spark SQL, to RE2, as in DuckDB.

    None unless both are proven to read it alike; only Spark can use it then.
    """
    parts: list[str] = []
    depth = groups = at = 0
    may_be_empty = has_end = False
    before = "begin"
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or has_end:
            return None
        kind, part = str(token.lastgroup), token[0]
        at = token.end()
        if kind == "begin" and parts:
            return None
        if kind == "repeat":
            # A lazy or possessive repetition, or one of nothing.
            if before in ("begin", "open", "or", "repeat"):
                return None
            may_be_empty |= part[0] in "*?" or part.startswith("{0")
        depth += {"open": 1, "close": -1}.get(kind, 0)
        groups += part == "("
        may_be_empty |= kind == "or"
        if depth < 0 or (kind == "end" and depth):
            return None
        has_end = kind == "end"
        parts.append({"any": f"[^{_LINE_ENDS}]", "end": _END}.get(kind, part))
        before = kind
    if depth or not parts or parts == ["^"]:
        return None
    return Pattern("".join(parts), groups, may_be_empty, has_end)


def is_usual_like(pattern: str) -> bool:
    """Return whether a LIKE pattern uses backslashes only before ``_``, ``%`` or a backslash.

    Only such a pattern is known to mean the same in Spark and DuckDB.
    """
    return "\\" not in re.sub(r"\\[_%\\]", "", pattern)
