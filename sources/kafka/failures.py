"""What a failed request to Kafka means: whether the same request may succeed later."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from sources.config.kafka_source import KafkaSource
from sources.errors import HybridError, InputError, UnavailableError
from sources.kafka.address import resolve_bootstrap

# Errors of the connection and of a cluster that is changing leaders or overloaded
# (https://kafka.apache.org/protocol#protocol_error_codes, column "retriable").
_TRANSIENT = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._TRANSPORT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}


def helps_to_wait(error: KafkaError) -> bool:
    """Return whether a failed request may succeed later without anybody's doing.

    Args:
        error: The error, as the client or the broker reports it.
    """
    return error.code() in _TRANSIENT


def describe(error: KafkaException) -> str:
    """Return the reason that the client gives, without a full stop."""
    return str(error.args[0].str()).rstrip(".")


def request_failed(
    source: KafkaSource, what: str, error: KafkaException, permission: str
) -> HybridError:
    """Return the error to raise for a request that failed.

    Args:
        source: Declaration of the source.
        what: What failed, in words.
        error: What the client raised.
        permission: Operation of Kafka's ACLs that the request needs.
    """
    servers = resolve_bootstrap(source.bootstrap_servers)
    message = f"{what} of source `{source.name}` (`{source.subscription}`): {describe(error)}."
    if helps_to_wait(error.args[0]):
        hint = f"Check the broker {servers}, then try again."
        return UnavailableError(message, hint, source=source.name, server=servers)
    hint = f"Check that the topic exists and that the user has the permission `{permission}`."
    return InputError(message, hint, source=source.name, server=servers)
