"""Secured listeners of a local broker, with their users and certificates."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from sources.common.login.oauth import LOGIN_MODULE
from sources.common.login.security import jaas_entry
from sources.errors import InputError, RunError

Protocol = Literal["SASL_PLAINTEXT", "SASL_SSL", "SSL"]

_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_TOKEN_CHECK = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
_SCRAM = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
# The minimum that Kafka accepts.
_ITERATIONS = 4096
_TIMEOUT_S = 10.0
_POLL_S = 0.02


@dataclass(frozen=True)
class TokenIssuer:
    """An identity provider whose tokens a local broker accepts, checked by its published keys.

    Attributes:
        url: Issuer that a token names (``iss``).
        keys_url: Where its public keys are (JWKS).
        audience: Audience that a token has to be for (``aud``).
    """

    url: str
    keys_url: str
    audience: str

    @property
    def java_option(self) -> str:
        """Option of the broker's Java: Kafka gets keys from such URLs only (KIP-1139)."""
        return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.keys_url}"

    def settings(self) -> dict[str, str]:
        """Return Kafka's settings of a listener that accepts these tokens."""
        return {
            "sasl.oauthbearer.jwks.endpoint.url": self.keys_url,
            "sasl.oauthbearer.expected.issuer": self.url,
            "sasl.oauthbearer.expected.audience": self.audience,
            "oauthbearer.sasl.server.callback.handler.class": _TOKEN_CHECK,
            "oauthbearer.sasl.jaas.config": jaas_entry(LOGIN_MODULE, {}),
        }


@dataclass(frozen=True)
class SecuredListeners:
    """Listeners that a local broker opens next to its plain one.

    Args:
        protocols: Kafka's security protocols; one listener each.
        users: Password of each user, for PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 alike.
        certificate: PEM file of the broker's certificate; it must name 127.0.0.1.
        key: PEM file of the certificate's key, in PKCS#8 and not encrypted.
        ca: PEM file of the authorities whose client certificates are accepted.
        client_certificate: Whether clients of ``SSL`` must present a certificate; those of
            ``SASL_SSL`` have their password.
        issuer: Identity provider whose tokens are accepted for OAUTHBEARER; none by default.
    """

    protocols: tuple[Protocol, ...]
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    client_certificate: Literal["required", "requested", "none"] = "none"
    issuer: TokenIssuer | None = None

    def settings(self) -> dict[str, str]:
        """Return Kafka's broker settings for these listeners, without their ports.

        They contain passwords and the certificate's key.

        Raises:
            InputError: A listener needs a file (certificate, key, ca) that is not named, or can't
                be read.
        """
        settings: dict[str, str] = {}
        for protocol in self.protocols:
            own: dict[str, str] = {}
            if protocol.startswith("SASL"):
                own |= self._sign_in()
            if protocol.endswith("SSL"):
                own |= self._tls("none" if protocol == "SASL_SSL" else self.client_certificate)
            prefix = f"listener.name.{protocol.lower()}"
            settings |= {f"{prefix}.{name}": value for name, value in own.items()}
        return settings

    def create_users(self, admin: AdminClient) -> None:
        """Create the SCRAM users, or overwrite those of these names; Kafka keeps them (KIP-554).

        Returns once the broker knows them, or after 10 s. Does nothing without users, or without a
        SASL listener; PLAIN users need no such step, they are in the broker's settings.

        Args:
            admin: Client of the running broker.

        Raises:
            RunError: The broker refuses the users.
        """
        if not self.users or not any(one.startswith("SASL") for one in self.protocols):
            return
        try:
            # Kafka refuses a request that has a user twice.
            for mechanism in _SCRAM.values():
                info = ScramCredentialInfo(mechanism, _ITERATIONS)
                changes = [
                    UserScramCredentialUpsertion(name, info, password.encode())
                    for name, password in self.users.items()
                ]
                for answer in admin.alter_user_scram_credentials(changes).values():
                    answer.result(_TIMEOUT_S)
            self._wait_until_known(admin)
        except KafkaException as error:
            names, reason = ", ".join(self.users), error.args[0].str().rstrip(".")
            message = f"The broker's SCRAM users ({names}) can't be created: {reason}."
            hint = "Correct the names and passwords in `users`, then start the broker again."
            raise RunError(message, hint) from None

    def _wait_until_known(self, admin: AdminClient) -> None:
        # The answer comes when the change is in the log, shortly before the broker applies it.
        deadline = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline:
            found = admin.describe_user_scram_credentials().result(_TIMEOUT_S)
            known = {name: one.scram_credential_infos for name, one in found.items()}
            if all(len(known.get(name, ())) == len(_SCRAM) for name in self.users):
                return
            time.sleep(_POLL_S)

    def _sign_in(self) -> dict[str, str]:
        passwords = {f"user_{name}": password for name, password in self.users.items()}
        tokens = {} if self.issuer is None else self.issuer.settings()
        enabled = ["PLAIN", *_SCRAM, *(["OAUTHBEARER"] if tokens else [])]
        return {
            **tokens,
            "sasl.enabled.mechanisms": ",".join(enabled),
            "plain.sasl.jaas.config": jaas_entry(_PLAIN_MODULE, passwords),
            **{
                f"{mechanism.lower()}.sasl.jaas.config": jaas_entry(_SCRAM_MODULE, {})
                for mechanism in _SCRAM
            },
        }

    def _tls(self, client_certificate: str) -> dict[str, str]:
        settings = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _read("certificate", self.certificate),
            "ssl.keystore.key": _read("key", self.key),
            "ssl.client.auth": client_certificate,
        }
        if client_certificate != "none":
            settings["ssl.truststore.type"] = "PEM"
            settings["ssl.truststore.certificates"] = _read("ca", self.ca)
        return settings


def _read(field_name: str, path: Path | None) -> str:
    if path is None:
        message = (
            f"`{field_name}` is not given, but the broker's TLS listeners need it: it is the path "
            "of a PEM file."
        )
        hint = f"Pass `{field_name}` to `SecuredListeners`, or leave out SSL and SASL_SSL."
        raise InputError(message, hint, field=field_name)
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        message = f"`{field_name}` names {path}, which can't be read: {error.strerror}."
        hint = "Make the file readable for this user, or name another PEM file."
        raise InputError(message, hint, field=field_name, file=str(path)) from None
