"""What a topic declares of Avro: its registry without secrets, and paths of the pipeline's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybrid_extensions.avro.declare import AvroValues
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError
from tests.sources.decoding.test_value_format import SCHEMA, SECRET, live, load


@pytest.mark.parametrize(
    ("registry", "pattern"),
    [
        ({"url": "r:8081"}, "`url: r:8081` is not an address"),
        (
            {"url": f"http://me:{SECRET}@r"},
            "`sources[0].registry.url` is a URL with a password in it",
        ),
        (
            {"url": "http://r", "username": "me"},
            "`username` and `password` have to be given together",
        ),
        ({"url": "http://r", "key": "k.pem"}, "`key` has no meaning without `certificate`"),
        (
            {"url": "http://r", "username": "me", "password": SECRET},
            "`sources[0].registry.password` is written in plain text in the file",
        ),
    ],
)
def test_a_registry_is_refused_without_showing_a_password(
    tmp_path: Path, registry: dict[str, str], pattern: str
) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, schema=SCHEMA, format="avro", registry=registry)
    assert pattern in str(caught.value)
    assert SECRET not in str(caught.value)


def test_the_password_of_a_registry_comes_from_the_environment_and_stays_out_of_the_state(
    tmp_path: Path,
) -> None:
    registry = {"url": "http://r", "username": "me", "password": "${REGISTRY_PASSWORD}"}
    loaded = load(tmp_path, schema=SCHEMA, format="avro", registry={**registry, "ca": "ca.pem"})
    source = loaded.pipeline.sources[0]
    assert isinstance(source, KafkaSource)
    assert isinstance(source.value, AvroValues)
    found = source.value.registry
    assert found is not None
    assert found.password is not None
    assert found.password.get_secret_value() == SECRET
    assert found.ca == str(tmp_path / "ca.pem")
    assert SECRET not in repr(source)
    assert loaded.open_generation(create=True) is not None
    kept = [path.read_text() for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert kept
    assert not any(SECRET in text for text in kept)


def test_paths_start_at_the_pipelines_own_folder(tmp_path: Path) -> None:
    source = live(
        tmp_path,
        schema=SCHEMA,
        format="avro",
        avro_schema="../order.avsc",
        on_bad_record="quarantine",
        quarantine="bad",
    )
    assert source.quarantine == str(tmp_path / "bad")
    assert isinstance(source.value, AvroValues)
    assert source.value.avro_schema == str(tmp_path.parent / "order.avsc")
