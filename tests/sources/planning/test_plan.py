"""The plan of a pipeline, as others read it."""

from __future__ import annotations

import pytest

from sources.planning.plan import Plan


def test_a_source_that_is_not_planned_ends_no_iteration_silently() -> None:
    plan = Plan.model_construct(files=[], archives=[], topic=None)
    for find in (plan.topic_of, plan.files_of):
        with pytest.raises(KeyError, match="nobody"):
            list(map(find, ["nobody"]))
