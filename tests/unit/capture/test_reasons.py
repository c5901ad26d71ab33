"""Every reason for leaving something out is explained, in the page and in the terminal."""

from tests.support.paths import ROOT
from worker.cli.memory.capture import WHY
from worker.domain.capture import DropReason


def test_every_reason_is_explained() -> None:
    page = (ROOT / "docs" / "capture.md").read_text(encoding="utf-8")
    assert not [reason for reason in DropReason if f"`{reason}`" not in page]
    assert set(WHY) == set(DropReason)
