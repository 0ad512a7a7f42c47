"""Panels of ``hybrid --help``: headings below which it lists commands, in this order."""

from __future__ import annotations

START = "Begin"
RUN = "Run"
LOOK = "Look"
TABLE = "Prove, replace and mend the table"
MORE = "More"
