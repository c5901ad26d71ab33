"""Whether an answer used a memory, from the words alone."""

import random
from datetime import UTC, datetime

import pytest

from worker.domain.usage import Usage
from worker.receipts.usage_evidence import MOST_CHARS, used_memories
from worker.triage.prompt_files import default_prompts_dir
from worker.tuning.labelled_worlds import read_worlds

DEPLOY = ("Deployments to production happen on Tuesdays after the stand-up", "When may the deployment happen?")
HOLD = ("Cabin holds in berth now lapse after 12 minutes", "the countdown should match how long the cabin is kept")
TYLER = ("Tyler is lactose intolerant", "Plan Tyler's birthday dinner")
TOKYO = ("東京本社の会議室は木曜日に予約できない", "来週の会議はどこで")
PEANUT = ("王伟对花生过敏", "给王伟准备午餐")
VEGETARIAN = ("김민수는 채식주의자라서 고기를 먹지 않는다", "김민수 점심 메뉴 추천")
INVOICE = ("Invoices are numbered per year and country, as in 2026-DE-0042", "How are invoices numbered?")
BREAK = ("Der Pausenraum ist freitags geschlossen", "Wo können wir am Freitag essen?")
NOON = ("Le camion passe à midi, rue des Lilas", "Quand passe le camion ?")


@pytest.mark.parametrize(
    ("case", "answer"),
    [
        (DEPLOY, "On Tuesday, right after stand-up."),
        (HOLD, "const HOLD_MINUTES = 12;"),
        (TYLER, "1. Salmon\n2. Sorbet, which has no lactose"),
        (TOKYO, "木曜日は東京本社の会議室が予約できないので、別の日にします"),
        (PEANUT, "不放花生,因为他对花生过敏"),
        (VEGETARIAN, "채식주의자이므로 고기 없는 비빔밥을 추천합니다"),
        (INVOICE, "Per year and country, for example 2026-DE-0043."),
        (BREAK, "Der Pausenraum ist dann geschlossen, also im Park."),
        (NOON, "À midi, dans la rue des Lilas."),
    ],
)
def test_what_only_the_memory_could_tell_shows_that_it_was_used(case: tuple[str, str], answer: str) -> None:
    text, message = case
    assert used_memories({"m": text}, answer, message)["m"].used


@pytest.mark.parametrize(
    ("case", "answer"),
    [
        (DEPLOY, "A deployment to production may happen after a review, once everybody in the team has agreed to it."),
        (HOLD, "I hardcoded 15 minutes. Say so if the cabin is kept for longer than that."),
        (TYLER, "Tyler gets:\n1. A cheese platter\n2. Steak\n3. Ice cream for his birthday dinner"),
        (TOKYO, "オンラインで開催しましょう。リンクを送ります。"),
        (PEANUT, "宫保鸡丁和米饭"),
        (VEGETARIAN, "불고기와 냉면을 추천합니다"),
        (INVOICE, "With consecutive numbers, most often."),
        (BREAK, "Am Freitag geht ihr am besten in den Park."),
        (NOON, "Je ne sais pas quand le camion passe."),
        (DEPLOY, ""),
    ],
)
def test_the_same_topic_is_no_use(case: tuple[str, str], answer: str) -> None:
    text, message = case
    assert not used_memories({"m": text}, answer, message)["m"].used


def test_what_the_message_brings_counts_for_nothing() -> None:
    evidence = used_memories({"m": "Tests run on port 5433"}, "Port 5433 it is", "Do tests run on port 5433?")["m"]
    assert (evidence.used, evidence.marks, evidence.share) == (False, (), 0.0)


def test_numbers_of_a_list_are_no_numbers() -> None:
    steps = "\n".join(f"{n}. step {word}" for n, word in enumerate(("one", "two", "three"), 12))
    assert not used_memories({"m": "The gate opens at 12"}, steps, "How do I get in?")["m"].used


def test_the_end_of_a_very_long_answer_is_looked_at() -> None:
    answer = "lorem " * MOST_CHARS + "so it lapses after 12 minutes"
    evidence = used_memories({"m": HOLD[0]}, answer, HOLD[1])["m"]
    assert evidence.used
    assert {"12", "minutes"} <= set(evidence.marks)


def test_texts_of_answers_are_not_kept_in_a_cache() -> None:
    from worker.text.wording import marks

    before = marks.cache_info().currsize
    used_memories({"m": "Some text"}, "A secret answer", "A question")
    assert marks.cache_info().currsize == before


def test_counts_and_neglect() -> None:
    first, second = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    once = Usage().after(True, first)
    assert once == Usage(1, 1, first, first)
    assert once.after(False, second) == Usage(2, 1, second, first)
    assert Usage().neglect == 0.0
    assert Usage(5, 0).neglect == pytest.approx(0.5)
    assert Usage(5, 5).neglect == 0.0
    assert Usage(100, 0).neglect > Usage(10, 0).neglect > Usage(10, 3).neglect > 0.0


def test_answers_of_the_labelled_worlds() -> None:
    """Turns of assistants hardly ever seem to use a memory that is none of theirs; half a memory's words are enough."""
    draw, wrong, right = random.Random(1), list[bool](), list[bool]()
    for world in read_worlds(default_prompts_dir() / "cases"):
        said_by = [turn.content for task in world.tasks for turn in task.request.recent_messages]
        texts = {memory.id: memory.content for memory in world.memories}
        for task in draw.sample(world.tasks, min(20, len(world.tasks))):
            others = draw.sample(sorted(texts), min(20, len(texts)))
            unrelated = {key: texts[key] for key in others if key not in task.relevant}
            found = used_memories(unrelated, draw.choice(said_by), task.request.message)
            wrong += [evidence.used for evidence in found.values()]
        for task in world.tasks:
            for key in task.essential & texts.keys():
                words = texts[key].split()
                answer = " ".join(words[len(words) // 2 :])
                right.append(used_memories({key: texts[key]}, answer, task.request.message)[key].used)
    assert len(wrong) > 1000
    assert sum(wrong) / len(wrong) < 0.01
    assert sum(right) / len(right) > 0.95
