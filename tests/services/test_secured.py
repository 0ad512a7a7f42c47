"""A real broker with secured listeners: who is let in, who is not, and what is left in the open."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from hybrid_extensions.servers.broker import LocalBroker
from hybrid_extensions.servers.secured import SecuredListeners
from sources.common.login.security import Security
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError, RunError, UnavailableError
from sources.kafka.client.consumer import QUIET
from sources.kafka.client.kafka_log import KafkaLog
from tests.services.processes import wait_for
from tests.services.secured_case import (
    OAUTH,
    PASSWORD,
    RECORDS,
    TOPIC,
    USER,
    WAYS,
    SecuredCase,
    secured_broker,
)

WAYS_WITH_PASSWORD = [way for way in WAYS if way.startswith("SASL") and way != OAUTH]

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCase]:
    with secured_broker(tmp_path_factory.mktemp("certificates")) as one:
        yield one


def read(settings: dict[str, Any], count: int) -> list[bytes | None]:
    consumer = Consumer({**settings, "group.id": "t", "enable.auto.commit": False}, logger=QUIET)
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        return [message.value() for message in consumer.consume(count, timeout=20)]
    finally:
        consumer.close()


def refusal(settings: dict[str, Any], reason: str) -> str:
    """Name of the error that gives this reason, once it has come."""
    errors: list[KafkaError] = []
    admin = AdminClient({**settings, "error_cb": errors.append}, logger=QUIET)

    def is_told() -> bool:
        admin.poll(0.05)
        return any(reason in error.str() for error in errors)

    wait_for(is_told, reason)
    # The call itself does not tell why.
    with pytest.raises(KafkaException) as caught:
        admin.list_topics(timeout=0.5)
    assert caught.value.args[0].name() == "_TRANSPORT"
    name: str = next(error.name() for error in errors if reason in error.str())
    return name


@pytest.mark.parametrize("way", WAYS)
def test_admin_producer_and_consumer_get_in(case: SecuredCase, way: str) -> None:
    settings = case.client(case.security(way))
    assert TOPIC in AdminClient(settings, logger=QUIET).list_topics(timeout=20).topics
    assert read(settings, len(RECORDS)) == RECORDS
    producer = Producer(settings, logger=QUIET)
    failures: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error:
            failures.append(error)

    # Beside the three that each test expects first.
    producer.produce(TOPIC, b"more", on_delivery=delivered)
    assert producer.flush(20) == 0
    assert failures == []


@pytest.mark.parametrize("way", WAYS_WITH_PASSWORD)
def test_a_wrong_password_is_told_to_the_error_callback(case: SecuredCase, way: str) -> None:
    settings = case.client(case.security(way, "wrong"))
    assert refusal(settings, "Authentication failed") == "_AUTHENTICATION"


def test_a_wrong_client_secret_is_told_to_the_error_callback(case: SecuredCase) -> None:
    settings = case.client(case.security(OAUTH, "wrong"))
    assert refusal(settings, "invalid_client") == "_AUTHENTICATION"


def test_an_identity_provider_that_does_not_answer_may_answer_later(case: SecuredCase) -> None:
    security = case.security(OAUTH)
    assert security.oauth is not None
    gone = security.oauth.model_copy(update={"token_url": "https://127.0.0.1:1/token"})
    servers = case.broker.address("SASL_SSL")
    declared = {"type": "kafka", "name": "live", "topic": TOPIC, "bootstrap_servers": servers}
    source = KafkaSource.model_validate({**declared, "format": "json"})
    there = source.model_copy(update={"security": security})
    assert KafkaLog(there).topics == [TOPIC]
    away = security.model_copy(update={"oauth": gone})
    with pytest.raises(UnavailableError, match="Failed to acquire SASL OAUTHBEARER token"):
        KafkaLog(source.model_copy(update={"security": away}), timeout_s=5)


@pytest.mark.parametrize("claim", [{"aud": "others"}, {"iss": "https://others"}])
def test_the_broker_checks_what_a_token_says(case: SecuredCase, claim: dict[str, Any]) -> None:
    settings = case.client(case.security(OAUTH))
    with case.provider.issues(claim):
        assert refusal(settings, "invalid_token") == "_AUTHENTICATION"


def test_a_token_is_fetched_again_before_it_expires(case: SecuredCase) -> None:
    settings = case.client(case.security(OAUTH))
    with case.provider.issues({"exp": int(time.time()) + 3}):
        before = len(case.provider.issued)
        consumer = Consumer({**settings, "group.id": "t"}, logger=QUIET)
        try:
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            assert consumer.consume(len(RECORDS), timeout=20)
            wait_for(lambda: len(case.provider.issued) > before + 1, "another token", 20)
        finally:
            consumer.close()


def test_a_callback_of_python_signs_in_as_well(case: SecuredCase) -> None:
    """As for Amazon MSK, whose signer makes the token on this machine."""

    def token(_: str) -> tuple[str, float]:
        return case.provider.token(USER), time.time() + 300

    own = case.client(case.security(OAUTH))
    settings = {name: value for name, value in own.items() if "oauthbearer" not in name}
    settings |= {"oauth_cb": token}
    assert TOPIC in AdminClient(settings, logger=QUIET).list_topics(timeout=20).topics
    assert read(settings, len(RECORDS)) == RECORDS


def test_a_client_without_certificate_is_refused(case: SecuredCase) -> None:
    settings = case.client(Security(protocol="SSL", ca=case.security("SSL").ca))
    # In TLS 1.3 the client learns it after its own part of the handshake.
    assert refusal(settings, "alert bad certificate") == "_TRANSPORT"


def test_a_broker_of_another_authority_is_not_trusted(case: SecuredCase) -> None:
    settings = case.client(case.security("SSL").model_copy(update={"ca": None}))
    assert refusal(settings, "broker certificate could not be verified") == "_SSL"


def test_no_password_and_no_key_are_in_the_log_and_the_settings_are_the_owners(
    case: SecuredCase,
) -> None:
    log = case.broker.log_file.read_text()
    assert PASSWORD.splitlines()[0] not in log
    assert "hunter2" not in log
    assert [token for token in case.provider.issued if token in log] == []
    assert "PRIVATE KEY" not in log
    assert (case.broker.log_file.parent / "server.properties").stat().st_mode & 0o077 == 0


def test_a_listener_that_is_not_there_is_told_with_those_that_are(case: SecuredCase) -> None:
    with pytest.raises(
        RunError,
        match=r"security protocol SASL\. Use one of its listeners \(PLAINTEXT, SASL_PLAINTEXT",
    ):
        case.broker.address("SASL")


def test_a_listener_with_tls_needs_files_that_can_be_read(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="`certificate` is not given, but the broker's TLS listeners need it"
    ):
        LocalBroker(secured=SecuredListeners(("SSL",))).start()
    listeners = SecuredListeners(("SSL",), certificate=tmp_path / "gone", key=tmp_path / "gone")
    with pytest.raises(InputError, match=r"`certificate` names .*gone, which can't be read"):
        LocalBroker(secured=listeners).start()
    assert "hunter2" not in repr(SecuredListeners((), users={"alice": "hunter2"}))
