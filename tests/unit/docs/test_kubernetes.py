"""The Kubernetes manifests have the fields and types of the API, and name only what exists.

lightkube-models has the API's types as data classes, made from its OpenAPI description.
"""

import dataclasses
import re
import typing
from typing import Any

import lightkube.codecs
import pytest
import typer.main
import yaml

from tests.support.paths import ROOT
from worker.cli import app
from worker.operations.metrics import Metrics
from worker.settings.service import ServiceSettings

FOLDER = ROOT / "deploy/kubernetes"
FILES = sorted(FOLDER.glob("*.yaml"))
MANIFESTS = [(path.name, one) for path in FILES for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))]
VARIABLES = {f"MEESEEKS_{name.upper()}" for name in ServiceSettings.model_fields}
COMMANDS = typer.main.get_command(app).all_loaded()  # type: ignore[attr-defined]
SCALING = (ROOT / "docs/scaling.md").read_text(encoding="utf-8")


def faults(value: Any, kind: Any, path: str) -> list[str]:
    """Return where a value is not of the API's type: an unknown or missing field, or another type."""
    origin = typing.get_origin(kind)
    if origin is typing.Union:
        possible = [faults(value, one, path) for one in typing.get_args(kind) if one is not type(None)]
        return min(possible, key=len)
    inner = typing.get_args(kind)
    if origin is list:
        if not isinstance(value, list):
            return [f"{path}: not a list"]
        return [fault for place, one in enumerate(value) for fault in faults(one, inner[0], f"{path}[{place}]")]
    if origin is dict:
        items = value.items() if isinstance(value, dict) else [("", None)]
        return [fault for name, one in items for fault in faults(one, inner[1], f"{path}.{name}")]
    if dataclasses.is_dataclass(kind):
        return faults_of_object(value, kind, path)
    if kind in (str, int, bool) and type(value) is not kind:
        return [f"{path}: {value!r} is no {kind.__name__}"]
    return []


def faults_of_object(value: Any, kind: Any, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path}: not an object"]
    hints = typing.get_type_hints(kind)
    required = {one.name for one in dataclasses.fields(kind) if is_required(one)}
    found = [f"{path}.{name}: unknown" for name in value if name not in hints]
    found += [f"{path}.{name}: missing" for name in required - value.keys()]
    return found + [one for name in value.keys() & hints for one in faults(value[name], hints[name], f"{path}.{name}")]


def is_required(one: "dataclasses.Field[Any]") -> bool:
    return one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING


def checked(manifest: dict[str, Any]) -> list[str]:
    kind = type(lightkube.codecs.from_dict(manifest))
    model = next(base for base in kind.__mro__ if base.__module__.startswith("lightkube.models"))
    return faults(manifest, model, manifest["kind"])


def of_kind(*kinds: str) -> list[dict[str, Any]]:
    return [one for _, one in MANIFESTS if one["kind"] in kinds]


@pytest.mark.parametrize("number", range(len(MANIFESTS)), ids=lambda n: f"{MANIFESTS[n][0]}-{MANIFESTS[n][1]['kind']}")
def test_a_manifest_follows_the_api(number: int) -> None:
    assert checked(MANIFESTS[number][1]) == []


def test_what_is_not_of_the_api_is_found() -> None:
    manifest = of_kind("Deployment")[0]
    container = {"image": "x", "imagePull": "Always", "ports": [{"containerPort": "8787"}]}
    spec = {**manifest["spec"], "template": {"spec": {"containers": [container]}}}
    assert sorted(fault.partition("containers[0].")[2] for fault in checked({**manifest, "spec": spec})) == [
        "imagePull: unknown",
        "name: missing",
        "ports[0].containerPort: '8787' is no int",
    ]


def test_selectors_services_and_the_autoscaler_meet_their_pods() -> None:
    pods = [one["spec"]["template"]["metadata"]["labels"] for one in of_kind("Deployment", "StatefulSet")]
    selectors = [one["spec"]["selector"] for one in of_kind("Service")]
    selectors += [one["spec"]["selector"]["matchLabels"] for one in of_kind("Deployment", "StatefulSet")]
    selectors += [one["spec"]["selector"]["matchLabels"] for one in of_kind("PodDisruptionBudget")]
    assert all(any(selector.items() <= labels.items() for labels in pods) for selector in selectors)
    names = {one["metadata"]["name"] for one in of_kind("Deployment")}
    assert {one["spec"]["scaleTargetRef"]["name"] for one in of_kind("HorizontalPodAutoscaler")} <= names


def test_variables_and_the_command_exist() -> None:
    named = {name for path in FILES for name in re.findall(r"MEESEEKS_[A-Z_]+", path.read_text(encoding="utf-8"))}
    assert named <= VARIABLES
    (worker,) = of_kind("Deployment")
    command, *options = worker["spec"]["template"]["spec"]["containers"][0]["args"]
    assert set(options) <= {name for parameter in COMMANDS.commands[command].params for name in parameter.opts}


def test_images_are_those_of_compose() -> None:
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    for one in of_kind("StatefulSet"):
        assert one["spec"]["template"]["spec"]["containers"][0]["image"] in compose


def test_the_scaling_signal_is_made_of_metrics_that_there_are() -> None:
    (scaler,) = of_kind("HorizontalPodAutoscaler")
    (signal,) = [one["external"]["metric"]["name"] for one in scaler["spec"]["metrics"] if one["type"] == "External"]
    (rule,) = re.findall(rf"record: {signal}\n\s+expr: (.+)", SCALING)
    published = Metrics().text().decode()
    for name in set(re.findall(r"meeseeks_\w+", rule)):
        assert f"# TYPE {re.sub('_(count|sum|bucket)$', '', name)} " in published
