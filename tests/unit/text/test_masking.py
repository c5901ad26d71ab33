"""Secrets are masked, look-alikes are left alone."""

import pytest

from worker.text.masking import MASK, mask_secrets


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Inventory DB: postgres://inv:Tr0ut-9981@db.lan:5432/inv", "Tr0ut-9981"),
        ("Signing key:\n-----BEGIN PRIVATE KEY-----\nTUlJRQ==\n-----END PRIVATE KEY-----", "TUlJRQ"),
        ("-----BEGIN RSA PRIVATE KEY-----\nTUlJRQ== cut off", "TUlJRQ"),
        ("use sk-" + "Ab1" * 8 + " for it", "Ab1" * 8),
        ("token ghp_abcdefghijklmnopqrstuvwxyz0123", "ghp_abcdefghijklmnopqrstuvwxyz0123"),
        ("AWS AKIAIOSFODNN7EXAMPLE in eu-west-1", "AKIAIOSFODNN7EXAMPLE"),
        ("Authorization: Bearer abcdef0123456789.abc", "abcdef0123456789"),
        ("password: hunter22!", "hunter22!"),
        ('{"api_key": "q1w2e3r4t5"}', "q1w2e3r4t5"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0xx.c2lnbmF0dXJlMTIz", "c2lnbmF0dXJlMTIz"),
    ],
)
def test_secret_is_masked(text: str, secret: str) -> None:
    masked = mask_secrets(text)
    assert secret not in masked
    assert MASK in masked


@pytest.mark.parametrize(
    "text",
    [
        "Deploy used commit 9f3c1e0a7b6d5c4f3e2a1b0c9d8e7f6a5b4c3d2e",
        "Board is risk-averse about the new kiln",
        "The password is in the red binder",
        "https://example.org/path:8080/@handle",
        "Ask Marit about the task-force-management-sheet",
    ],
)
def test_harmless_text_stays(text: str) -> None:
    assert mask_secrets(text) == text


def test_surroundings_of_a_secret_stay_readable() -> None:
    assert mask_secrets("postgres://inv:Tr0ut@db.lan:5432/inv") == f"postgres://inv:{MASK}@db.lan:5432/inv"
