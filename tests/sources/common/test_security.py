"""How a secured broker is declared, and what each of the two clients is told of it."""

from __future__ import annotations

import base64
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from sources.common.login.security import (
    Security,
    client_settings,
    jaas_entry,
    spark_settings,
)
from sources.errors import InputError

SECRET, KEY_SECRET = "hunter2", "swordfish"
USER = {"mechanism": "PLAIN", "username": "alice", "password": SECRET}
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"
OTHER_CERTIFICATE = CERTIFICATE.replace("MIIB", "MIIC")
KEY = "-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----"
ENCRYPTED_KEY = KEY.replace("PRIVATE", "ENCRYPTED PRIVATE")
OLD_KEY = KEY.replace("PRIVATE", "EC PRIVATE")
TLS = {"protocol": "SSL", "certificate": "c.pem", "key": "k.pem"}

# What an environment variable or YAML can hold and both clients can transport.
TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=30)
STARTS_WITH_BLANK = re.compile(r"[ \t\n\v\f\r]")


def declare(**fields: Any) -> Security:
    return Security.model_validate(fields)


def refusal(**fields: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        declare(**fields)
    assert SECRET not in str(caught.value)
    assert KEY_SECRET not in str(caught.value)
    return str(caught.value)


def files(folder: Path, key: str = KEY) -> dict[str, str]:
    made = {"ca": CERTIFICATE, "certificate": CERTIFICATE, "key": key}
    for name, text in made.items():
        (folder / name).write_text(text)
    return {name: str(folder / name) for name in made}


def unquoted(text: str) -> tuple[str, str]:
    """A string of Java's StreamTokenizer, and what comes after it."""
    escapes = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
    assert text[0] == '"'
    read, at = [], 1
    while text[at] != '"':
        assert text[at] not in "\r\n", "the tokenizer ends a string with its line"
        if text[at] == "\\":
            at += 1
            octal = re.match(r"[0-3][0-7]{0,2}|[4-7][0-7]?", text[at:])
            if octal:
                read.append(chr(int(octal[0], 8)))
                at += len(octal[0])
                continue
            read.append(escapes.get(text[at], text[at]))
        else:
            read.append(text[at])
        at += 1
    return "".join(read), text[at + 1 :]


def options_of(entry: str) -> dict[str, str]:
    module, required, rest = entry.split(" ", 2)
    assert (module, required) == ("Module", "required")
    options = {}
    while rest != ";":
        name, rest = unquoted(rest.lstrip(" "))
        assert rest[0] == "="
        options[name], rest = unquoted(rest[1:])
    return options


@pytest.mark.parametrize("missing", ["mechanism", "username", "password"])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_sasl_protocol_needs_all_that_a_user_signs_in_with(protocol: str, missing: str) -> None:
    given_fields = {name: value for name, value in USER.items() if name != missing}
    assert f"needs `{missing}`." in refusal(protocol=protocol, **given_fields)


def test_an_empty_password_is_none() -> None:
    assert "needs `password`." in refusal(protocol="SASL_SSL", **{**USER, "password": ""})


def test_ssl_knows_no_user() -> None:
    text = refusal(protocol="SSL", **USER)
    assert "remove `mechanism`, `username`, `password`, or declare `protocol: SASL_SSL`" in text


def test_without_tls_there_are_no_certificates() -> None:
    text = refusal(protocol="SASL_PLAINTEXT", **USER, ca="ca.pem")
    assert "has no TLS: remove `ca`, or declare `protocol: SASL_SSL`" in text


@pytest.mark.parametrize(("one", "other"), [("certificate", "key"), ("key", "certificate")])
def test_certificate_and_key_go_together(one: str, other: str) -> None:
    assert f"`{other}` is missing" in refusal(protocol="SSL", **{one: "x.pem"})


def test_a_key_password_needs_a_key() -> None:
    text = refusal(protocol="SSL", key_password=KEY_SECRET)
    assert "`key_password` has no meaning without `key`" in text


@pytest.mark.parametrize("blank", " \t\n\v\f\r")
def test_a_password_that_librdkafka_would_shorten_is_refused(blank: str) -> None:
    text = refusal(protocol="SASL_SSL", **{**USER, "password": f"{blank}{SECRET}"})
    assert "`password` starts with white space" in text
    text = refusal(protocol="SASL_SSL", **{**USER, "password": f"x\0{SECRET}"})
    assert "`password` contains the character NUL" in text


def test_a_scram_user_is_ascii() -> None:
    scram = {**USER, "mechanism": "SCRAM-SHA-512", "username": "zoé"}
    assert "needs a `username` in ASCII" in refusal(protocol="SASL_SSL", **scram)
    assert declare(protocol="SASL_SSL", **{**scram, "mechanism": "PLAIN"}).username == "zoé"


@pytest.mark.parametrize("field", ["protocol", "mechanism"])
def test_an_unknown_way_is_refused_with_the_known_ones(field: str) -> None:
    text = refusal(**{"protocol": "SASL_SSL", **USER, field: "GSSAPI"})
    assert "Input should be 'SASL_PLAINTEXT'" in text or "Input should be 'PLAIN'" in text


OAUTH = {"token_url": "https://id.example/token", "client_id": "me", "client_secret": SECRET}


def test_an_oauth_client_is_told_to_both_clients(tmp_path: Path) -> None:
    extensions = {"logicalCluster": "lkc-1", "identityPoolId": "pool-1"}
    more = {"scope": 'a"b', "extensions": extensions, "ca": files(tmp_path)["ca"]}
    declared = declare(protocol="SASL_SSL", mechanism="OAUTHBEARER", oauth={**OAUTH, **more})
    assert client_settings(declared) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.scope": 'a"b',
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-1",
        "https.ca.location": str(tmp_path / "ca"),
    }
    told = spark_settings(declared)
    entry = told["kafka.sasl.jaas.config"].split(" ", 1)[1]
    assert options_of(f"Module {entry}") == {
        "clientId": "me",
        "clientSecret": SECRET,
        "scope": 'a"b',
        "extension_logicalCluster": "lkc-1",
        "extension_identityPoolId": "pool-1",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "ca"),
    }
    assert SECRET not in repr(declared)


