"""Hosts as they really behave: projects, follow-ups, late starts and events that are sent twice."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from hooks.queue import connect
from tests.integration.operations.test_host_operations import Service, context, open_service, prompt
from tests.support.valkey import forget, running_valkey
from worker.adapters.local.host_state import MemoryHostState
from worker.adapters.redis.host_state import RedisHostState
from worker.domain.errors import NotFound
from worker.hosts.state import HostState, SaidTurn, SessionOf, names_of
from worker.operations.registry import PUT, RECEIPT

HELM = "Deployments of the shop use Helm chart 4"
VAULT = "The secrets of the payment service are kept in Vault"
ASK_HELM = "Which Helm chart do deployments of the shop use?"
ASK_VAULT = "Where are the secrets of the payment service kept?"
KINGFISHER = "Kingfisher was moved to March because the supplier of the sensors was late"
ASK_KINGFISHER = "Kingfisher moves to March, right?"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_valkey() as server:
        yield server.url


@pytest.fixture
async def service(url: str, tmp_path: Path) -> AsyncIterator[Service]:
    async with open_service(url, tmp_path) as opened:
        yield opened


async def put(service: Service, content: str, **scope: str) -> None:
    memory = {"id": "m", "content": content, "created_at": "2026-01-10T09:00:00Z", "scope": scope}
    await service.client.call(PUT, {"tenant": "default", "memories": [memory]})


async def sees(service: Service, question: str, cwd: str, **scope: str) -> bool:
    session = f"{cwd}{scope}"
    return await service.hook("claude-code", prompt(question, "1", session, cwd=cwd), scope=scope) != {}


async def searched(service: Service, event: dict[str, Any], **scope: str) -> str:
    """Return the query of an event's receipt."""
    explained = await service.hook("codex", event, scope={**scope, "explain": True})
    receipt_id = explained["explanation"].rpartition(" ")[2]
    for _ in range(40):
        await asyncio.sleep(0.05)
        try:
            found = await service.client.call(RECEIPT, {"tenant": scope.get("tenant", "default"), "id": receipt_id})
        except NotFound:
            continue
        return str(found["query"])
    raise AssertionError("no receipt")


async def test_two_folders_of_one_name_are_two_projects(service: Service) -> None:
    await put(service, VAULT, project="api")
    assert await sees(service, ASK_VAULT, "/home/u/clientA/api")
    assert not await sees(service, ASK_VAULT, "/home/u/clientB/api")
    assert await sees(service, ASK_VAULT, "/home/u/clientA/api/")


async def test_spellings_of_a_folder_are_one_project(service: Service) -> None:
    await put(service, HELM, project="shop")
    for folder in ("/home/u/shop", "/home/u/shop/.claude/worktrees/fix-1", "C:\\Users\\u\\Shop", "c:/users/u/shop"):
        assert await sees(service, ASK_HELM, folder)


async def test_a_repository_is_one_project_wherever_it_is_cloned(service: Service) -> None:
    await put(service, HELM, project="shop")
    one = {"repository": "github.com/acme/shop", "folder": "shop"}
    other = {"repository": "github.com/acme/shop", "folder": "shop-copy"}
    fork = {"repository": "github.com/else/shop", "folder": "shop"}
    assert await sees(service, ASK_HELM, "/home/u/shop", **one)
    assert await sees(service, ASK_HELM, "/srv/shop-copy", **other)
    assert not await sees(service, ASK_HELM, "/home/u/shop", **fork)


async def test_a_name_in_the_environment_or_the_file_comes_first(service: Service, tmp_path: Path) -> None:
    await put(service, HELM, project="storefront")
    assert not await sees(service, ASK_HELM, "/srv/shop")
    assert await sees(service, ASK_HELM, "/srv/shop", project="storefront")
    file = '[projects]\n"git@github.com:Acme/shop.git" = "storefront"\n"/srv/other" = "storefront"\n'
    (tmp_path / "projects.toml").write_text(file)
    assert await sees(service, ASK_HELM, "/srv/other")
    assert await sees(service, ASK_HELM, "/srv/elsewhere", repository="github.com/acme/shop", folder="shop")
    (tmp_path / "projects.toml").write_text("[projects\n")
    assert not await sees(service, ASK_HELM, "/srv/other/")


async def test_tenants_have_names_of_their_own(service: Service) -> None:
    assert not await sees(service, ASK_VAULT, "/home/u/clientB/api", tenant="b")
    await put(service, VAULT, project="api")
    assert await sees(service, ASK_VAULT, "/home/u/clientA/api")


async def test_a_follow_up_is_searched_with_the_turn_before(service: Service) -> None:
    """What is chosen among the memories found is the relevance model's matter; the receipt says what was searched."""
    await put(service, KINGFISHER)
    assert await searched(service, prompt("why?", "1", "alone")) == "why?"
    assert "Kingfisher" in context(await service.hook("codex", prompt(ASK_KINGFISHER, "1"), commit=False))
    assert await searched(service, prompt("why?", "2")) == f"why? {ASK_KINGFISHER}"


@pytest.mark.parametrize("other", [{"scope": {"user": "bo"}}, {"scope": {"tenant": "acme"}}, {"agent": "reviewer"}])
async def test_a_follow_up_uses_only_turns_of_the_same_asker(service: Service, other: dict[str, Any]) -> None:
    await put(service, KINGFISHER)
    await service.hook("codex", prompt(ASK_KINGFISHER, "1"), scope={"user": "ada"}, commit=False)
    agent = {"agent_id": other["agent"]} if "agent" in other else {}
    scope = other.get("scope", {"user": "ada"})
    assert await searched(service, prompt("why?", "2", **agent), **scope) == "why?"
    if not agent and "tenant" not in scope:
        assert await searched(service, prompt("why?", "3"), user="ada") == f"why? {ASK_KINGFISHER}"


