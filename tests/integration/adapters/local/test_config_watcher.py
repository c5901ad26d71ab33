"""Valid and invalid changes of settings and prompts while the service runs."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.scripted_model import ScriptedModel, offered
from tests.support.triage import Memories, candidate, live_triage, task
from worker.adapters.local.config_watcher import LOOK_S, ConfigWatcher, FileWatch
from worker.domain.deadline import Deadline
from worker.domain.errors import PromptError
from worker.domain.memory import Recalled
from worker.settings.injection import InjectionConfig, Settings
from worker.settings.live import LiveSettings
from worker.triage.live_selector import LivePrompts
from worker.triage.prompt_files import default_prompts_dir

PROMISED_S = 1.0
NOISE_S = 1.5
"""Extra seconds, for other processes on the same cores."""


async def until(holds: Callable[[], bool]) -> float:
    """Wait until the condition holds and return the seconds taken. Fail after the promised time."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < PROMISED_S + NOISE_S
        await asyncio.sleep(0.01)
    return time.monotonic() - begun


@asynccontextmanager
async def watching(*watches: FileWatch) -> AsyncIterator[None]:
    watcher = ConfigWatcher({str(number): (watch.step, LOOK_S) for number, watch in enumerate(watches)})
    watcher.start()
    try:
        yield
    finally:
        await watcher.aclose()


def total(value: int) -> str:
    return f"[memory_injection]\nmax_total = {value}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "meeseeks.toml"
    path.write_text(total(8), encoding="utf-8")
    return path


async def test_valid_edits_take_effect_and_invalid_ones_do_not(file: Path) -> None:
    live = LiveSettings(Settings.load({}, file))

    def now() -> int:
        return live.for_agent("any").max_total

    async with watching(FileWatch(file, live.reload)):
        file.write_text(total(7), encoding="utf-8")
        await until(lambda: now() == 7)
        file.write_text("[memory_injection]\nmax_total = -1\n", encoding="utf-8")
        await until(lambda: "file" in live.status()["faults"])
        assert "meeseeks.toml:2: memory_injection.max_total" in live.status()["faults"]["file"]
        assert now() == 7
        other = file.with_suffix(".new")
        other.write_text(total(6), encoding="utf-8")
        other.replace(file)
        await until(lambda: now() == 6)
        assert live.status()["faults"] == {}
        file.unlink()
        await until(lambda: "file" in live.status()["faults"])
        assert now() == 6
        file.write_text(total(5), encoding="utf-8")
        await until(lambda: now() == 5)


async def test_a_changed_link_target_is_a_change(file: Path) -> None:
    link, other = file.with_name("link.toml"), file.with_name("other.toml")
    link.symlink_to(file)
    other.write_text(total(4), encoding="utf-8")
    live = LiveSettings(Settings.load({}, link))
    async with watching(FileWatch(link, live.reload)):
        swapped = file.with_name("swapped.toml")
        swapped.symlink_to(other)
        swapped.replace(link)
        await until(lambda: live.for_agent("any").max_total != 8)
    assert live.for_agent("any").max_total == 4


async def test_an_edit_between_reading_and_watching_is_not_missed(file: Path) -> None:
    live = LiveSettings(Settings.load({}, file))
    file.write_text(total(3), encoding="utf-8")
    async with watching(FileWatch(file, live.reload)):
        await until(lambda: live.for_agent("any").max_total != 8)
    assert live.for_agent("any").max_total == 3


async def test_a_file_is_read_once_it_has_settled(file: Path) -> None:
    reloads: list[str] = []

    async def reload() -> None:
        reloads.append(file.read_text(encoding="utf-8"))

    watch = FileWatch(file, reload)
    await watch.step()
    await watch.step()
    file.write_text("[memory_", encoding="utf-8")
    await watch.step()
    file.write_text(total(2), encoding="utf-8")
    await watch.step()
    assert reloads == [total(8)]
    await watch.step()
    await watch.step()
    assert reloads == [total(8), total(2)]


async def test_a_watcher_survives_failing_steps() -> None:
    taken: list[int] = []

    async def step() -> None:
        taken.append(len(taken))
        if len(taken) == 2:
            raise ZeroDivisionError

    watcher = ConfigWatcher({"broken": (step, 0.01)})
    watcher.start()
    await until(lambda: len(taken) > 4)
    await watcher.aclose()
    after = len(taken)
    await asyncio.sleep(0.05)
    assert len(taken) == after


async def test_a_watcher_ends_even_when_a_step_loses_its_cancellation() -> None:
    begun = asyncio.Event()

    async def step() -> None:
        first = not begun.is_set()
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if not first:
                raise

    watcher = ConfigWatcher({"deaf": (step, 0.0)})
    watcher.start()
    await begun.wait()
    async with asyncio.timeout(PROMISED_S + NOISE_S):
        await watcher.aclose()
    assert "watch-deaf" not in {task.get_name() for task in asyncio.all_tasks()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "prompts"
    folder.mkdir()
    shutil.copy(default_prompts_dir() / "triage.md", folder)
    return folder


def edit(folder: Path, old: str, new: str) -> None:
    path = folder / "triage.md"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


async def test_a_changed_prompt_serves_the_next_request_and_a_broken_one_never(folder: Path) -> None:
    told: list[str | None] = []
    prompts = LivePrompts(folder, told.append)
    model = ScriptedModel(["[]"])
    triage = live_triage([model], lambda: prompts.triage)

    async def system_prompt() -> str:
        recalled = Recalled("organ", (candidate("m1", "note"),))
        await triage.select(task(), recalled, Memories(), InjectionConfig(), Deadline.after(3.0))
        return str(model.requests[-1].messages[0]["content"])

    async with watching(FileWatch(folder, prompts.reload)):
        assert "Be brief." not in await system_prompt()
        edit(folder, "# System\n", "# System\nBe brief. ")
        await until(lambda: "Be brief." in prompts.triage.system)
        assert "Be brief." in await system_prompt()
        edit(folder, "# User\n", "# User\n{{nonsense}} ")
        await until(lambda: bool(told) and told[-1] is not None)
        assert told[-1] is not None
        assert "triage.md: the variable 'nonsense' is used but not declared" in told[-1]
        assert "Be brief." in await system_prompt()
        edit(folder, "{{nonsense}} ", "")
        await until(lambda: told[-1] is None)


def test_a_folder_without_the_prompt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="no prompt has the id 'triage'"):
        LivePrompts(tmp_path)


@pytest.mark.parametrize("mask", [True, False])
async def test_the_model_sees_secrets_only_if_masking_is_off(folder: Path, mask: bool) -> None:
    model = ScriptedModel(["[]"])
    prompts = LivePrompts(folder)
    triage = live_triage([model], lambda: prompts.triage)
    recalled = Recalled("organ", (candidate("m1", "the password: hunter2hunter2"),))
    config = InjectionConfig(mask_secrets=mask)
    await triage.select(task(), recalled, Memories(), config, Deadline.after(3.0))
    assert ("hunter2hunter2" in offered(model.requests[0])[1]) is not mask
