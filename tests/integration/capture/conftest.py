"""One Valkey for each module of tests."""

from collections.abc import Iterator

import pytest

from tests.support.valkey import running_valkey


@pytest.fixture(scope="module")
def valkey() -> Iterator[str]:
    with running_valkey() as server:
        yield server.url
