"""A model server's answers to requests for cues."""

import json
import re
import time
from collections import Counter
from typing import Any

from tests.support.upstream import Answer, last_text


class CueModel:
    """Writes two cues per note and remembers which notes it was asked about."""

    def __init__(self, delay: float = 0.0, broken: str | None = None) -> None:
        self.asked: Counter[str] = Counter()
        self.delay = delay
        self.broken = broken

    def __call__(self, body: dict[str, Any]) -> Answer:
        notes = dict(re.findall(r'^\[(\d+)\] "(.*)"$', last_text(body), re.MULTILINE))
        self.asked.update(notes.values())
        time.sleep(self.delay)
        if self.broken and any(self.broken in note for note in notes.values()):
            return Answer("I would rather not." if len(notes) == 1 else '{"1":["cut off')
        return Answer(json.dumps({key: [f"who knows {note}?", f"prepare {note}"] for key, note in notes.items()}))
