"""Evaluations that the console starts."""

from contextlib import AsyncExitStack

from worker.adapters.local.evaluation_processes import EvaluationProcesses
from worker.domain.operation import AnyHandler
from worker.operations.evaluations import EvaluationOperations
from worker.settings.injection import Settings
from worker.settings.live import LiveSettings
from worker.triage.prompt_files import default_prompts_dir

from .assembly import CASES
from .opening import utc_now

FOLDER = "evals/console"
"""Folder below the data folder with the states of evaluations."""

MODULE = "worker.tuning.evals.process"
"""Runs an evaluation; a name, since what measures the service stands above what assembles it."""


def evaluating(settings: Settings, live: LiveSettings, stack: AsyncExitStack) -> tuple[AnyHandler, ...]:
    """Return the operations of evaluations, which are run with the settings that are in force in this process."""
    service, layers, shipped = settings.service, settings.service_layers, default_prompts_dir()
    options = {**(layers[-1].values if layers else {}), "data_dir": str(service.home)}
    config = settings.file.path if settings.file.exists else None
    processes = EvaluationProcesses(
        service.home / FOLDER, MODULE, config, options, lambda: live.saved_in_force, utc_now
    )
    stack.push_async_callback(processes.aclose)
    prompts = service.prompts_dir or shipped
    return EvaluationOperations(processes, service.home / CASES, shipped / "cases", prompts).handlers()