async def test_a_cleared_session_has_no_earlier_turns(service: Service) -> None:
    await put(service, KINGFISHER)
    await service.hook("codex", prompt(ASK_KINGFISHER, "1"))
    await service.hook("codex", {"hook_event_name": "SessionStart", "session_id": "s", "source": "clear"})
    assert await searched(service, prompt("why?", "2")) == "why?"


@pytest.mark.parametrize("host", ["claude-code", "codex"])
async def test_a_late_start_keeps_what_the_first_prompt_showed(service: Service, host: str) -> None:
    await put(service, HELM)
    assert "Helm" in context(await service.hook(host, prompt(ASK_HELM, "1")))
    await service.hook(host, {"hook_event_name": "SessionStart", "session_id": "s", "source": "startup"})
    assert await service.hook(host, prompt(ASK_HELM, "2")) == {}


@pytest.mark.parametrize(
    "events",
    [
        [{"hook_event_name": "PostCompact", "trigger": "auto"}] * 2,
        [{"hook_event_name": "SessionStart", "source": "clear"}] * 2,
        [{"hook_event_name": "SessionStart", "source": "compact"}] * 2,
        [{"hook_event_name": "PostCompact"}, {"hook_event_name": "SessionStart", "source": "compact"}],
    ],
)
async def test_an_event_that_is_sent_again_changes_nothing(service: Service, events: list[dict[str, Any]]) -> None:
    await put(service, HELM)
    assert "Helm" in context(await service.hook("codex", prompt(ASK_HELM, "1")))
    await service.hook("codex", {"hook_event_name": "PreCompact", "session_id": "s"})
    await service.hook("codex", {**events[0], "session_id": "s"})
    assert "Helm" in context(await service.hook("codex", prompt(ASK_HELM, "2")))
    await service.hook("codex", {**events[1], "session_id": "s"})
    assert await service.hook("codex", prompt(ASK_HELM, "3")) == {}


async def test_a_second_compaction_counts(service: Service) -> None:
    await put(service, HELM)
    for turn in ("1", "2", "3"):
        assert "Helm" in context(await service.hook("codex", prompt(ASK_HELM, turn)))
        await service.hook("codex", {"hook_event_name": "PreCompact", "session_id": "s"})
        await service.hook("codex", {"hook_event_name": "PostCompact", "session_id": "s"})


async def test_the_explanation_says_what_happened_without_texts(service: Service) -> None:
    await put(service, HELM)
    explain = {"explain": True}
    found = await service.hook("codex", prompt(ASK_HELM, "1"), scope=explain)
    assert "Helm" in context(found["output"])
    assert found["explanation"].startswith("1 memory: injected, ")
    assert "Helm" not in found["explanation"]
    skipped = await service.hook("codex", prompt("<system-reminder>x</system-reminder>", "2"), scope=explain)
    assert "no memory: skipped (host_notice)" in skipped["explanation"]
    for event, word in [({"hook_event_name": "Stop"}, "'Stop' is not used"), ({}, "not a JSON object")]:
        assert word in (await service.hook("codex", event, scope=explain))["explanation"]
    nameless = await service.hook("codex", {"hook_event_name": "UserPromptSubmit", "prompt": "x"}, scope=explain)
    assert "no session_id" in nameless["explanation"]


@pytest.fixture(params=["memory", "redis"])
async def state(request: pytest.FixtureRequest, url: str) -> AsyncIterator[HostState]:
    if request.param == "memory":
        yield MemoryHostState()
        return
    redis = connect(url)
    yield RedisHostState(redis)
    await redis.aclose()
    forget(url)


async def test_names_are_given_once(state: HostState) -> None:
    names = [names_of(identity, "api") for identity in ("gh/a/api", "gh/b/api", "gl/b/api", "~u/api")]
    assert names[0] == ("api", "a/api", "gh/a/api")
    given = [await state.project_name("t", one[-1], one) for one in names]
    assert given == ["api", "b/api", "gl/b/api", "u/api"]
    assert [await state.project_name("t", one[-1], one) for one in names] == given
    assert await state.project_name("other", "gh/b/api", names[1]) == "api"


async def test_turns_are_bounded_and_kept_once(state: HostState) -> None:
    session = SessionOf("t", "s")
    for number in range(30):
        await state.earlier(session, SaidTurn(str(number), "me", "x" * 5_000))
    kept = await state.earlier(session, SaidTurn("29", "me", "again"))
    assert [turn.turn_id for turn in kept] == [str(number) for number in range(18, 30)]
    assert {len(turn.text) for turn in kept} == {1_000}
    assert await state.earlier(SessionOf("u", "s"), SaidTurn("1", "me", "")) == []
    await state.forget_turns(session)
    assert await state.earlier(session, SaidTurn("30", "me", "")) == []


async def test_only_the_last_event_again_is_a_repeat(state: HostState) -> None:
    session = SessionOf("t", "s")
    assert [await state.repeats(session, event) for event in "aabab"] == [False, True, False, False, False]
    assert not await state.repeats(SessionOf("t", "other"), "b")
