"""Errors of requests to Kafka: transient are lost connections, elections and overload."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from sources.config.source.kafka_source import KafkaSource
from sources.errors import HybridError, InputError, UnavailableError
from sources.kafka.client.address import resolve_bootstrap

NEW_GENERATION = (
    "begin a new generation: `hybrid generation new P`, which computes the whole table again next "
    "to the one that serves."
)
"""End of a hint where a generation can't be completed: what was decided for it never changes."""
_ELECTING = {
    # No partition asked for has a leader, by what the client knows of the topic.
    KafkaError._NOENT,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}
# Errors of the connection and of a cluster that is changing leaders or overloaded
# (https://kafka.apache.org/protocol#protocol_error_codes, column "retriable").
_TRANSIENT = _ELECTING | {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._TRANSPORT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_CONTROLLER,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
}


def helps_to_wait(error: KafkaError) -> bool:
    """Return whether a failed request to Kafka may succeed later without intervention.

    True for a lost connection, and while the cluster changes leaders or is overloaded; False for a
    refusal, such as a missing permission.

    Args:
        error: The error, as the client or the broker reports it.
    """
    return error.code() in _TRANSIENT


def is_electing(error: KafkaError) -> bool:
    """Return whether a request failed only because a partition was getting another leader.

    It may be repeated then, after a moment.
    """
    return error.code() in _ELECTING


def describe(error: KafkaException) -> str:
    """Return the client's reason for a failed request, without a full stop."""
    return str(error.args[0].str()).rstrip(".")


def request_failed(
    source: KafkaSource, what: str, error: KafkaException, permission: str
) -> HybridError:
    """Return the error to raise for a request to Kafka that failed.

    Args:
        source: Declaration of the source whose topics were asked for.
        what: What failed: the start of a sentence, such as ``Offsets can't be read``.
        error: What the client raised.
        permission: Operation of Kafka's ACLs that the request needs, such as ``Describe``.

    Returns:
        An :class:`UnavailableError` if waiting may help, otherwise an :class:`InputError`.

    Raises:
        UnavailableError: ``bootstrap_servers`` is ``local``, and no local broker is running by now.
    """
    servers = resolve_bootstrap(source.bootstrap_servers)
    message = f"{what} for source `{source.name}` (`{source.subscription}`): {describe(error)}."
    if helps_to_wait(error.args[0]):
        hint = f"Check that the broker {servers} runs, then try again."
        return UnavailableError(message, hint, source=source.name, server=servers)
    hint = f"Check that the topic exists; grant the user of `security` `{permission}` on it."
    if error.args[0].code() == KafkaError._AUTO_OFFSET_RESET:
        hint = "Kafka deleted records while they were looked up: try again."
    return InputError(message, hint, source=source.name, server=servers)
