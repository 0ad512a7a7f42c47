"""Headings below which ``hybrid --help`` lists its commands, in this order."""

from __future__ import annotations

START = "Begin"
RUN = "Run"
LOOK = "Look"
TABLE = "Prove, replace and mend the table"
MORE = "More"
