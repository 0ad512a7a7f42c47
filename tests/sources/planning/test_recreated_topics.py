"""A topic that was waited for has to stay the one that was read."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from hybrid_extensions.servers.broker import create_topic
from sources.common.positions import TopicPartition
from sources.errors import SeamError
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning.plan import make_plan
from sources.planning.topics.recreated_topics import refuse_recreated_topics
from tests.e2e.case import Case, live_of
from tests.services.processes import wait_for

pytestmark = pytest.mark.kafka


def delete(case: Case) -> None:
    admin = AdminClient({"bootstrap.servers": case.servers})
    admin.delete_topics([case.topic])[case.topic].result()
    wait_for(lambda: case.topic not in admin.list_topics().topics, "the end of the topic", 30)


@pytest.mark.parametrize("is_created_again", [True, False])
def test_a_topic_that_is_deleted_after_it_was_seen_is_refused(
    tmp_path: Path, servers: str, is_created_again: bool
) -> None:
    case = Case(tmp_path, servers)
    delete(case)
    case.write_history()
    loaded = case.pipeline(lambda declared: declared["sources"][1].update(missing_topic="wait"))
    planned, live = make_plan(loaded).topic_of("live"), live_of(loaded)

    def look(*reached: TopicPartition) -> None:
        generation, log = loaded.require_generation(), KafkaLog(live)
        refuse_recreated_topics(generation, live, planned, log, reached)

    assert planned.topics == {}
    look()
    # It came and went during one run.
    with pytest.raises(SeamError, match=r"Planned was one that was read .*found is no topic"):
        look(TopicPartition(case.topic, 0))
    create_topic(servers, case.topic, 1)
    look()
    look()
    delete(case)
    if is_created_again:
        create_topic(servers, case.topic, 1)
    with pytest.raises(SeamError, match=f"Topic `{case.topic}` is not the planned one") as refused:
        look()
    assert "If the topic was deleted, or created again, begin a new" in refused.value.hint
