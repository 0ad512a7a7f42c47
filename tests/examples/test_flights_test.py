"""The example of tests that teams write runs, in the session that all tests share."""

from __future__ import annotations

import pytest

from examples.test_flights import (
    test_a_window_that_begins_in_a_file_is_completed_from_the_topic as test_window,
)
from examples.test_flights import (
    test_the_class_of_a_delay_does_not_depend_on_when_history_ends as test_events,
)

__all__ = ["test_events", "test_window"]
pytestmark = pytest.mark.spark
