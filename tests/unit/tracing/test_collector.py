"""Where traces go, as the installation names it, and the headers of its Secret."""

from __future__ import annotations

import json

import pytest

from podtune.tracing.collector import CollectorError, UnusableHeaders, parse_collector, parse_headers


@pytest.mark.parametrize("endpoint", ["http://otel:4318", "http://otel:4318/"])
def test_the_path_of_traces_is_added(endpoint: str) -> None:
    collector = parse_collector(json.dumps({"endpoint": endpoint}))
    assert collector is not None
    assert collector.url == "http://otel:4318/v1/traces"


def test_an_address_may_have_a_path() -> None:
    collector = parse_collector('{"endpoint": "https://otlp.example.com/otlp"}')
    assert collector is not None
    assert collector.url == "https://otlp.example.com/otlp/v1/traces"


def test_without_a_setting_there_is_no_collector() -> None:
    assert parse_collector("") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("otel:4318", "is not JSON"),
        ('{"endpoint": "otel:4318"}', "endpoint: 'otel:4318' is not an address; write it like http://"),
        ('{"endpoint": "http://me:word@otel"}', "endpoint: must have no user, password, query or fragment"),
        ('{"endpoint": "http://otel:4318/v1/traces"}', "ends with /v1/traces, which is added to it; leave it out"),
        ('{"endpoint": "http://otel:4318", "protocol": "grpc"}', "protocol: Extra inputs"),
        ("[]", "valid dictionary"),
    ],
)
def test_what_is_no_collector_is_refused_with_the_remedy(text: str, message: str) -> None:
    with pytest.raises(CollectorError, match=message):
        parse_collector(text)


def test_headers_are_read_as_those_of_opentelemetry() -> None:
    assert parse_headers("api-key=abc, x_team = a%2Cb ,") == {"api-key": "abc", "x_team": "a,b"}
    assert parse_headers("Authorization=Basic%20dXNlcjpwYXNz") == {"Authorization": "Basic dXNlcjpwYXNz"}
    assert parse_headers("") == {}


@pytest.mark.parametrize("text", ["api-key: s3cret", "=s3cret", "a b=s3cret", "key=s3cret%0d%0aHost: x"])
def test_what_are_no_headers_is_refused_without_a_word_of_them(text: str) -> None:
    with pytest.raises(UnusableHeaders) as error:
        parse_headers(text)
    assert "s3cret" not in str(error.value)
