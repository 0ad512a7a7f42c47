"""Creation of topics that do not exist, for sources with ``missing_topic: {create: …}``."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as Creation

from sources.common.login.security import client_settings
from sources.config.source.kafka_options import CreateTopic, NewTopic
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError, UnavailableError
from sources.kafka.client.consumer import QUIET
from sources.kafka.client.kafka_errors import describe, helps_to_wait
from sources.kafka.client.kafka_log import TIMEOUT_S, KafkaLog

_BY_BROKER = -1
_LOOK_S = 0.2


def create_missing_topics(source: KafkaSource) -> list[str]:
    """Create the topics of a source that do not exist, if it declares ``missing_topic: {create}``.

    A topic that somebody else creates at the same time is left as it is. Waits up to 10 s until the
    broker knows them.

    Returns:
        Names of the topics that were missing; empty if there are none, or nothing is to be created.

    Raises:
        UnavailableError: The broker does not answer, or a topic is not known to it in time.
        InputError: The broker refuses to create a topic, or refuses the login.
    """
    if not isinstance(source.missing_topic, CreateTopic):
        return []
    awaiting = source.model_copy(update={"missing_topic": "wait"})
    log = KafkaLog(awaiting)
    if log.missing:
        _create(source, log.servers, log.missing, source.missing_topic.create)
    missing, deadline = log.missing, time.monotonic() + TIMEOUT_S
    while log.missing:
        if time.monotonic() > deadline:
            message = (
                f"Topic `{log.missing[0]}` was created on {log.servers}, or is there already, but "
                f"is not among its topics after {TIMEOUT_S:.0f} s."
            )
            hint = "Check the brokers and the permission `Describe`, then repeat what failed."
            raise UnavailableError(message, hint, source=source.name, server=log.servers)
        time.sleep(_LOOK_S)
        log = KafkaLog(awaiting)
    return missing


def _create(source: KafkaSource, servers: str, names: list[str], declared: NewTopic) -> None:
    settings = {**source.properties.of_librdkafka, **client_settings(source.security)}
    admin = AdminClient({**settings, "bootstrap.servers": servers}, logger=QUIET)
    new = [
        Creation(
            name,
            num_partitions=declared.partitions or _BY_BROKER,
            replication_factor=declared.replication_factor or _BY_BROKER,
            config=dict(declared.settings),
        )
        for name in names
    ]
    for name, made in admin.create_topics(new, request_timeout=TIMEOUT_S).items():
        try:
            made.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                continue
            message = f"Topic `{name}` can't be created on {servers}: {describe(error)}."
            if helps_to_wait(error.args[0]):
                hint = f"Check that the broker {servers} runs, then try again."
                raise UnavailableError(message, hint, source=source.name, server=servers) from None
            hint = (
                f"Correct `missing_topic` of source `{source.name}`, or grant the user of "
                "`security` the permission `Create`; or create the topic in another way, and "
                "repeat what failed."
            )
            raise InputError(
                message, hint, source=source.name, topic=name, server=servers
            ) from None
