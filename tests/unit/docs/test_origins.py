"""The page on origins names every setting that exists, and the defaults that it shows are ours."""

import re

import pytest

from tests.support.paths import ROOT
from worker.settings.injection import InjectionConfig
from worker.settings.service import ServiceSettings

PAGE = (ROOT / "docs" / "origins.md").read_text(encoding="utf-8")
SAME = re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|", PAGE, re.MULTILINE)
NAMED = re.findall(r"`(\w+)` (0\.\d+|\d+)(?=,| \|)", PAGE.split("## Another name or form")[1])
OTHERS = {"vector_search_limit", "recent_threshold_hours", "importance_threshold", "identity_limit", "important_limit"}
OTHERS |= {"recent_limit", "limit", "min_importance"}


@pytest.mark.parametrize("model", [InjectionConfig, ServiceSettings])
def test_every_setting_is_named(model: type[InjectionConfig] | type[ServiceSettings]) -> None:
    assert [name for name in model.model_fields if f"`{name}`" not in PAGE] == []


def test_no_other_setting_is_named() -> None:
    known = {*InjectionConfig.model_fields, *ServiceSettings.model_fields}
    assert [name for name, _ in SAME if name not in known] == []
    assert {name for name, _ in NAMED} <= known | OTHERS


@pytest.mark.parametrize(("name", "shown"), SAME)
def test_a_shown_default_is_ours(name: str, shown: str) -> None:
    default = InjectionConfig.model_fields[name].default
    if shown.startswith("by embedder"):
        assert default is None
    elif shown == "none":
        assert default == ()
    else:
        assert str(getattr(default, "value", default)).lower() == shown.strip("`")


@pytest.mark.parametrize(("name", "shown"), [pair for pair in NAMED if pair[0] not in OTHERS])
def test_a_default_under_another_name_is_ours(name: str, shown: str) -> None:
    assert float(shown) == InjectionConfig.model_fields[name].default
