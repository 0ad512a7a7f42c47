"""Login by OAuth 2.0: client credentials, exchanged for a token at an identity provider (OIDC)."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from sources.common.fields import Declared

_EXTENSION = re.compile(r"[A-Za-z]+")
# RFC 7628: printable characters; librdkafka separates extensions by commas.
_EXTENSION_VALUE = re.compile(r"[!-+\--~]+")
LOGIN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
"""Class of Kafka's Java client that logs in with a token."""
_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


class OAuth(Declared):
    """Client credentials at an identity provider, for ``mechanism: OAUTHBEARER`` (KIP-768).

    Attributes:
        token_url: Token endpoint of the identity provider, ``https://…``.
        client_id: Id of this client.
        client_secret: Its secret, as ``${NAME}`` of an environment variable.
        scope: Scope that is asked for, if the provider needs one.
        extensions: SASL extensions that the broker needs, such as ``logicalCluster``.
        ca: PEM file with the certificate authorities to trust for the token endpoint, relative to
            the pipeline's file; those of the system by default.
    """

    token_url: str
    client_id: str = Field(min_length=1)
    client_secret: SecretStr = Field(min_length=1)
    scope: str | None = None
    extensions: dict[str, str] = Field(default_factory=dict)
    ca: str | None = None

    @model_validator(mode="after")
    def _values_survive_both_clients(self) -> OAuth:
        url = urlsplit(self.token_url)
        if url.scheme not in ("http", "https") or not url.hostname or url.password:
            message = (
                "`token_url` is not the address of a token endpoint. Write "
                "https://host/path, without a user or a password in it."
            )
            raise ValueError(message)
        secret = self.client_secret.get_secret_value()
        named = {"client_id": self.client_id, "client_secret": secret, "scope": self.scope or ""}
        for name, value in named.items():
            if value != value.strip():
                message = (
                    f"`{name}` starts or ends with white space, which Kafka's Java client would "
                    "drop. Remove the white space, or choose another value without it."
                )
                raise ValueError(message)
        for name, value in self.extensions.items():
            if not _EXTENSION.fullmatch(name) or name == "auth":
                message = (
                    f"`extensions`: `{name}` can't be the name of a SASL extension (RFC 7628), "
                    "which is made of letters and is not `auth`. Correct the name."
                )
                raise ValueError(message)
            if not _EXTENSION_VALUE.fullmatch(value):
                message = (
                    f"`extensions.{name}` has a blank, a comma or another character that the "
                    "clients can't pass on. Correct the value."
                )
                raise ValueError(message)
        return self

    def located(self, locate: Callable[[str], str]) -> OAuth:
        """Return a copy with the path of ``ca`` made absolute; itself if none is declared.

        Args:
            locate: Makes a path that is relative to the pipeline's file absolute.
        """
        return self if self.ca is None else self.model_copy(update={"ca": locate(self.ca)})


def oauth_client_settings(oauth: OAuth) -> dict[str, str]:
    """Return librdkafka's settings for a login by OAuth; they contain the secret in plain text.

    Value by name, as in librdkafka's ``CONFIGURATION.md``. Never print or store them.
    """
    settings = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": oauth.token_url,
        "sasl.oauthbearer.client.id": oauth.client_id,
        "sasl.oauthbearer.client.secret": oauth.client_secret.get_secret_value(),
        "sasl.oauthbearer.scope": oauth.scope or "",
        "sasl.oauthbearer.extensions": ",".join(f"{k}={v}" for k, v in oauth.extensions.items()),
        "https.ca.location": oauth.ca or "",
    }
    return {name: value for name, value in settings.items() if value}


def oauth_java_settings(oauth: OAuth) -> tuple[dict[str, str], dict[str, str]]:
    """Return settings of Kafka's Java client for a login by OAuth, and its JAAS options.

    Two mappings by name: the settings, and the options of :data:`LOGIN_MODULE` with the secret in
    plain text. Never print or store them.
    """
    settings = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": _HANDLER,
        "sasl.oauthbearer.token.endpoint.url": oauth.token_url,
    }
    options = {
        "clientId": oauth.client_id,
        "clientSecret": oauth.client_secret.get_secret_value(),
        "scope": oauth.scope or "",
        **{f"extension_{name}": value for name, value in oauth.extensions.items()},
    }
    if oauth.ca is not None:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": oauth.ca}
    return settings, {name: value for name, value in options.items() if value}
