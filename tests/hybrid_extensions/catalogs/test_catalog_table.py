"""Places of tables as a pipeline declares them, and what a catalog's refusal means."""

from __future__ import annotations

from typing import Any

import pytest

from hybrid_extensions.catalogs.spark import place as catalog_table
from sources.errors import HybridError, InputError, UnavailableError


@pytest.mark.parametrize(
    ("location", "declared"),
    [
        ("file:/data/orders", "/data/orders"),
        ("file:///data/orders/", "/data/orders"),
        ("s3a://lake/orders", "s3://lake/orders"),
        ("s3a://lake/it's%20here", "s3://lake/it's here"),
        ("hdfs://name:9000/orders", "hdfs://name:9000/orders"),
    ],
)
def test_a_location_is_written_as_a_pipeline_declares_it(location: str, declared: str) -> None:
    assert catalog_table.declared_place(location) == declared


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("Unable to instantiate SessionHiveMetaStoreClient", UnavailableError),
        ("something else", InputError),
    ],
)
def test_a_catalog_that_does_not_answer_is_told_from_one_that_refuses(
    reason: str, kind: type[HybridError]
) -> None:
    class RefusalError(Exception):
        def getCondition(self) -> None:  # noqa: N802 - PySpark's name
            return None

    error: Any = RefusalError(reason)
    refused = catalog_table.refusal("history", "shop.orders", error)
    assert type(refused) is kind
    assert "`path`" in refused.hint
