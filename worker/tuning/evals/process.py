"""Run one evaluation in a process of its own: `python -m worker.tuning.evals.process`.

It reads a line with an `EvaluationJob` and prints lines with `EvaluationNews`. It ends when it is told to, and when the
process that began it is gone; what it has measured by then is kept for the next time.
"""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TextIO

import numpy as np

from worker.bootstrap.core import open_core
from worker.bootstrap.logs import configure_logging
from worker.bootstrap.opening import utc_now
from worker.domain.errors import MeeseeksError
from worker.operations.client import OperationClient
from worker.operations.local_client import LocalOperationClient
from worker.ports.evaluations import EstimatedMeasure, EvaluationJob, EvaluationNews, EvaluationResult
from worker.settings.injection import Settings, load_settings
from worker.settings.selection import Strategy
from worker.settings.service import ServiceSettings

from .archive import FOLDER, EvaluationArchive
from .comparison import mean_faults
from .measures import Summary, summaries_of
from .number_text import known
from .plan import EvaluationRequest, plan_of
from .prompt_files import PromptFile, read_chooser
from .results import Report, by_task
from .runner import evaluate

NICE = 10
"""How far requests go before an evaluation on a busy machine."""


def main() -> None:
    os.nice(NICE)
    configure_logging(ServiceSettings(log_level="error"))
    news, sys.stdout = sys.stdout, sys.stderr  # libraries print, too
    try:
        asyncio.run(_run(EvaluationJob.model_validate_json(sys.stdin.readline()), news))
    except asyncio.CancelledError:
        sys.exit(128 + signal.SIGTERM)


async def _run(job: EvaluationJob, news: TextIO) -> None:
    """Run the job, or say why it cannot be run."""
    here = asyncio.current_task()
    assert here is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, here.cancel)
    try:
        result = await _result(job, news)
        _say(news, EvaluationNews(done=result.runs, total=result.runs + result.missing, result=result))
    except MeeseeksError as error:
        _say(news, EvaluationNews(error=str(error)))


async def _result(job: EvaluationJob, news: TextIO) -> EvaluationResult:
    loaded = load_settings(job.config, **job.overrides)
    archive = EvaluationArchive(loaded.service.home / FOLDER)
    with tempfile.TemporaryDirectory(prefix="meeseeks-prompt-") as folder:
        prompt = await asyncio.to_thread(_prompt, job, loaded, Path(folder))
        plan = await plan_of(loaded, _request(job), prompt)
    parent, done = os.getppid(), 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if os.getppid() != parent:
            sys.exit(1)
        _say(news, EvaluationNews(done=done, total=plan.runs))

    advance(0)
    report = await evaluate(plan, _service, archive=archive, advance=advance, now=utc_now())
    archive.keep(report)
    return result_of(report)


def _request(job: EvaluationJob) -> EvaluationRequest:
    """Return what to evaluate, one task after the other, so that times are those of a quiet machine."""
    order = job.order
    chooser = {} if order.strategy is Strategy.AUTO else {"strategy": order.strategy}
    return EvaluationRequest(worlds=job.labelled, settings=job.saved | chooser, parallel=1, max_cost=order.max_cost)


def _prompt(job: EvaluationJob, loaded: Settings, folder: Path) -> PromptFile | None:
    if job.order.prompt is None:
        return None
    file = folder / "prompt.md"
    file.write_text(job.order.prompt, encoding="utf-8")
    return read_chooser(file, *((loaded.service.prompts_dir,) if loaded.service.prompts_dir else ()))


@asynccontextmanager
async def _service(settings: Settings) -> AsyncIterator[OperationClient]:
    async with open_core(settings, with_model=settings.service.model != "none") as core:
        yield LocalOperationClient(core.operations)


def result_of(report: Report) -> EvaluationResult:
    """Return what a page shows of a report. Pure."""
    summaries = summaries_of(report)
    times = [run.elapsed_ms for run in report.runs]
    return EvaluationResult(
        report=report.id,
        prompt=report.setup.prompt,
        model=report.setup.model,
        runs=len(report.runs),
        cached=report.cached,
        missing=report.missing,
        stopped=report.stopped,
        fault=report.unanswered,
        measures=_estimates(summaries[""]),
        categories={name: _estimates(one) for name, one in summaries.items() if name},
        times_ms=tuple(round(float(one), 1) for one in np.percentile(times, range(101))) if times else (),
        faults={"/".join(key): mean_faults(runs) for key, runs in by_task(report.runs).items()},
        worlds=report.setup.worlds,
    )


def _estimates(summary: Summary) -> dict[str, EstimatedMeasure]:
    return {
        measure.value: EstimatedMeasure(value=found.value, low=known(found.low), high=known(found.high))
        for measure, found in summary.items()
    }


def _say(news: TextIO, one: EvaluationNews) -> None:
    print(one.model_dump_json(), file=news, flush=True)


if __name__ == "__main__":
    main()
