"""Any number of generated memories and messages about them, the same on every machine."""

import hashlib
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count

from worker.domain.memory import Memory, MemoryType, Relation

TENANT = "bench"
RECIPE = 2
"""Version of the texts; increase it with every change."""

_START = datetime(2025, 1, 1, 9, tzinfo=UTC)
_DAYS = 420

_WORDS: dict[str, tuple[str, ...]] = {
    "person": (
        "Mara", "Jonas", "Priya", "Tomás", "Yuki", "Helena", "Omar", "Ingrid", "Davide", "Chidi", "Nadia", "Felix",
        "Rosa", "Anton", "Leila", "Marek", "Sofia", "Kenji", "Amara", "Viktor", "Elif", "Hugo", "Zanele", "Piotr",
        "Camille", "Ravi", "Astrid", "Mateo", "Irina", "Samuel",
    ),
    "project": (
        "Falcon", "Harbor", "Lumen", "Quartz", "Meadow", "Pioneer", "Cobalt", "Juniper", "Tundra", "Orchid",
        "Beacon", "Saffron", "Delta", "Granite", "Willow", "Comet", "Basalt", "Ember", "Lagoon", "Summit", "Cedar",
        "Nimbus", "Raven", "Opal",
    ),
    "part": (
        "billing service", "staging database", "mobile app", "search index", "login page", "nightly export",
        "payment gateway", "image resizer", "webhook relay", "audit log", "invoice template", "recommendation engine",
        "admin console", "message queue", "feature flags", "data warehouse", "checkout flow", "status page",
        "onboarding wizard", "rate limiter",
    ),
    "tool": (
        "Postgres 16", "Terraform", "Grafana", "Kafka", "Redis", "Playwright", "Kubernetes", "Figma", "Snowflake",
        "GitLab", "Sentry", "Vault", "Next.js", "dbt", "Stripe", "Cloudflare", "Airflow", "OpenTelemetry",
    ),
    "place": (
        "Lisbon", "Osaka", "Tallinn", "Nairobi", "Montreal", "Ghent", "Porto", "Leipzig", "Bergen", "Valencia",
        "Krakow", "Taipei", "Bogotá", "Aarhus", "Tbilisi", "Dunedin",
    ),
    "day": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"),
    "month": (
        "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
        "December",
    ),
    "food": (
        "peanuts", "shellfish", "oat milk", "rye bread", "coriander", "blue cheese", "dark chocolate", "olives",
        "mushrooms", "green tea", "pickled ginger", "lentil soup",
    ),
    "why": (
        "the backups had become too slow", "the auditors asked for it", "the old licence ran out",
        "customers kept losing their carts", "two outages were traced to it", "nobody could debug the old one",
        "it halves the monthly bill", "the vendor shut the old version down", "support got the same ticket every week",
        "the new regulation demands it",
    ),
    "hobby": (
        "bouldering", "choir practice", "pottery", "chess", "trail running", "beekeeping", "sailing", "linocut",
        "cold-water swimming", "tango", "birdwatching", "woodturning",
    ),
}  # fmt: skip

_MEMORIES: tuple[tuple[MemoryType, str], ...] = (
    (MemoryType.DECISION, "{person} decided to move the {part} of {project} to {tool} because {why}."),
    (MemoryType.FACT, "The {part} of {project} runs on {tool} and is deployed every {day} at {n}:30."),
    (MemoryType.FACT, "The {project} {part} times out after {n} seconds when more than {m} users are signed in."),
    (MemoryType.PREFERENCE, "{person} prefers {tool} over {tool2} for the {part} and wants no new dependency."),
    (MemoryType.PREFERENCE, "{person} never eats {food}, but likes {food2}, and books the table for {day}."),
    (MemoryType.EVENT, "On {n} {month} the {part} of {project} was down for {m} minutes; {why}."),
    (MemoryType.EVENT, "{person} and {person2} met in {place} in {month} to plan the {project} release."),
    (MemoryType.TODO, "{person} has to renew the {tool} contract of {project} before {n} {month}."),
    (MemoryType.TODO, "Ask {person} for the credentials of the {part} before the {project} audit in {place}."),
    (MemoryType.GOAL, "{project} is to cut the latency of its {part} to {n} ms by {month}."),
    (MemoryType.IDENTITY, "{person} leads the {project} team in {place} and is off on {day}s for {hobby}."),
    (MemoryType.OBSERVATION, "{person} writes very short messages about the {part} and expects tables in the answer."),
    (MemoryType.OBSERVATION, "Deployments of the {project} {part} fail on {day}s when {tool} is upgraded at {n} h."),
    (MemoryType.MENTAL_MODEL, "In {project}, the {part} owns retries; {tool} must never retry by itself."),
    (MemoryType.FACT, "The customer in {place} pays {m} euros a month for the {project} {part} and pays in {month}."),
    (MemoryType.DECISION, "Logs of the {project} {part} are kept for {n} days in {tool}, {person} signed it off."),
)

