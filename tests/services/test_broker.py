from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from hybrid_extensions.servers import broker as broker_module
from hybrid_extensions.servers.broker import LocalBroker, create_topic, topics_of
from hybrid_extensions.servers.process import free_ports
from sources.errors import InputError, RunError, UnavailableError
from tests.services.processes import child_of, runs, wait_for

ROOT = Path(broker_module.__file__).parents[1]

HOLDER = """
import sys
from pathlib import Path
from hybrid_extensions.servers.broker import LocalBroker
with LocalBroker(Path(sys.argv[1])) as broker:
    print(broker._process.pid, broker.bootstrap_servers, flush=True)
    sys.stdin.read()
"""


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def produce(servers: str, topic: str, *values: bytes) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": servers})

    def delivered(error: object, _: object) -> None:
        if error:
            failures.append(error)

    for value in values:
        producer.produce(topic, value, on_delivery=delivered)
    assert producer.flush(30) == 0
    assert failures == []


def consume(servers: str, topic: str, count: int) -> list[bytes | None]:
    settings = {"bootstrap.servers": servers, "group.id": "t", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([topic])
    try:
        return [message.value() for message in consumer.consume(count, timeout=30)]
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def running() -> Iterator[LocalBroker]:
    with LocalBroker() as one:
        yield one


@pytest.mark.kafka
def test_a_record_that_is_produced_can_be_consumed_by_a_group(running: LocalBroker) -> None:
    create_topic(running.bootstrap_servers, "events", partitions=2)
    produce(running.bootstrap_servers, "events", b"one", b"two")
    assert {*consume(running.bootstrap_servers, "events", 2)} == {b"one", b"two"}


@pytest.mark.kafka
def test_a_topic_is_made_with_its_partitions_and_only_once(running: LocalBroker) -> None:
    create_topic(running.bootstrap_servers, "wide", partitions=3, config={"retention.ms": "-1"})
    admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
    assert sorted(admin.list_topics("wide").topics["wide"].partitions) == [0, 1, 2]
    with pytest.raises(RunError, match=r"`wide` can't be created on .*: .*already exists\. If the"):
        create_topic(running.bootstrap_servers, "wide")


@pytest.mark.kafka
def test_a_topic_does_not_appear_by_being_asked_for(running: LocalBroker) -> None:
    admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
    assert admin.list_topics("nobody-made-this").topics["nobody-made-this"].error is not None
    assert "nobody-made-this" not in admin.list_topics().topics


@pytest.mark.kafka
@pytest.mark.slow
def test_a_port_that_another_kafka_took_first_is_given_up(
    running: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = int(running.bootstrap_servers.split(":")[1])
    choices = iter([[taken, *free_ports(1)], free_ports(2)])
    monkeypatch.setattr(broker_module, "free_ports", lambda _: next(choices))
    with LocalBroker() as second:
        assert second.bootstrap_servers != running.bootstrap_servers
        create_topic(second.bootstrap_servers, "only-in-the-second")
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        assert "only-in-the-second" not in admin.list_topics().topics


@pytest.mark.kafka
@pytest.mark.slow
def test_records_and_address_survive_a_restart_on_the_same_folder(tmp_path: Path) -> None:
    with LocalBroker(tmp_path / "data of mine") as first:
        create_topic(first.bootstrap_servers, "kept")
        produce(first.bootstrap_servers, "kept", b"still here")
        before = first.bootstrap_servers
    with LocalBroker(tmp_path / "data of mine") as second:
        assert second.bootstrap_servers == before
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", int(before.split(":")[1])))
        other.listen()
        with LocalBroker(tmp_path / "data of mine") as third:
            assert third.bootstrap_servers != before
            assert consume(third.bootstrap_servers, "kept", 1) == [b"still here"]


@pytest.mark.kafka
def test_stop_leaves_neither_process_nor_port_nor_temporary_folder_nor_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    address_file = tmp_path / "new" / "broker.json"
    broker = LocalBroker(address_file=address_file)
    broker.start()
    address = json.loads(address_file.read_text())
    java = child_of(address["pid"])
    port = int(broker.bootstrap_servers.split(":")[1])
    assert address == {
        "version": 1,
        "bootstrap_servers": broker.bootstrap_servers,
        "pid": address["pid"],
        "folder": str(Path.cwd()),
    }
    assert len(list((tmp_path / "temp").iterdir())) == 1
    assert runs(java)
    broker.stop()
    assert not runs(address["pid"])
    assert not runs(java)
    assert is_free(port)
    assert list((tmp_path / "temp").iterdir()) == []
    assert not address_file.exists()
    broker.stop()


def test_a_broker_that_is_stopped_has_not_ended_by_itself() -> None:
    with ThreadPoolExecutor() as pool, LocalBroker() as broker:
        waiting = pool.submit(broker.wait)
        wait_for(waiting.running, "the broker is not waited for")
        broker.stop()
        waiting.result(30)


@pytest.mark.kafka
def test_a_broker_that_somebody_ended_is_not_told_to_be_at_fault(tmp_path: Path) -> None:
    file = tmp_path / "broker.json"
    with LocalBroker(address_file=file) as broker:
        os.kill(json.loads(file.read_text())["pid"], signal.SIGTERM)
        with pytest.raises(RunError, match="was ended by SIGTERM, as by `kill`") as told:
            broker.wait()
    assert "Correct the cause" not in told.value.hint


def test_the_name_local_is_not_taken_from_another_broker_that_runs(tmp_path: Path) -> None:
    file = tmp_path / "broker.json"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        text = json.dumps(
            {"bootstrap_servers": address, "pid": os.getpid(), "folder": "/shop", "version": 1}
        )
        file.write_text(text)
        with pytest.raises(InputError, match=rf"already at {address}: .* started in /shop") as told:
            LocalBroker(address_file=file).start()
    assert file.read_text() == text
    assert "export HYBRID_BROKER_FILE=" in told.value.hint


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.crash
@pytest.mark.parametrize("victim", ["the parent", "the guard"])
def test_a_kill_leaves_no_java_and_frees_the_port(tmp_path: Path, victim: str) -> None:
    if victim == "the guard" and not sys.platform.startswith("linux"):
        pytest.skip("needs Linux")
    parent = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        # Whatever the test leaves is in this group.
        start_new_session=True,
    )
    try:
        assert parent.stdout is not None
        pid, servers = parent.stdout.readline().split()
        java = child_of(int(pid))
        port = int(servers.split(":")[1])
        assert runs(java)
        os.kill(parent.pid if victim == "the parent" else int(pid), signal.SIGKILL)
        wait_for(lambda: not runs(java), "the end of java")
        wait_for(lambda: not runs(int(pid)), "the end of the guard")
        wait_for(lambda: is_free(port), "a free port")
    finally:
        parent.kill()
        parent.communicate()


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"num.io.threads": "many"}, "Invalid value many for configuration num.io.threads"),
        # Only found out by the broker itself, after its storage was prepared.
        ({"authorizer.class.name": "no.such.Authorizer"}, "no.such.Authorizer"),
    ],
)
def test_a_bad_setting_fails_the_start_with_kafkas_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, str], reason: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    broker = LocalBroker(config=config)
    with pytest.raises(RunError) as caught:
        broker.start()
    assert reason in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RunError, match="not running"):
        _ = broker.bootstrap_servers


def test_topics_of_a_broker_that_does_not_answer_are_an_error_with_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(broker_module, "_ADMIN_TIMEOUT_S", 0.5)
    (port,) = free_ports(1)
    with pytest.raises(
        UnavailableError, match=f"^The broker 127.0.0.1:{port} does not say"
    ) as seen:
        topics_of(f"127.0.0.1:{port}")
    assert seen.value.fields == {"server": f"127.0.0.1:{port}"}
