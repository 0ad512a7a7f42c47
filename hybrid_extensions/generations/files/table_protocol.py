"""Delta's table features: which a version implies, and which another table can take over.

Source of the rules: https://github.com/delta-io/delta/blob/master/PROTOCOL.md#table-features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_TABLE_FEATURES = (3, 7)
"""Reader and writer version from which on features are listed by name."""

# Features that older versions imply, by the first version that does.
_READER = {2: ["columnMapping"]}
_WRITER = {
    2: ["appendOnly", "invariants"],
    3: ["checkConstraints"],
    4: ["changeDataFeed", "generatedColumns"],
    5: ["columnMapping"],
    6: ["identityColumns"],
}
_READER_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Reader features whose meaning lies in the metadata and in the actions of files alone."""
# What gives domain metadata a meaning, such as row tracking, is refused by its own name; clustering
# can't be dropped, so it is refused where it has columns.
_WITHOUT_MEANING = {"clustering", "domainMetadata"}
CARRIED = _READER_FEATURES | {each for names in _WRITER.values() for each in names}
CARRIED |= _WITHOUT_MEANING
"""Features of a table whose rows another table can take over action by action."""


@dataclass(frozen=True)
class Protocol:
    """Features that a table requires of readers and writers, including implied ones.

    Attributes:
        reader, writer: Protocol versions.
        reader_features, writer_features: Names of the features.
    """

    reader: int
    writer: int
    reader_features: frozenset[str]
    writer_features: frozenset[str]

    @classmethod
    def of(cls, action: dict[str, Any]) -> Protocol:
        """Parse a ``protocol`` action of the Delta log; features implied by versions are named."""
        reader, writer = action["minReaderVersion"], action["minWriterVersion"]
        return cls(
            reader,
            writer,
            _features(_READER, reader, action.get("readerFeatures"), _TABLE_FEATURES[0]),
            _features(_WRITER, writer, action.get("writerFeatures"), _TABLE_FEATURES[1]),
        )

    @property
    def features(self) -> frozenset[str]:
        """All features, of readers and of writers."""
        return self.reader_features | self.writer_features

    def joined(self, other: Protocol) -> Protocol:
        """Return the protocol of a table that needs the features of both; no version is lowered."""
        readers = self.reader_features | other.reader_features
        reader, writer = max(self.reader, other.reader), max(self.writer, other.writer)
        return Protocol(
            reader,
            _TABLE_FEATURES[1] if reader >= _TABLE_FEATURES[0] else writer,
            readers,
            self.writer_features | other.writer_features | readers,
        )

    def action(self) -> dict[str, Any]:
        """Return the ``protocol`` action of the Delta log that requires these features."""
        made: dict[str, Any] = {"minReaderVersion": self.reader, "minWriterVersion": self.writer}
        if self.reader >= _TABLE_FEATURES[0]:
            made["readerFeatures"] = sorted(self.reader_features)
        if self.writer >= _TABLE_FEATURES[1]:
            made["writerFeatures"] = sorted(self.writer_features)
        return made


def _features(
    implied: dict[int, list[str]], version: int, listed: list[str] | None, by_name: int
) -> frozenset[str]:
    if version >= by_name:
        return frozenset(listed or ())
    return frozenset(name for first, names in implied.items() if first <= version for name in names)
