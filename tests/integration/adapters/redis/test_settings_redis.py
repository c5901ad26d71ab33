"""Saved settings in a real Valkey: they reach every worker, survive restarts and lose no change."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hooks.queue import connect
from tests.support.valkey import running_valkey, sync_redis
from worker.adapters.local.config_watcher import ASK_S, ConfigWatcher
from worker.adapters.redis.embedded_valkey import EmbeddedValkey
from worker.adapters.redis.overrides import KEY, RedisOverrides
from worker.bootstrap.core import open_settings
from worker.domain.errors import QueueError, SettingsConflict, SettingsError
from worker.settings.injection import Settings
from worker.settings.live import LiveSettings
from worker.settings.saved import Author, SavedSettings

PROMISED_S = 1.0
NOISE_S = 1.5


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Any]:
    redis = connect(url)
    try:
        yield redis
    finally:
        await redis.aclose()


@asynccontextmanager
async def watched(redis: Any) -> AsyncIterator[LiveSettings]:
    """Live settings as in a worker."""
    live = LiveSettings(Settings(), RedisOverrides(redis))
    watcher = ConfigWatcher({"saved": (live.refresh, ASK_S)})
    watcher.start()
    try:
        yield live
    finally:
        await watcher.aclose()


async def until(holds: Callable[[], bool]) -> float:
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < PROMISED_S + NOISE_S
        await asyncio.sleep(0.005)
    return time.monotonic() - begun


def total(live: LiveSettings, agent: str = "any") -> int:
    return live.for_agent(agent).max_total


async def test_only_the_expected_version_is_replaced() -> None:
    with running_valkey() as server:
        async with client(server.url) as redis:
            overrides = RedisOverrides(redis)
            assert await overrides.read(0) is None
            assert await overrides.read(3) == SavedSettings()
            saved = SavedSettings(1, {"max_total": 2}, {"courier ü:": {"enabled": True}})
            assert await overrides.write(0, saved)
            assert not await overrides.write(0, SavedSettings(1, {"max_total": 9}))
            assert await overrides.read(0) == saved
            assert await overrides.read(1) is None
            with sync_redis(server.url) as look:
                assert look.ttl(KEY) == -1


async def test_a_change_reaches_the_other_worker_within_a_second() -> None:
    with running_valkey() as server:
        async with client(server.url) as redis, watched(redis) as one, watched(redis) as other:
            await one.patch(None, {"max_total": 2})
            assert total(one) == 2
            await until(lambda: total(other) == 2)
            await other.patch("courier", {"max_total": 1})
            await until(lambda: total(one, "courier") == 1)
            with pytest.raises(SettingsError, match="max_total"):
                await other.patch("courier", {"max_total": -1})
            await one.reset("courier")
            await until(lambda: total(other, "courier") == 2)


async def test_changes_by_many_at_once_are_all_kept() -> None:
    with running_valkey() as server:
        async with client(server.url) as redis, watched(redis) as one, watched(redis) as other:
            keys = {"max_total": 2, "max_items": 3, "max_chars": 500, "search_limit": 9}
            await asyncio.gather(
                *(live.patch(None, {key: value}) for live, (key, value) in zip([one, other] * 2, keys.items()))  # noqa: B905
            )
            saved = await RedisOverrides(redis).read(0)
            assert saved is not None
            assert (saved.version, saved.general) == (4, keys)
            assert sorted(change.keys[0].key for change in saved.history) == sorted(keys)


async def test_of_two_changes_based_on_one_version_one_is_refused() -> None:
    with running_valkey() as server:
        async with client(server.url) as redis, watched(redis) as one, watched(redis) as other:
            changes = (live.patch(None, {"max_total": 2 + n}, version=0) for n, live in enumerate((one, other)))
            done = await asyncio.gather(*changes, return_exceptions=True)
            assert sorted(type(result) for result in done if result != []) == [SettingsConflict]
            saved = await RedisOverrides(redis).read(0)
            assert saved is not None
            assert (saved.version, len(saved.history)) == (1, 1)


async def test_redis_keeps_no_secret_that_was_replaced() -> None:
    secret = "sk-proj-Zx81hG5dkQ92mvTnYpLw3RbC7uEaJfSi"
    with running_valkey() as server:
        async with client(server.url) as redis:
            live = await open_settings(Settings(), redis)
            await live.patch(None, {"models": [f"openai/gpt?key={secret}"]})
            await live.patch(None, {"models": ["openai/gpt"]})
            with sync_redis(server.url) as look:
                kept = look.hgetall(KEY)
            assert secret.encode() not in b"".join(kept.values())
            assert len(json.loads(kept[b"history"])) == 2


async def test_one_worker_undoes_what_the_other_has_changed() -> None:
    with running_valkey() as server:
        async with client(server.url) as redis, watched(redis) as one, watched(redis) as other:
            await one.patch(None, {"max_total": 2}, author=Author(name="oscar ü", via="http"))
            await other.undo(1, Author(name="ida", via="console"))
            await until(lambda: total(one) == 25)
            saved = await RedisOverrides(redis).read(0)
            assert saved is not None
            assert [(change.author.name, change.undoes) for change in saved.history] == [("oscar ü", None), ("ida", 1)]


async def test_settings_saved_by_an_earlier_version_have_no_history() -> None:
    with running_valkey() as server:
        async with client(server.url) as redis:
            with sync_redis(server.url) as look:
                look.hset(KEY, mapping={"version": "7", "saved": '{"general": {"max_total": 2}, "agents": {}}'})
            assert await RedisOverrides(redis).read(0) == SavedSettings(7, {"max_total": 2})


async def test_an_orderly_restart_keeps_everything(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path)
    server.start()
    try:
        async with client(server.url) as redis:
            await RedisOverrides(redis).write(0, SavedSettings(1, {"max_total": 2}))
        server.stop()
        server.start()
        async with client(server.url) as redis:
            assert await RedisOverrides(redis).read(0) == SavedSettings(1, {"max_total": 2})
    finally:
        server.stop()


async def test_workers_restore_settings_lost_by_a_killed_server(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path, persist=False)
    server.start()
    try:
        async with client(server.url) as redis, watched(redis) as live:
            await live.patch(None, {"max_total": 2})
            assert server.pid is not None
            os.kill(server.pid, signal.SIGKILL)
            await asyncio.sleep(0.1)
            server.stop()
            with pytest.raises(QueueError, match="Redis cannot be reached"):
                await live.patch(None, {"max_total": 3})
            assert total(live) == 2
            server.start()
            with sync_redis(server.url) as look:
                await until(lambda: look.hget(KEY, "version") == b"1")
            assert await RedisOverrides(redis).read(0) == live.saved
            assert (live.saved.general, len(live.saved.history)) == ({"max_total": 2}, 1)
    finally:
        server.stop()


async def test_invalid_saved_settings_are_reported_and_change_nothing() -> None:
    with running_valkey() as server:
        async with client(server.url) as redis:
            live = LiveSettings(Settings(), RedisOverrides(redis))
            await live.patch(None, {"max_total": 2})
            with sync_redis(server.url) as look:
                look.hset(KEY, mapping={"version": "7", "saved": "[]"})
            with pytest.raises(QueueError, match="no valid settings"):
                await live.refresh()
            assert total(live) == 2
