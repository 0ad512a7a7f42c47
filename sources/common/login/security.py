"""Security of Kafka clients (login and TLS): declared once, translated for librdkafka and Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, SecretStr, model_validator

from sources.common.fields import Declared
from sources.common.login.msk import msk_client_settings, msk_java_settings
from sources.common.login.oauth import (
    LOGIN_MODULE,
    OAuth,
    oauth_client_settings,
    oauth_java_settings,
)
from sources.errors import InputError

_LOGIN_MODULE = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_USER = ("username", "password")
# What each mechanism signs in with, and which fields are of a login at all.
_NEEDED = {"OAUTHBEARER": ("oauth",), "AWS_MSK_IAM": ("region",)}
_SIGN_IN = ("mechanism", *_USER, "oauth", "region")
M = TypeVar("M", bound=BaseModel)
_FILES = ("ca", "certificate", "key")
_BLANKS = (" ", "\t", "\n", "\v", "\f", "\r")
# In Java's StreamTokenizer a backslash escapes, and a string ends at the end of the line.
_JAAS_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"})

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.S)
# PKCS#8 only: the Java client can't read older forms.
_KEY = re.compile(
    r"-----BEGIN (ENCRYPTED )?PRIVATE KEY-----.+?-----END (?:ENCRYPTED )?PRIVATE KEY-----", re.S
)


class Security(Declared):
    """Authentication of the broker and of this client.

    Attributes:
        protocol: Kafka's security protocol: ``SSL`` stands for TLS, ``SASL`` for a login with
            username and password, by OAuth, or by AWS.
        mechanism: SASL mechanism of the login: ``PLAIN`` and ``SCRAM-…`` for username and password,
            ``OAUTHBEARER`` for a token of an identity provider, ``AWS_MSK_IAM`` for Amazon MSK with
            the credentials of AWS.
        username: User of the login.
        password: Password of that user, as ``${NAME}`` of an environment variable.
        oauth: Identity provider and client of ``mechanism: OAUTHBEARER``.
        region: AWS region of the cluster, for ``mechanism: AWS_MSK_IAM``.
        ca: PEM file with the certificate authorities to trust, relative to the pipeline's file;
            those of the system by default.
        certificate: PEM file with this client's certificate and the intermediate ones, relative to
            the pipeline's file.
        key: PEM file with the certificate's private key in PKCS#8, relative to the pipeline's
            file. Java 17 can't decrypt PBES2, OpenSSL's default (JDK-8231581): encrypt it with
            ``openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES``, run a newer Java, or leave it unencrypted
            and restrict access to the file.
        key_password: Password of the private key, as ``${NAME}`` of an environment variable.

    """

    protocol: Literal["SASL_PLAINTEXT", "SASL_SSL", "SSL"]
    mechanism: (
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"] | None
    ) = None
    username: str | None = None
    password: SecretStr | None = None
    oauth: OAuth | None = None
    region: Annotated[str, Field(pattern="^[a-z]{2}(-[a-z]+)+-[0-9]$")] | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: SecretStr | None = None

    @model_validator(mode="after")
    def _signs_in_as_the_protocol_asks(self) -> Security:
        given = [name for name in _SIGN_IN if getattr(self, name)]
        if self.protocol == "SSL" and given:
            message = f"SSL has no login: remove {_listed(given)}, or declare `protocol: SASL_SSL`."
            raise ValueError(message)
        needed = ("mechanism", *_NEEDED.get(self.mechanism or "", _USER))
        missing = [name for name in needed if name not in given]
        if self.protocol != "SSL" and missing:
            message = (
                f"`protocol: {self.protocol}` needs {_listed(missing)}. Declare what is missing, "
                "or `protocol: SSL` if the broker asks for no login."
            )
            raise ValueError(message)
        if others := [name for name in given if name not in needed]:
            message = (
                f"{_listed(others)} {'has' if len(others) == 1 else 'have'} no meaning with "
                f"`mechanism: {self.mechanism}`. Remove what is not of this login, or correct "
                "`mechanism`."
            )
            raise ValueError(message)
        if self.mechanism == "AWS_MSK_IAM" and self.protocol != "SASL_SSL":
            message = "`mechanism: AWS_MSK_IAM` works with TLS only. Write `protocol: SASL_SSL`."
            raise ValueError(message)
        if (self.mechanism or "").startswith("SCRAM") and not (self.username or "").isascii():
            # Brokers (Kafka's ScramMessages) answer with invalid credentials otherwise.
            message = (
                f"`mechanism: {self.mechanism}` needs a `username` in ASCII, and this one has "
                "other characters. Use another user, or `mechanism: PLAIN`."
            )
            raise ValueError(message)
        return self

    # Not a validator of the fields: their errors carry the value.
    @model_validator(mode="after")
    def _texts_survive_both_clients(self) -> Security:
        texts = {
            "username": self.username or "",
            "password": _clear(self.password),
            "key_password": _clear(self.key_password),
        }
        if self.oauth is not None:
            texts["oauth.client_id"] = self.oauth.client_id
            texts["oauth.client_secret"] = _clear(self.oauth.client_secret)
        for name, text in texts.items():
            if text.startswith(_BLANKS):
                message = (
                    f"`{name}` starts with white space, which Kafka's client librdkafka would "
                    "drop. Remove the white space, or choose another value without it."
                )
                raise ValueError(message)
            if "\0" in text:
                message = (
                    f"`{name}` contains the character NUL, at which Kafka's client librdkafka "
                    "would cut it off. Remove the character, or choose another value without it."
                )
                raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _files_suit_the_protocol(self) -> Security:
        given = [name for name in (*_FILES, "key_password") if getattr(self, name)]
        if self.protocol == "SASL_PLAINTEXT" and given:
            message = (
                f"`protocol: SASL_PLAINTEXT` has no TLS: remove {_listed(given)}, or declare "
                "`protocol: SASL_SSL`."
            )
            raise ValueError(message)
        if ("certificate" in given) != ("key" in given):
            missing = "key" if "certificate" in given else "certificate"
            message = (
                f"`certificate` and `key` are needed together: `{missing}` is missing. Add it, or "
                "remove the other one if the broker asks for no client certificate."
            )
            raise ValueError(message)
        if "key_password" in given and "key" not in given:
            message = (
                "`key_password` has no meaning without `key`. Remove it, or declare the private "
                "key's file as `key`."
            )
            raise ValueError(message)
        return self

    def located(self, locate: Callable[[str], str]) -> Security:
        """Return a copy with the paths of all TLS files made absolute.

        Args:
            locate: Makes a path that is relative to the pipeline's file absolute.
        """
        oauth = None if self.oauth is None else self.oauth.located(locate)
        return locate_files(self.model_copy(update={"oauth": oauth}), locate)


def locate_files(declared: M, locate: Callable[[str], str]) -> M:
    """Return a copy of a declaration with the paths of its TLS files made absolute.

    Args:
        declared: Declaration with the fields ``ca``, ``certificate`` and ``key``; those that are
            None stay so.
        locate: Makes a path that is relative to the pipeline's file absolute.
    """
    paths = {name: getattr(declared, name) for name in _FILES}
    return declared.model_copy(update={name: locate(path) for name, path in paths.items() if path})


def client_settings(security: Security | None) -> dict[str, Any]:
    """Return the login and TLS settings of a confluent-kafka client, with secrets in plain text.

    Args:
        security: Declared security with absolute paths; None for a broker without TLS and login.

    Returns:
        Value by name, as in librdkafka's ``CONFIGURATION.md``, and ``oauth_cb`` of confluent-kafka
        for ``AWS_MSK_IAM``; empty without ``security``.

    Raises:
        InputError: A file can't be read, contains no certificate or PKCS#8 key in PEM, or its
            encryption contradicts ``key_password``; or the extra ``msk`` is not installed.
    """
    if security is None:
        return {}
    _read_files(security)
    settings: dict[str, Any] = {
        "security.protocol": security.protocol,
        "sasl.mechanism": security.mechanism,
        "sasl.username": security.username,
        "sasl.password": _clear(security.password),
        "ssl.ca.location": security.ca,
        "ssl.certificate.location": security.certificate,
        "ssl.key.location": security.key,
        "ssl.key.password": _clear(security.key_password),
    }
    if security.oauth is not None:
        settings |= oauth_client_settings(security.oauth)
    if security.mechanism == "AWS_MSK_IAM" and security.region:
        settings |= msk_client_settings(security.region)
    return {name: value for name, value in settings.items() if value}


def spark_settings(security: Security | None) -> dict[str, str]:
    """Return the login and TLS options of Spark's Kafka source, with secrets in plain text.

    Certificate and key are passed as text (KIP-651), since a keystore file would have to hold both.

    Args:
        security: Declared security with absolute paths; None for a broker without TLS and login.

    Returns:
        Value by name: the settings of Kafka's Java client after ``kafka.``; empty without
        ``security``.

    Raises:
        InputError: A file can't be read, contains no certificate or PKCS#8 key in PEM, or its
            encryption contradicts ``key_password``.
    """
    if security is None:
        return {}
    texts = _read_files(security)
    settings: dict[str, str] = {"security.protocol": security.protocol}
    if security.oauth is not None:
        own, options = oauth_java_settings(security.oauth)
        settings |= {**own, "sasl.jaas.config": jaas_entry(LOGIN_MODULE, options)}
    elif security.mechanism == "AWS_MSK_IAM":
        settings |= msk_java_settings()
    elif security.mechanism and security.username:
        module = _LOGIN_MODULE[security.mechanism]
        user = {"username": security.username, "password": _clear(security.password)}
        settings["sasl.mechanism"] = security.mechanism
        settings["sasl.jaas.config"] = jaas_entry(module, user)
    if security.ca:
        settings["ssl.truststore.type"] = "PEM"
        settings["ssl.truststore.location"] = security.ca
    if security.certificate:
        settings["ssl.keystore.type"] = "PEM"
        settings["ssl.keystore.certificate.chain"] = texts["certificate"]
        # Query plans show options; Spark hides those whose name or value contains "secret"
        # (`spark.redaction.regex`). Kafka skips any text before the block.
        settings["ssl.keystore.key"] = f"secret\n{texts['key']}"
    if security.key_password:
        settings["ssl.key.password"] = _clear(security.key_password)
    return {f"kafka.{name}": value for name, value in settings.items()}


def jaas_entry(module: str, options: Mapping[str, str]) -> str:
    """Return a login of Kafka's Java client as a value of ``sasl.jaas.config``, with quotes.

    Args:
        module: Class of the login module.
        options: Options of the login module, such as ``username``; names and values may be any
            text.
    """
    written = (f"{_quoted(name)}={_quoted(value)}" for name, value in options.items())
    return f"{' '.join([module, 'required', *written])};"


def _read_files(security: Security) -> dict[str, str]:
    """Return the PEM blocks of the declared files, by field, without other text in them."""
    texts: dict[str, str] = {}
    named = {"ca": security.ca, "certificate": security.certificate}
    if security.oauth is not None:
        named["oauth.ca"] = security.oauth.ca
    for field, path in named.items():
        if path:
            blocks = [block[0] for block in _CERTIFICATE.finditer(_read(field, path))]
            if not blocks:
                message = (
                    f"`security.{field}`: file {path} contains no whole certificate in PEM, from "
                    "`-----BEGIN CERTIFICATE-----` to `-----END CERTIFICATE-----`."
                )
                hint = (
                    "Name a PEM file; convert a DER file with "
                    f"`openssl x509 -inform der -in {path} -out new.pem`."
                )
                raise InputError(message, hint, field=f"security.{field}", file=path)
            texts[field] = "\n".join(blocks)
    if security.key:
        texts["key"] = _key(security.key, bool(security.key_password))
    return texts


def _key(path: str, has_password: bool) -> str:
    text = _read("key", path)
    block = _KEY.search(text)
    if block is None:
        message = (
            f"`security.key`: file {path} contains no whole private key in PKCS#8 and PEM, which "
            "Kafka's Java client needs: from `-----BEGIN PRIVATE KEY-----` or `-----BEGIN "
            "ENCRYPTED PRIVATE KEY-----` to the END line."
        )
        # Java 17 can't decrypt OpenSSL's default.
        how = " -v1 PBE-SHA1-3DES" if has_password else " -nocrypt"
        hint = (
            "Correct the path; or convert the key, `openssl pkcs8 -topk8"
            f"{how} -in {path} -out new.pem`, and declare the new file as `key`."
        )
        raise InputError(message, hint, field="security.key", file=path)
    if block[1] and not has_password:
        message = f"`security.key`: file {path} is encrypted, and no `key_password` is declared."
        hint = "Declare `key_password: ${KAFKA_KEY_PASSWORD}` next to `key`, and set that variable."
        raise InputError(message, hint, field="security.key_password", file=path)
    if has_password and not block[1]:
        # The Java client would fail to decrypt it.
        message = f"`security.key`: file {path} is not encrypted, but `key_password` is declared."
        hint = "Remove `key_password`, or name the encrypted key as `key`."
        raise InputError(message, hint, field="security.key_password", file=path)
    return block[0]


def _read(field: str, path: str) -> str:
    try:
        # Text around the blocks may be in any encoding.
        return Path(path).read_text(encoding="ascii", errors="replace")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not a path"
        message = f"`security.{field}`: file {path} can't be read: {reason}."
        hint = (
            f"Correct `security.{field}` (relative to the pipeline's file), or let the user that "
            "runs this read the file."
        )
        raise InputError(message, hint, field=f"security.{field}", file=path) from None


def _clear(secret: SecretStr | None) -> str:
    return secret.get_secret_value() if secret else ""


def _quoted(text: str) -> str:
    return f'"{text.translate(_JAAS_ESCAPES)}"'


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
