"""When traces are sent, and what is said if they cannot be."""

import sys

import pytest
from structlog.testing import capture_logs

from worker.bootstrap.tracing import INSTALL, open_tracer, wants_traces
from worker.ports.tracing import NO_TRACER

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
OWN_ENDPOINT = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "memory"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        (ENDPOINT, True),
        (OWN_ENDPOINT, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "console, otlp"}, True),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "True"}, False),
    ],
)
def test_the_standard_variables_turn_it_on(environ: dict[str, str], wanted: bool) -> None:
    assert wants_traces(environ) is wanted


async def told(environ: dict[str, str]) -> list[str]:
    """Return the errors of a tracer that cannot be opened."""
    with capture_logs() as logs:
        async with open_tracer(environ) as tracer:
            assert tracer is NO_TRACER
    return [line["error"] for line in logs]


async def test_without_the_variables_nothing_is_imported_or_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "worker.adapters.otel.tracer", raising=False)
    assert await told({}) == []
    assert "worker.adapters.otel.tracer" not in sys.modules


async def test_without_the_extra_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "worker.adapters.otel.tracer", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    assert await told(ENDPOINT) == [INSTALL]


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"])
async def test_another_protocol_is_refused_by_name(name: str) -> None:
    assert await told({**ENDPOINT, name: "grpc"}) == [f"{name}: only http/protobuf is supported, usually at port 4318"]


async def test_a_wrong_variable_does_not_stop_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    assert await told(ENDPOINT) == ["an OTEL_* variable is wrong: ValueError"]