def test_files_of_an_identity_provider_are_located_and_read() -> None:
    oauth = {**OAUTH, "ca": "gone.pem"}
    declared = declare(protocol="SASL_SSL", mechanism="OAUTHBEARER", oauth=oauth)
    located = declared.located(lambda path: f"/at/{path}")
    with pytest.raises(InputError, match=r"`security.oauth.ca`: file /at/gone.pem can't be read"):
        client_settings(located)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"mechanism": "OAUTHBEARER"}, "needs `oauth`."),
        (
            {"mechanism": "OAUTHBEARER", "oauth": OAUTH, "username": "a"},
            "`username` has no meaning",
        ),
        ({"mechanism": "PLAIN", **USER, "oauth": OAUTH}, "`oauth` has no meaning"),
        ({"mechanism": "AWS_MSK_IAM"}, "needs `region`."),
        ({"mechanism": "AWS_MSK_IAM", "region": "Frankfurt"}, "String should match pattern"),
        (
            {"mechanism": "AWS_MSK_IAM", "region": "eu-central-1", "protocol": "SASL_PLAINTEXT"},
            "works with TLS only",
        ),
        ({"oauth": {**OAUTH, "token_url": "id.example"}}, "not the address of a token endpoint"),
        ({"oauth": {**OAUTH, "extensions": {"a_b": "c"}}}, "`a_b` can't be the name"),
        ({"oauth": {**OAUTH, "extensions": {"a": "c,d=e"}}}, "`extensions.a` has a blank, a comma"),
        (
            {"mechanism": "OAUTHBEARER", "oauth": {**OAUTH, "client_secret": f"{SECRET} "}},
            "`client_secret` starts or ends with white space",
        ),
        (
            {"mechanism": "OAUTHBEARER", "oauth": {**OAUTH, "client_secret": f"x\0{SECRET}"}},
            "`oauth.client_secret` contains the character NUL",
        ),
    ],
)
def test_a_login_that_means_nothing_is_refused(fields: dict[str, Any], told: str) -> None:
    assert told in refusal(**{"protocol": "SASL_SSL", **fields})


