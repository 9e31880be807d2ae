"""Kafka's security settings in the words of its Java clients."""

from __future__ import annotations

import re

import pytest

from statemgr.kafka.java import SPARK_SECRETS, is_secret, java_settings, spark_options

PASSWORD = 'hunter2"\\;'
KEY = "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n"  # pragma: allowlist secret
FILES = {
    "/cert": "-----BEGIN CERTIFICATE-----\nBB==\n-----END CERTIFICATE-----\n",
    "/key": KEY,
    "/old": "RSA PRIVATE KEY",
}


def java(**properties: str) -> dict[str, str]:
    return java_settings({name.replace("_", "."): value for name, value in properties.items()}, FILES.__getitem__)


def test_nothing_is_nothing() -> None:
    assert java_settings({}) == {}


def test_what_is_not_about_security_is_each_client_s_own() -> None:
    assert java(linger_ms="5", compression_type="lz4", socket_timeout_ms="1") == {}


def test_tls_by_the_authority_alone() -> None:
    assert java(security_protocol="ssl", ssl_ca_location="/ca.pem") == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
    }


def test_a_certificate_and_its_key_are_read() -> None:
    found = java(ssl_certificate_location="/cert", ssl_key_location="/key", ssl_key_password="p")
    assert found == {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": FILES["/cert"],
        "ssl.keystore.key": KEY,
        "ssl.key.password": "p",
    }


def test_a_store_of_pkcs12_is_named() -> None:
    assert java(ssl_keystore_location="/k.p12", ssl_keystore_password="p") == {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": "/k.p12",
        "ssl.keystore.password": "p",
    }


@pytest.mark.parametrize(("said", "means"), [("none", ""), ("https", "https")])
def test_whether_host_names_are_looked_at(said: str, means: str) -> None:
    assert java(ssl_endpoint_identification_algorithm=said) == {"ssl.endpoint.identification.algorithm": means}


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("scram-sha-512", "scram.ScramLoginModule"),
    ],
)
@pytest.mark.parametrize("name", ["sasl_mechanism", "sasl_mechanisms"])
def test_a_user_s_password_is_quoted_as_jaas_reads_it(mechanism: str, module: str, name: str) -> None:
    found = java(**{name: mechanism}, sasl_username="me", sasl_password=PASSWORD)
    assert found == {
        "sasl.mechanism": mechanism.upper(),
        "sasl.jaas.config": (
            f"org.apache.kafka.common.security.{module} required "
            r'username="me" password="hunter2\"\\;";'  # pragma: allowlist secret
        ),
    }


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"ssl_crl_location": "/x"}, "ssl.crl.location: Spark's Kafka client has no such setting"),
        ({"ssl_cipher_suites": "x", "ssl_ca_pem": "x"}, "ssl.ca.pem, ssl.cipher.suites: Spark's"),
        ({"enable_ssl_certificate_verification": "false"}, "enable.ssl.certificate.verification"),
        ({"ssl_certificate_location": "/cert"}, "ssl.certificate.location: a client's certificate and its key"),
        ({"ssl_key_location": "/key"}, "ssl.key.location: a client's certificate and its key"),
        ({"ssl_certificate_location": "/cert", "ssl_key_location": "/old"}, "PKCS#8 only; convert /old"),
        ({"sasl_mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI can't be passed on to Spark"),
        ({"sasl_mechanism": "PLAIN", "sasl_password": "hunter2"}, "sasl.username: missing"),  # pragma: allowlist secret
    ],
)
def test_what_has_no_counterpart_is_refused_rather_than_passed_over(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace(".", r"\.")) as refused:
        java(**properties)
    assert "hunter2" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_can_not_be_read_is_named() -> None:
    with pytest.raises(ValueError, match="/nowhere/key can't be read: No such file"):
        java_settings({"ssl.certificate.location": "/nowhere/cert", "ssl.key.location": "/nowhere/key"})


def test_options_of_spark_have_kafka_s_prefix() -> None:
    assert spark_options({"security.protocol": "ssl"}) == {"kafka.security.protocol": "SSL"}


@pytest.mark.parametrize(
    "name", ["kafka.sasl.jaas.config", "kafka.ssl.keystore.password", "kafka.ssl.keystore.key", "spark.x.secret"]
)
def test_secrets_are_known_by_their_names_to_us_and_to_spark(name: str) -> None:
    assert is_secret(name)
    assert re.search(SPARK_SECRETS, name)


@pytest.mark.parametrize(
    "name", ["kafka.security.protocol", "kafka.ssl.truststore.location", "spark.sql.shuffle.partitions"]
)
def test_other_settings_are_no_secrets(name: str) -> None:
    assert not is_secret(name)
    assert not re.search(SPARK_SECRETS, name)
