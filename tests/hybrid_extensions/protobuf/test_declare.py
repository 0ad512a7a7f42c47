"""What a topic of Protobuf declares: what is refused, and from where paths start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hybrid_extensions.protobuf.declare import ProtobufValues
from sources.config.loader import load_pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError
from tests.minimal import minimal_declaration


def live(folder: Path, **fields: Any) -> KafkaSource:
    declared = {"name": "live", "type": "kafka", "topic": "t", "start": "earliest", **fields}
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump(minimal_declaration(declared)))
    source = load_pipeline(path).pipeline.sources[0]
    assert isinstance(source, KafkaSource)
    return source


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"format": "protobuf", "message": "m"}, "needs `descriptor` next to it"),
        ({"format": "avro", "message": "m"}, "`message` has no meaning with `format: avro`"),
    ],
)
def test_a_message_needs_its_descriptor_and_has_no_meaning_elsewhere(
    tmp_path: Path, fields: dict[str, str], refusal: str
) -> None:
    with pytest.raises(InputError, match=refusal):
        live(tmp_path, schema={"id": "bigint"}, **fields)


def test_the_path_of_a_descriptor_starts_at_the_pipelines_own_folder(tmp_path: Path) -> None:
    declared = {"descriptor": "x/shop.desc", "message": "shop.Order"}
    source = live(tmp_path, schema={"id": "bigint"}, format="protobuf", **declared)
    assert isinstance(source.value, ProtobufValues)
    assert source.value.descriptor == str(tmp_path / "x/shop.desc")
