"""Defusing of stored text: it can neither close the frame of a block nor imitate a role or a model's own marks.

Marks are looked for in a skeleton of the text: without invisible characters and accents, and with look-alikes of other
scripts and of full width replaced by what they look like.
"""

import re
import unicodedata
from functools import lru_cache

from hooks.contract.blocks import FRAMES

from .invisible import without_invisible

PINNED_TITLE = "[Pinned context]"
CONTEXTUAL_TITLE = "[Relevant to this message]"

_ROLE_WORDS = "memory|context|system|assistant|human|user|tool|function|instruct|prompt|think|invoke|reminder|command"
_SPECIAL = r"s|sys|bos|eos|pad|unk|sep|cls|mask|eot|(?:begin|start|end)[_ ]?of[_ ]?\w{1,30}"
_BRACKETED = r"inst|system[_ ]?prompt|tool[_ ]?(?:calls?|results?|content)|available[_ ]?tools|args|call[_ ]?id"
_FRAME_MARKERS = "|".join(
    re.escape(marker).replace(r"\ ", r"\s+")
    for marker in (
        *(part for frame in FRAMES for part in frame if part.startswith("[")),
        PINNED_TITLE,
        CONTEXTUAL_TITLE,
    )
)
_ROUND = {"[": "(", "]": ")"}
_ANGLED = {"<": "‹", ">": "›", "|": "¦"}
_MARKS = (
    (re.compile(rf"<(?=\s*/?\s*[\w:.-]*(?:{_ROLE_WORDS})[\w:.-]*)|<(?=\s*\|)", re.IGNORECASE), _ANGLED),
    (re.compile(r"<\s*\|[^<>]{0,100}?\|\s*>"), _ANGLED),
    (re.compile(rf"<+\s*/?\s*(?:{_SPECIAL})\s*/?\s*>+", re.IGNORECASE), _ANGLED),
    (re.compile(rf"\[\s*/?\s*(?:{_BRACKETED})\s*\]", re.IGNORECASE), _ROUND),
    (re.compile(_FRAME_MARKERS, re.IGNORECASE), _ROUND),
)
"""Marks, and what the characters of a match are replaced by."""

_LOOK_ALIKES = {
    **dict.fromkeys("‹〈⟨˂ᐸ❮❬❰《≪⧼≺", "<"),
    **dict.fromkeys("›〉⟩˃ᐳ❯❭❱》≫⧽≻", ">"),
    **dict.fromkeys("ǀ│┃❘⎸∣⏐¦▏", "|"),
    **dict.fromkeys("⁄∕╱⧸", "/"),
    **dict.fromkeys("【〔⟦⁅⦋❲〖〚", "["),
    **dict.fromkeys("】〕⟧⁆⦌❳〗〛", "]"),
    **dict.fromkeys("▁‗", "_"),
    **dict(zip("аеорсухіѕјкмтнвԁɡһӏԛԝ", "aeopcyxisjkmthbdghlqw", strict=True)),
    **dict(zip("АВЕЅКМНОРСТУХІЈ", "ABESKMHOPCTYXIJ", strict=True)),
    **dict(zip("αεοριυνκτ", "aeopiuvkt", strict=True)),
    **dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢսօ", "abcdefghijklmnoprstuvwyzuo", strict=True)),
    **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX", strict=True)),
}


def neutralise(text: str) -> str:
    """Replace the brackets of marks by harmless ones; all other markup is unchanged."""
    plain = text if text.isascii() else list(map(plain_character, text))
    skeleton = "".join(plain)
    changes = {
        position: table[skeleton[position]]
        for pattern, table in _MARKS
        for match in pattern.finditer(skeleton)
        for position in range(*match.span())
        if skeleton[position] in table
    }
    if not changes:
        return text
    places = [place for place, character in enumerate(plain) if character]
    characters = list(text)
    for position, character in changes.items():
        characters[places[position]] = character
    return "".join(characters)


@lru_cache(maxsize=4096)
def plain_character(character: str) -> str:
    """Return the ASCII character that it looks like, nothing for an invisible one or an accent, else itself."""
    if not without_invisible(character) or unicodedata.combining(character):
        return ""
    alike = _LOOK_ALIKES.get(character)
    parts = unicodedata.normalize("NFKD", character)
    return alike or (parts[0] if all(map(unicodedata.combining, parts[1:])) else character)
