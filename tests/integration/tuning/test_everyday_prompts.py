"""Everyday questions about a few facts, without a chat model: most are answered, and unrelated prompts get nothing."""

from pathlib import Path

import numpy as np

from hooks.contract import InjectionRequest
from worker.adapters.models.minilm import make_tokenizer
from worker.adapters.models.relevance_file import PieceCutter, read_relevance_model
from worker.domain.kinds import RelevanceProfile
from worker.domain.memory import Memory
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld
from worker.tuning.world_store import open_world_store

FACTS = {
    "home": "Nadia lives in Gdansk",
    "vet": "Our vet is Dr. Okafor in Mill Lane",
    "wifi": "The guest wifi password is tangerine-41",
    "nuts": "Ravi is allergic to hazelnuts",
    "standup": "Standup is at 9:15, on Mondays at 10",
    "staging": "Staging runs on port 8443 behind nginx",
    "release": "We release every second Thursday",
    "tests": "Run the tests with `make check`, never with pytest alone",
    "mail": "Mails to customers are signed with 'Kind regards, the Lumen team'",
    "birthday": "Nadia's birthday is on 14 June",
    "car": "The car goes to the garage of Pietro Amato for its service",
    "seat": "I want an aisle seat on flights",
    "bins": "The bins are collected on Tuesday morning",
    "rent": "The rent is 940 euros, due on the third",
    "school": "Ravi goes to Birch Grove school, class 4b",
}
ASKED = {
    "Where does Nadia live?": "home",
    "where does nadia live": "home",
    "Who is our vet?": "vet",
    "what's the name of the vet again?": "vet",
    "What's the wifi password for guests?": "wifi",
    "guest wifi password?": "wifi",
    "What is Ravi allergic to?": "nuts",
    "Can Ravi eat hazelnuts?": "nuts",
    "When is standup?": "standup",
    "what time is the standup on mondays": "standup",
    "Which port does staging use?": "staging",
    "On which port does staging run": "staging",
    "When do we release?": "release",
    "How do I run the tests?": "tests",
    "How do we sign mails to customers?": "mail",
    "When is Nadia's birthday?": "birthday",
    "Who services the car?": "car",
    "which seat do I want on flights?": "seat",
    "When are the bins collected?": "bins",
    "How much is the rent?": "rent",
    "When is the rent due?": "rent",
    "Which school does Ravi go to?": "school",
    "which class is ravi in": "school",
}
UNRELATED = (
    "Write a haiku about rain",
    "What is the capital of Australia?",
    "Explain what a monad is",
    "thanks, that's all for today",
    "Rename this function to parse_header",
    "How do I reverse a list in Python?",
    "Translate 'good morning' into Spanish",
)
FOUND = 20
"""Of the 23 questions, at least; the shipped model answers all."""


def task(number: int, message: str, essential: frozenset[str]) -> LabelledTask:
    fields = {"session_id": f"s{number}", "message": message, "scope": {"tenant": "everyday"}}
    return LabelledTask(
        str(number), "direct", InjectionRequest.model_validate(fields), essential, frozenset(), frozenset()
    )


async def test_most_everyday_questions_are_answered_and_nothing_else(tmp_path: Path) -> None:
    memories = tuple(Memory(id=key, content=text) for key, text in FACTS.items())
    asked = [
        *((message, frozenset({key})) for message, key in ASKED.items()),
        *((one, frozenset()) for one in UNRELATED),
    ]
    tasks = tuple(task(number, message, wanted) for number, (message, wanted) in enumerate(asked))
    file = read_relevance_model()
    threshold, cut = (
        file.relevance_model.thresholds[RelevanceProfile.BALANCED],
        PieceCutter(file.table, make_tokenizer()),
    )
    found, wrong = set[str](), dict[str, list[str]]()
    async with open_world_store(tmp_path) as store:
        for case in await store.cases(LabelledWorld("everyday", memories, tasks, ())):
            if not case.inputs:
                continue
            odds = file.relevance_model.scores(case.inputs, cut).items
            likely = 1.0 / (1.0 + np.exp(-odds))
            ids = {one.memory.id for one, p in zip(case.inputs.candidates, likely, strict=True) if p >= threshold.keeps}
            ids = ids if likely.max() >= threshold.opens else set()
            message = case.labels.request.message
            found |= {message} if ids & case.labels.essential else set()
            wrong |= {message: sorted(ids - case.labels.essential)} if ids - case.labels.essential else {}
    assert len(found) >= FOUND
    assert not set(wrong) & set(UNRELATED)
    assert len(wrong) <= 2