def test_amazon_msk_gets_a_signed_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    declared = declare(protocol="SASL_SSL", mechanism="AWS_MSK_IAM", region="eu-central-1")
    told = client_settings(declared)
    assert (told["security.protocol"], told["sasl.mechanism"]) == ("SASL_SSL", "OAUTHBEARER")
    token, expires_s = told["oauth_cb"]("")
    url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    assert url.startswith(
        "https://kafka.eu-central-1.amazonaws.com/?Action=kafka-cluster%3AConnect"
    )
    assert "AKIDEXAMPLE" in url
    assert SECRET not in url
    assert 0 < expires_s - time.time() < 3600
    java = spark_settings(declared)
    assert java["kafka.sasl.mechanism"] == "AWS_MSK_IAM"
    assert java["kafka.sasl.jaas.config"] == "software.amazon.msk.auth.iam.IAMLoginModule required;"


def test_nothing_is_told_of_a_plain_broker() -> None:
    assert client_settings(None) == {}
    assert spark_settings(None) == {}


def test_a_user_without_tls() -> None:
    security = declare(protocol="SASL_PLAINTEXT", **{**USER, "mechanism": "SCRAM-SHA-256"})
    assert client_settings(security) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": SECRET,
    }
    assert spark_settings(security) == {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'"username"="alice" "password"="{SECRET}";'
        ),
    }


def test_a_user_with_tls_trusts_the_systems_authorities_unless_told(tmp_path: Path) -> None:
    plain = declare(protocol="SASL_SSL", **USER)
    assert not [name for name in client_settings(plain) if name.startswith("ssl.")]
    assert not [name for name in spark_settings(plain) if name.startswith("kafka.ssl.")]
    ca = files(tmp_path)["ca"]
    told = declare(protocol="SASL_SSL", **USER, ca=ca)
    assert client_settings(told)["ssl.ca.location"] == ca
    settings = spark_settings(told)
    assert settings["kafka.ssl.truststore.type"] == "PEM"
    assert settings["kafka.ssl.truststore.location"] == ca
    assert "PlainLoginModule" in settings["kafka.sasl.jaas.config"]


def test_a_client_certificate(tmp_path: Path) -> None:
    paths = files(tmp_path, ENCRYPTED_KEY)
    security = declare(protocol="SSL", **paths, key_password=KEY_SECRET)
    assert client_settings(security) == {
        "security.protocol": "SSL",
        "ssl.ca.location": paths["ca"],
        "ssl.certificate.location": paths["certificate"],
        "ssl.key.location": paths["key"],
        "ssl.key.password": KEY_SECRET,
    }
    assert spark_settings(security) == {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": paths["ca"],
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": CERTIFICATE,
        "kafka.ssl.keystore.key": f"secret\n{ENCRYPTED_KEY}",
        "kafka.ssl.key.password": KEY_SECRET,
    }


def test_one_file_may_hold_certificates_key_and_comments(tmp_path: Path) -> None:
    path = tmp_path / "client.pem"
    path.write_bytes(
        f"Größe: 1\n{CERTIFICATE}\nsubject=CN\n{KEY}\n{OTHER_CERTIFICATE}\n".encode("latin-1")
    )
    settings = spark_settings(declare(protocol="SSL", certificate=str(path), key=str(path)))
    chain = f"{CERTIFICATE}\n{OTHER_CERTIFICATE}"
    assert settings["kafka.ssl.keystore.certificate.chain"] == chain
    assert settings["kafka.ssl.keystore.key"] == f"secret\n{KEY}"


