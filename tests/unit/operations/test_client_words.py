"""What commands show of the URL of Redis."""

import pytest

from worker.operations.client import without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://me:secret@host:6379/0", "redis://host:6379/0"),
        ("unix:///run/valkey.sock?db=1&password=secret", "unix:///run/valkey.sock"),
        ("redis+sentinel://:secret@a:1,b:2/main/0?sentinel_password=secret", "redis+sentinel://a:1,b:2/main/0"),
        ("redis+sentinel://a:1/main?sentinel_password=x@secret", "redis+sentinel://..."),
        ("redis://:secret?secret@host", "redis://..."),
    ],
)
def test_no_password_is_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown
