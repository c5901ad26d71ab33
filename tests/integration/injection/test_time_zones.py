"""Dates as the user's time zone has them, over every interface."""

from pathlib import Path

from hooks.contract import Outcome
from tests.support.command_line import command_line
from tests.support.mcp import call, client_of, open_store, told
from tests.support.scripted_model import ScriptedModel, oracle
from tests.support.service import Service, fact, open_service
from worker.domain.deadline import Deadline
from worker.mcp import ToolScope
from worker.operations.listing import ListingOperations
from worker.operations.registry import PUT
from worker.operations.requests import ExportRequest

EVENING = fact("evening", "The kiln was fired to cone six", created_at="2026-03-19T03:30:00Z")
"""On 19 March in UTC, on the evening of the 18th in New York."""

QUESTION = "To which cone was the kiln fired?"


async def test_the_block_and_the_model_get_dates_of_the_requests_zone(tmp_path: Path) -> None:
    model = ScriptedModel([oracle(["cone six"])] * 3)
    async with open_service(tmp_path, model=model, time_zone="Pacific/Kiritimati") as service:
        await service.put([EVENING, fact("day", "The kiln door is blue", created_at="2026-03-19")])
        ours = await service.ask(QUESTION, dry_run=True)
        theirs = await service.ask(QUESTION, dry_run=True, tz="America/New_York")
        receipt = await service.receipt(theirs)
    assert "cone six (2026-03-19)" in (ours.memory_context or "")
    assert "cone six (2026-03-18)" in (theirs.memory_context or "")
    first, second = ["\n".join(message["content"] for message in asked.messages) for asked in model.requests]
    assert "Now: 2026-03-21 (Pacific/Kiritimati)" in first
    assert "Now: 2026-03-20 (America/New_York)" in second
    assert '2026-03-18 "The kiln was fired' in second
    assert '2026-03-19 "The kiln door' in second, "a date alone is that day everywhere"
    assert receipt.request.tz == "America/New_York", "a replay uses the zone of its request"


async def test_an_unknown_zone_costs_no_turn(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        await service.put([EVENING])
        result = await service.ask(QUESTION, tz="Europe/Zuerich")
        receipt = await service.receipt(result)
    assert result.outcome is Outcome.INJECTED
    assert "cone six (2026-03-19)" in (result.memory_context or "")
    (note,) = [note for note in receipt.notes if note.startswith("tz:")]
    assert "did you mean Europe/Zurich" in note
    assert note.endswith("UTC was used")


async def listed(service: Service, **fields: object) -> list[str]:
    operations = ListingOperations(service.memory_service, lambda _: service.config, lambda: None)  # type: ignore[arg-type, return-value]
    request = ExportRequest.model_validate({"tenant": "t1", **fields})
    page = await operations.export(request, Deadline.after(10))
    return sorted(memory.id for memory in page.memories)


async def test_a_listing_has_the_days_of_the_zone(tmp_path: Path) -> None:
    async with open_service(tmp_path, time_zone="America/New_York") as service:
        await service.put(
            [
                EVENING,
                fact("next", "Glaze", created_at="2026-03-19T04:00:00Z"),
                fact("alone", "Kiln", created_at="2026-03-18"),
                fact("before", "Clay", created_at="2026-03-18T03:59:00Z"),
            ]
        )
        for newest in (False, True):
            assert await listed(service, since="2026-03-18", until="2026-03-18", newest=newest) == ["alone", "evening"]
            same = {"since": "2026-03-18", "until": "2026-03-18", "newest": newest}
            assert await listed(service, **same, tz="UTC") == ["alone", "before"]
        assert await listed(service, since="2026-03-18", words="kiln") == ["alone", "evening"]


async def test_tools_take_and_show_days_of_a_zone(tmp_path: Path) -> None:
    async with open_store(tmp_path, MEESEEKS_EMBEDDER="none") as backend:
        await backend.call(PUT, {"tenant": "acme", "memories": [EVENING]})
        async with client_of(backend, ToolScope("acme")) as client:
            day = {"since": "2026-03-18", "until": "2026-03-18"}
            assert (await call(client, "recall", query="kiln cone", **day))["memories"] == []
            found = await client.call_tool("recall", {"query": "kiln cone", "tz": "America/New_York", **day})
            assert "2026-03-18" in found.content[0].text
            assert found.structured_content["time_zone"] == "America/New_York"
            shown = await client.call_tool("list", {"tz": "America/New_York", **day})
            assert "2026-03-18" in shown.content[0].text
            refused = await told(client, "recall", query="kiln cone", tz="Europe/Zuerich")
            assert "did you mean Europe/Zurich" in refused


def test_commands_take_a_zone_and_the_setting(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text('[memory_injection]\ntime_zone = "America/New_York"\n', encoding="utf-8")
    (tmp_path / "m.jsonl").write_text(
        '{"id": "evening", "content": "The kiln was fired to cone six", "created_at": "2026-03-19T03:30:00Z"}\n',
        encoding="utf-8",
    )
    cli = command_line(tmp_path)
    cli.ok("import", str(tmp_path / "m.jsonl"))
    assert "(2026-03-19)" in cli.ok("inject", QUESTION, "--dry-run")
    assert "(2026-03-18)" in cli.ok("inject", QUESTION, "--dry-run", "--tz", "America/New_York")
    assert "(2026-03-18)" in command_line(tmp_path, MEESEEKS_CONFIG=str(tmp_path / "m.toml")).ok(
        "inject", QUESTION, "--dry-run"
    )
    day = ("--since", "2026-03-18", "--until", "2026-03-18")
    assert "nothing found" in cli.ok("search", "kiln cone", *day)
    assert "cone six" in cli.ok("search", "kiln cone", *day, "--tz", "America/New_York")
    refused = cli.run("inject", QUESTION, "--tz", "Europe/Zuerich")
    assert refused.exit_code == 2
    assert "did you mean Europe/Zurich" in " ".join(refused.output.replace("│", " ").split())
