"""Extensions that this checkout lacks: pages and kept states speak of all that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
LISTED = re.findall(
    r"^\| `(\w+)` \|", (_ROOT / "docs" / "extensions.md").read_text().partition("## ")[0], re.M
)
LACKING = [name for name in LISTED if not (_ROOT / "hybrid_extensions" / name).is_dir()]
whole = pytest.mark.skipif(
    bool(LACKING), reason=f"it is about the whole project, which lacks {', '.join(LACKING)}"
)
"""Marks a test that compares a page or a kept state with the whole project."""