_ABOUT_MEMORIES = (
    "Please prepare the {project} release: what do I have to know about the {part} and {tool}?",
    "Write the change request for moving the {part} of {project} to {tool}, {person} will review it",
    "Book a team dinner in {place} for {person} and {person2} on {day} evening",
    "The {part} of {project} is slow again since {day}. Find out why and propose a fix that {person} will accept",
    "Draft a mail to {person} about the {tool} contract of {project}, due in {month}",
    "Plan the week of {person}: travel to {place}, the {project} audit and {hobby}",
)
_ABOUT_NOTHING = (
    "Translate 'the ferry leaves at {n}' into Icelandic and explain the grammar",
    "What is {n} times {m}, and is the result a prime number?",
    "Write a limerick about a {hobby} club on the moon with {n} members",
    "Explain how tides work to a child of {n}, in at most {m} words",
)
_NAMES = _WORDS["person"] + _WORDS["project"] + _WORDS["place"]
RELATED = "related_to"
LINKED_SHARE = 0.3
"""Share of memories linked to an earlier one."""

UNRELATED_EVERY = 4
"""One in this many messages is unrelated to all memories."""


def tenants(number: int) -> tuple[str, ...]:
    """Return the names of so many tenants."""
    return (TENANT, *(f"{TENANT}-{place}" for place in range(1, number)))


def memories(number: int, first: int = 0) -> Iterator[Memory]:
    """Return `number` memories, starting at index `first`; they are linked to one another only."""
    return (_memory(index, first) for index in range(first, first + number))


def messages(first: int = 0) -> Iterator[str]:
    """Yield distinct messages without end, starting at index `first`."""
    return (_message(index) for index in count(first))


def related_messages(first: int = 0) -> Iterator[str]:
    """Yield only messages related to memories."""
    return (_message(index) for index in count(first) if index % UNRELATED_EVERY)


def _memory(index: int, first: int) -> Memory:
    chance = random.Random(f"memory {RECIPE} {index}")
    kind, template = chance.choice(_MEMORIES)
    content = _filled(template, chance)
    links = (
        (Relation(kind=RELATED, target=f"m{chance.randrange(first, index)}"),)
        if index > first and chance.random() < LINKED_SHARE
        else ()
    )
    return Memory(
        id=f"m{index}",
        type=kind,
        content=content,
        importance=round(chance.random(), 2),
        created_at=_START + timedelta(days=chance.uniform(0, _DAYS)),
        entities=tuple(name for name in _NAMES if name in content),
        relations=links,
    )


def _message(index: int) -> str:
    chance = random.Random(f"message {RECIPE} {index}")
    templates = _ABOUT_MEMORIES if index % UNRELATED_EVERY else _ABOUT_NOTHING
    return f"{_filled(chance.choice(templates), chance)} (ticket {index})"


def _filled(template: str, chance: random.Random) -> str:
    words = {name: chance.choice(choices) for name, choices in _WORDS.items()}
    others = {f"{name}2": chance.choice(_WORDS[name]) for name in ("person", "tool", "food")}
    return template.format(**words, **others, n=chance.randrange(2, 29), m=chance.randrange(30, 900))


def digest(texts: list[str]) -> str:
    """Return a short hash of the texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
