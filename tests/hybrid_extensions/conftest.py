"""Tests of an extension are there as long as its folder is."""

from pathlib import Path

import hybrid_extensions

_THERE = {each.name for path in hybrid_extensions.__path__ for each in Path(path).iterdir()}
collect_ignore = [
    each.name
    for each in Path(__file__).parent.iterdir()
    if each.is_dir() and each.name not in _THERE
]