@pytest.mark.parametrize("translate", [client_settings, spark_settings])
@pytest.mark.parametrize("field", ["ca", "certificate", "key"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, field: str, translate: Any) -> None:
    gone = str(tmp_path / "gone.pem")
    security = declare(protocol="SSL", **{**files(tmp_path), field: gone})
    with pytest.raises(InputError) as caught:
        translate(security)
    assert caught.value.message == (
        f"`security.{field}`: file {gone} can't be read: No such file or directory."
    )
    assert "relative to the pipeline's file" in caught.value.hint


NO_CERTIFICATE = (
    "contains no whole certificate in PEM, from `-----BEGIN CERTIFICATE-----` to `-----END "
    "CERTIFICATE-----`."
)
NO_KEY = (
    "contains no whole private key in PKCS#8 and PEM, which Kafka's Java client needs: from "
    "`-----BEGIN PRIVATE KEY-----` or `-----BEGIN ENCRYPTED PRIVATE KEY-----` to the END line."
)
IS_PLAIN = "is not encrypted, but `key_password` is declared."


@pytest.mark.parametrize(
    ("field", "content", "password", "message", "hint"),
    [
        ("ca", "\x30\x82", None, NO_CERTIFICATE, "openssl x509 -inform der"),
        ("certificate", KEY, None, NO_CERTIFICATE, "openssl x509 -inform der"),
        ("certificate", CERTIFICATE[:-10], None, NO_CERTIFICATE, "openssl x509 -inform der"),
        ("key", CERTIFICATE, None, NO_KEY, "openssl pkcs8 -topk8 -nocrypt -in"),
        ("key", KEY[:-10], None, NO_KEY, "openssl pkcs8 -topk8 -nocrypt -in"),
        ("key", OLD_KEY, KEY_SECRET, NO_KEY, "openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in"),
        (
            "key",
            ENCRYPTED_KEY,
            None,
            "is encrypted, and no `key_password` is declared.",
            "key_password: ${KAFKA_KEY_PASSWORD}",
        ),
        ("key", KEY, KEY_SECRET, IS_PLAIN, "Remove `key_password`"),
    ],
)
def test_a_file_that_the_java_client_could_not_use_is_refused_for_both(
    tmp_path: Path, field: str, content: str, password: str | None, message: str, hint: str
) -> None:
    paths = files(tmp_path)
    Path(paths[field]).write_text(content)
    security = declare(protocol="SSL", **paths, key_password=password)
    for translate in (client_settings, spark_settings):
        with pytest.raises(InputError) as caught:
            translate(security)
        assert caught.value.message == f"`security.{field}`: file {paths[field]} {message}"
        assert hint in caught.value.hint
        assert "MIGH" not in str(caught.value)
        assert KEY_SECRET not in str(caught.value)


def test_paths_are_made_absolute_and_nothing_else_changes() -> None:
    security = declare(**TLS, key_password=KEY_SECRET)
    located = security.located(lambda path: f"/at/{path}")
    assert located == declare(
        protocol="SSL", certificate="/at/c.pem", key="/at/k.pem", key_password=KEY_SECRET
    )


@given(st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=3))
def test_any_text_survives_the_jaas_configuration(options: dict[str, str]) -> None:
    assert options_of(jaas_entry("Module", options)) == options


@given(TEXTS, TEXTS)
def test_any_user_and_password_that_is_accepted_reaches_both_clients(
    username: str, password: str
) -> None:
    fields = {"mechanism": "PLAIN", "username": username, "password": password}
    try:
        security = declare(protocol="SASL_SSL", **fields)
    except ValidationError:
        texts = (username, password)
        assert any(not text or STARTS_WITH_BLANK.match(text) for text in texts)
        return
    settings = client_settings(security)
    assert (settings["sasl.username"], settings["sasl.password"]) == (username, password)
    _, _, rest = spark_settings(security)["kafka.sasl.jaas.config"].split(" ", 2)
    assert options_of(f"Module required {rest}") == {"username": username, "password": password}


def test_nothing_that_shows_a_declaration_shows_its_secrets() -> None:
    security = declare(
        protocol="SASL_SSL", **USER, certificate="c", key="k", key_password="swordfish"
    )
    shown = [
        repr(security),
        str(security),
        repr(security.model_dump()),
        repr(security.model_dump(mode="json")),
        security.model_dump_json(),
        repr(security.located(str)),
    ]
    for text in shown:
        assert SECRET not in text
        assert KEY_SECRET not in text
    assert security.password == SecretStr(SECRET)
