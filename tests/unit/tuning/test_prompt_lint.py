"""What `meeseeks prompts lint` finds doubtful, each by a prompt that is like the shipped one but for that."""

import pytest

from worker.triage.prompt_files import default_prompts_dir, load_prompts, parse_prompt
from worker.tuning.evals.prompt_lint import Severity, problems

TEXT = (default_prompts_dir() / "triage.md").read_text(encoding="utf-8")
WINDOW = 8192
EXAMPLE = "# Example: user\n"


def told(text: str, window: int = WINDOW) -> list[tuple[Severity, str]]:
    return [(one.severity, one.words) for one in problems(parse_prompt(text, "here"), window)]


def changed(old: str, new: str, times: int = -1) -> str:
    assert old in TEXT
    return TEXT.replace(old, new, times)


def test_the_shipped_prompts_are_beyond_doubt() -> None:
    for prompt in load_prompts(default_prompts_dir()).values():
        assert problems(prompt, WINDOW) == []


HEAD, _, REST = TEXT.partition("# Example: user\n")
WITHOUT_EXAMPLES = HEAD + "# User\n" + REST.partition("# User\n")[2]


@pytest.mark.parametrize(
    ("text", "severity", "words"),
    [
        (
            changed('{"relevant":[1,3,5],"sufficient":true}', "one and three"),
            Severity.ERROR,
            "answer of example 1 cannot",
        ),
        (changed('"relevant":[1,3,5]', '"relevant":[7]'), Severity.ERROR, "answer of example 1 cannot"),
        (changed('{"relevant":[1,3,5],"sufficient":true}', '{"relevant": [1, 3]}'), Severity.WARNING, "has spaces"),
        (
            changed('"relevant":[],', '"relevant":[1],'),
            Severity.WARNING,
            "nothing",
        ),
        (WITHOUT_EXAMPLES, Severity.WARNING, "there is no example"),
        (changed("max_tokens: 120", "max_tokens: 8"), Severity.WARNING, "may be cut off"),
        (changed("temperature: 0.0", "temperature: 1.0"), Severity.WARNING, "different answers"),
        (
            changed('{"relevant":[numbers, most useful first],"sufficient":true}\nSet', "numbers\nSet"),
            Severity.WARNING,
            "answer format",
        ),
        (changed("data", "text"), Severity.WARNING, "are data"),
        (TEXT.replace("{{candidates}}", "none", 1), Severity.ERROR, "does not use {{candidates}}"),
    ],
)
def test_what_is_doubtful_is_said(text: str, severity: Severity, words: str) -> None:
    found = told(text)
    assert [one for one in found if one[0] is severity and words in one[1]], found


def test_a_small_context_is_told_of() -> None:
    assert "some candidates will not fit" in told(TEXT, 1024)[0][1]


def test_a_prompt_that_does_not_know_the_time_is_told_of() -> None:
    text = TEXT.replace("variables: [now, task", "variables: [task").replace("Now: {{now}}\n", "")
    assert [words for _, words in told(text)] == [
        "no section uses {{now}}, so the model cannot recognise outdated memories"
    ]


def test_a_question_without_its_note_cannot_be_asked() -> None:
    text = (default_prompts_dir() / "decision.md").read_text(encoding="utf-8")
    broken = text.replace("Note: {{candidate}}", "Yes?").replace("{{task}}", "{{task}} {{candidate}}")
    assert told(broken) == [(Severity.ERROR, "'# User' does not use {{candidate}}, so the model does not see it")]
