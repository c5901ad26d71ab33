"""An evaluation by a real language model, over real HTTP: whatever it answers, everything is measured and told."""

import re
from pathlib import Path

import pytest

from tests.integration.tuning.test_evals import CASE_LINES, case_file, evaluated, loaded, measures
from tests.support.local_llm import MISSING, SKIP_REASON, local_llm
from worker.settings.injection import Strategy
from worker.triage.prompt_files import default_prompts_dir
from worker.tuning.evals.measures import Measure
from worker.tuning.evals.plan import EvaluationRequest, plan_of
from worker.tuning.evals.prompt_files import PromptFile, read_chooser

pytestmark = [pytest.mark.local_llm, pytest.mark.skipif(bool(MISSING), reason=SKIP_REASON)]


SYSTEM = re.compile(r"(?ms)^# System\n.*?^# User$")
SHORT = 'Choose what the task needs. Answer with JSON and nothing else: {"relevant":[numbers],"sufficient":true}'


def short_prompt(folder: Path) -> PromptFile:
    """Return the shipped prompt without rules and examples: reading is what takes a model's time.

    Tests of the adapter ask it with the whole prompt.
    """
    text = (default_prompts_dir() / "triage.md").read_text(encoding="utf-8").replace("version: 2", "version: 3")
    (folder / "short.md").write_text(SYSTEM.sub(f"# System\n{SHORT}\n# User", text), encoding="utf-8")
    return read_chooser(folder / "short.md")


async def test_a_real_model_is_measured(tmp_path: Path) -> None:
    with local_llm() as server:
        requested = EvaluationRequest(
            model="openai/local",
            model_api_base=server.url,
            strategy=Strategy.LLM,
            worlds=case_file(tmp_path, *CASE_LINES),
            deadline_ms=60_000,
            parallel=1,
        )
        report = await evaluated(await plan_of(loaded(tmp_path), requested, short_prompt(tmp_path)))
    asked = {run.task: run for run in report.runs}["q1"]
    assert asked.model_calls >= 1
    assert asked.input_tokens > 100
    found = measures(report)
    assert found[Measure.TOKENS] > 50
    assert found[Measure.P95] > found[Measure.P50]
    assert 0 <= found[Measure.RECALL] <= 1
