from __future__ import annotations

import pytest

from spark_jobs.inside.driver.reports.measurement import reported_offset


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"events": {"0": 750}}', {"events": {"0": 750}}),
        # PySpark 4.1.
        ("{'events': {'0': 750}}", {"events": {"0": 750}}),
        ("null", None),
        ("None", None),
        ("", None),
        (None, None),
    ],
)
def test_an_offset_is_read_as_every_pyspark_prints_it(text: str | None, expected: object) -> None:
    assert reported_offset(text) == expected
