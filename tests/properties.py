"""How many examples a property test tries."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

# `make fast` and `make test` try a part of them, to answer soon; `make test-all` tries all.
_SHARE = float(os.environ.get("HYBRID_EXAMPLES", "1"))
_FEWEST = 5


def examples(count: int, **more: Any) -> settings:
    """Settings of a test that tries so many examples, or the share in ``HYBRID_EXAMPLES`` of them.

    Args:
        count: How many are tried where that variable is not set.
        more: Further settings of Hypothesis. There is no deadline for an example, as the machine
            may be busy.
    """
    fewest = min(count, _FEWEST)
    return settings(max_examples=max(round(count * _SHARE), fewest), deadline=None, **more)
