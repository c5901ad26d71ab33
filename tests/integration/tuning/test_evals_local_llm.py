"""An evaluation by a real language model, over real HTTP: whatever it answers, everything is measured and told."""

from pathlib import Path

import pytest

from tests.integration.tuning.test_evals import CASE_LINES, case_file, evaluated, loaded, measures
from tests.support.local_llm import MISSING, SKIP_REASON, local_llm
from worker.settings.injection import Strategy
from worker.tuning.evals.measures import Measure
from worker.tuning.evals.plan import EvaluationRequest, plan_of

pytestmark = [pytest.mark.local_llm, pytest.mark.skipif(bool(MISSING), reason=SKIP_REASON), pytest.mark.timeout(180)]


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
        report = await evaluated(await plan_of(loaded(tmp_path), requested))
    asked = {run.task: run for run in report.runs}["q1"]
    assert asked.model_calls >= 1
    assert asked.input_tokens > 100
    found = measures(report)
    assert found[Measure.TOKENS] > 50
    assert found[Measure.P95] > found[Measure.P50]
    assert 0 <= found[Measure.RECALL] <= 1
