"""The distributions, built once, and an environment for each."""

import time
from pathlib import Path

import pytest

from tests.support.wheels import Built, InstalledService, built_in, installed_in


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built_in(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="session")
def client_python(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with only the client and its locked dependencies."""
    return installed_in(tmp_path_factory.mktemp("client"), built.client)


@pytest.fixture(scope="session")
def service(built: Built, tmp_path_factory: pytest.TempPathFactory) -> InstalledService:
    started = time.monotonic()
    python = installed_in(tmp_path_factory.mktemp("service"), built.root)
    return InstalledService(python, time.monotonic() - started)
