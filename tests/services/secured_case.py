"""A broker with three secured listeners, and how to sign in on each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme
from confluent_kafka import Producer
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from pydantic import SecretStr

from hybrid_extensions.servers.broker import LocalBroker, create_topic
from hybrid_extensions.servers.secured import SecuredListeners
from sources.common.login.security import Security, client_settings
from tests.services.identity_provider import IdentityProvider

# With the characters that one of the formats in between gives a meaning to.
USER = 'al"i\\ce ;= '
PASSWORD = 'hunter2"\\n\n$€#{}; '
RECORDS = [b"one", b"two", b"three"]
TOPIC = "guarded"


def pkcs8(pem: bytes) -> bytes:
    """A private key in the form that Java reads."""
    key = load_pem_private_key(pem, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@dataclass(frozen=True)
class Certificates:
    """PEM files of one authority, a broker and a client."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def certificate(self, name: str) -> Path:
        return self.folder / f"{name}.pem"

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key.pem"

    @classmethod
    def make(cls, folder: Path) -> Certificates:
        made = cls(folder)
        authority = trustme.CA()
        authority.cert_pem.write_to_path(made.ca)
        for name, identity in (("broker", "127.0.0.1"), ("client", "client.example")):
            one = authority.issue_cert(identity)
            made.certificate(name).write_bytes(b"".join(c.bytes() for c in one.cert_chain_pems))
            made.key(name).write_bytes(pkcs8(one.private_key_pem.bytes()))
        return made


@dataclass(frozen=True)
class SecuredCase:
    """A running broker, the files that go with it, and a topic that holds ``RECORDS``."""

    broker: LocalBroker
    files: Certificates
    provider: IdentityProvider

    def security(self, way: str, password: str = PASSWORD) -> Security:
        """The declaration for one way to sign in, such as ``SASL_SSL PLAIN`` or ``SSL``."""
        protocol, _, mechanism = way.partition(" ")
        user: dict[str, object] = {
            "mechanism": mechanism,
            "username": USER,
            "password": SecretStr(password),
        }
        if mechanism == "OAUTHBEARER":
            named = {"client_id": USER.strip(), "client_secret": SecretStr(password.strip())}
            client = {**named, "scope": "kafka"}
            oauth = {**client, "token_url": self.provider.token_url, "ca": str(self.files.ca)}
            user = {"mechanism": mechanism, "oauth": oauth}
        ca: dict[str, object] = {"ca": str(self.files.ca)}
        certificate: dict[str, object] = {
            "certificate": str(self.files.certificate("client")),
            "key": str(self.files.key("client")),
        }
        fields = {"SASL_PLAINTEXT": user, "SASL_SSL": {**user, **ca}, "SSL": {**ca, **certificate}}
        return Security.model_validate({"protocol": protocol, **fields[protocol]})

    def client(self, security: Security) -> dict[str, Any]:
        """Settings of a confluent-kafka client."""
        servers = self.broker.address(security.protocol)
        return {"bootstrap.servers": servers, **client_settings(security)}


OAUTH = "SASL_SSL OAUTHBEARER"
WAYS = [
    *("SASL_PLAINTEXT PLAIN", "SASL_PLAINTEXT SCRAM-SHA-512", "SASL_SSL SCRAM-SHA-256", "SSL"),
    OAUTH,
]


@contextmanager
def secured_broker(folder: Path) -> Iterator[SecuredCase]:
    """The case, until the end of the block."""
    files = Certificates.make(folder)
    server_files = (files.certificate("broker"), files.key("broker"))
    with IdentityProvider({USER.strip(): PASSWORD.strip()}, *server_files) as provider:
        yield from _running(files, provider)


def _running(files: Certificates, provider: IdentityProvider) -> Iterator[SecuredCase]:
    listeners = SecuredListeners(
        protocols=("SASL_PLAINTEXT", "SASL_SSL", "SSL"),
        users={USER: PASSWORD},
        certificate=files.certificate("broker"),
        key=files.key("broker"),
        ca=files.ca,
        client_certificate="required",
        issuer=provider.issuer,
    )
    with LocalBroker(secured=listeners) as broker:
        create_topic(broker.bootstrap_servers, TOPIC)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for record in RECORDS:
            producer.produce(TOPIC, record)
        assert producer.flush(30) == 0
        yield SecuredCase(broker, files, provider)
