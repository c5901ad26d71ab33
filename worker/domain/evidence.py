"""What a captured memory rests on: the words of a person, and when and where they were said."""

from pydantic import BaseModel, ConfigDict

from hooks.contract import Key, Text, UtcTime

MOST_SPAN = 300
"""Maximum characters of the words that are kept."""


class Evidence(BaseModel):
    """The words, the ids of their turns, and the capture that found them.

    `model` and `prompt` are unset if the words asked for it themselves ("remember that ...").
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: Text
    turns: tuple[Key, ...] = ()
    said_at: UtcTime | None = None
    session: Key | None = None
    host: Text | None = None
    capture: Key
    model: Text | None = None
    prompt: Key | None = None
