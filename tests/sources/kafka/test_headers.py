"""Headers whose names are no text: such a record is bad if headers are a column, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from sources.errors import InputError
from sources.kafka.client.headers import NOT_TEXT
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning.topics.topic_sample import read_sample
from tests.hybrid_extensions.audit.audit_case import COLUMNS
from tests.hybrid_extensions.audit.live_case import ROWS, Live, as_json, live_case
from tests.raw_headers import send
from tests.sources.decoding.value_case import changes_source

pytestmark = pytest.mark.kafka


@pytest.fixture
def live(tmp_path: Path, servers: str) -> Live:
    found = live_case(tmp_path, servers)
    (value,) = as_json(ROWS[11:12])
    assert value is not None
    # The interpreter specializes a call that it has made several times.
    for _ in range(20):
        send(servers, found.topic, b"\xff\xfe", value)
    return found


def test_a_sample_is_read_all_the_same(live: Live) -> None:
    where = {"topic": live.topic, "bootstrap_servers": live.servers}
    log = KafkaLog(changes_source({"id": "bigint"}, **where))
    records = read_sample(log, log.log_start())
    assert [record.headers for record in records] == [[(NOT_TEXT, None)]] * 20


def test_the_audit_names_it_where_headers_are_a_column(live: Live) -> None:
    live.case.target(ROWS[:10])
    history, topic = live.sources({**COLUMNS})
    assert live.case.audit(sources=[history, topic]).missing == 1
    headers = {**topic, "include": {"h": "headers"}}
    with pytest.raises(InputError, match="bad record: the name of a header is no UTF-8 text"):
        live.case.audit(sources=[history, headers])
