"""Types of fields that all models of the contract share, and the base of these models."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, get_args
from unicodedata import category

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError

from ..protocol.size import clipped


def clean_text(value: object) -> object:
    """Replace unpaired surrogates, which JSON allows but UTF-8 does not, with U+FFFD. Return other values unchanged."""
    if not isinstance(value, str) or value.isascii():
        return value
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def as_utc(value: datetime) -> datetime:
    """Convert a time to UTC; a naive time is UTC already. Raise `ValueError` outside the years 1 to 9999."""
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("the time in UTC must be within the years 1 to 9999") from error


def as_given(value: datetime) -> datetime:
    """Convert a time with a zone to UTC; one without stays as it is, for the request's time zone."""
    return value if value.tzinfo is None else as_utc(value)


def refuse_bool_as_number(cls: type[BaseModel], value: object, info: ValidationInfo) -> object:
    """Refuse true and false for a number, for which pydantic would take 1 and 0; a validator of all fields."""
    if not isinstance(value, bool) or info.field_name not in cls.model_fields:
        return value
    annotation = cls.model_fields[info.field_name].annotation
    kinds = {annotation, *get_args(annotation)}
    if bool in kinds or not kinds & {int, float}:
        return value
    number = "int" if int in kinds else "float"
    raise PydanticKnownError(f"{number}_type")  # type: ignore[arg-type]


UNSEEN = frozenset({"Cc", "Cf", "Mn", "Zs", "Zl", "Zp"})
"""Unicode categories of characters of which a name cannot consist."""

UNSEEN_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Hangul fillers and the Braille blank: Unicode calls them letters and symbols, and they show nothing."""

Text = Annotated[str, BeforeValidator(clean_text)]
Key = Annotated[Text, Field(min_length=1, max_length=512)]
UtcTime = Annotated[datetime, AfterValidator(as_utc)]
LocalTime = Annotated[datetime, AfterValidator(as_given)]
"""A time; without a zone it is in the time zone of the request."""

LongText = Annotated[Text, AfterValidator(clipped)]
"""A text of which only the beginning and the end are kept if it is longer than any search reads."""


def without_unset(given: object, keep: tuple[str, ...] = ()) -> object:
    """Return a mapping without fields that are null, or an empty text unless in `keep`."""
    if not isinstance(given, Mapping):
        return given
    return {name: value for name, value in given.items() if value is not None and (value != "" or name in keep)}


def trimmed_name(value: str) -> str:
    """Remove whitespace around a name. Raise `ValueError` if nothing to see is left, which would mean everybody."""
    name = value.strip()
    if all(category(character) in UNSEEN or character in UNSEEN_LETTERS for character in name):
        raise ValueError("must not be blank; leave it out instead")
    return name


Name = Annotated[Text, AfterValidator(trimmed_name)]
"""A user, agent, project or channel: the same rule wherever one is given."""

KeyName = Annotated[Key, AfterValidator(trimmed_name)]


class WireModel(BaseModel):
    """Base of all models that are sent between processes."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    _numbers = field_validator("*", mode="before")(refuse_bool_as_number)
