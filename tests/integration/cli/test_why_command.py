"""`meeseeks why` on a real store: the latest request, one by its id or message, and one that is tried out."""

from pathlib import Path

from tests.support.command_line import command_line

KEY = "The spare boat-shed key hangs behind the kayak rack"


def test_why_explains_past_requests_and_tries_new_ones(tmp_path: Path) -> None:
    cli = command_line(tmp_path)
    assert "there are no requests yet" in cli.run("why").output
    stored = cli.json("remember", KEY)["id"]
    asked = cli.json("inject", "Where does the spare boat-shed key hang?", "--session", "s1")
    cli.ok("inject", "thanks!")

    latest = cli.json("why")
    assert latest["result"] == "Nothing was searched for: the message is an acknowledgement."
    by_id, by_words = cli.json("why", asked["receipt_id"][:8]), cli.json("why", "spare BOAT-SHED key")
    assert by_id == by_words
    assert by_id["receipt"] == asked["receipt_id"]
    assert by_id["near"][0].startswith(f"{KEY} - injected")
    assert f"--forbidden {stored}" in by_id["correct"][0]

    tried = cli.json("why", "Where is the kayak rack?")
    assert tried["tried"] is True
    assert tried["near"][0].startswith(KEY)
    said = cli.ok("why", "spare boat-shed key")
    assert "What was near:" in said
    assert "1 memory was injected." in said


def test_one_memory_is_asked_about(tmp_path: Path) -> None:
    cli = command_line(tmp_path)
    cli.ok("remember", "The spare boat-shed key hangs behind the tide table", "--id", "key", "--user", "maria")
    asked = cli.json("inject", "Where is the spare boat-shed key?")
    found = cli.json("why", asked["receipt_id"], "--memory", "key")
    assert (found["reason"], found["memory_id"]) == ("other_owner", "key")
    assert "key: it belongs to the user maria" in cli.ok("why", "--memory", "key")
    assert "no memory with this id" in cli.ok("why", "--memory", "nothing")
