"""What `make run` shows: ten tasks through the hook, without a model."""

import json
from pathlib import Path

from tests.support.stack import command


def test_the_demo_is_right_in_at_least_eight_of_ten_tasks(tmp_path: Path) -> None:
    done = command(tmp_path, "demo", "--json", variables={"MEESEEKS_MODEL": "none"}, seconds=120)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert len(shown["tasks"]) == 10
    assert shown["right"] >= 8
    engines = {task["result"]["engine"] for task in shown["tasks"] if task["result"]["outcome"] != "skipped"}
    assert engines == {"judge"}
