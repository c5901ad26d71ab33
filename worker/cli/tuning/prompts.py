"""`meeseeks prompts`: check prompt files, and promote a prompt that measures better than the current one."""

from pathlib import Path
from typing import Annotated

import typer

from worker.bootstrap.opening import utc_now
from worker.cli.local import quiet_settings_of
from worker.cli.output import printed_as_json, say, show, table
from worker.cli.running import run_async
from worker.domain.errors import PromptError, SettingsError
from worker.settings.injection import Settings
from worker.tuning.evals.acceptance import accept
from worker.tuning.evals.plan import EvaluationRequest, plan_of
from worker.tuning.evals.promotion import Promotion, check_place, check_successor, install, record_of
from worker.tuning.evals.prompt_files import (
    PromptFile,
    chooser_in_force,
    prompts_in,
    prompts_in_force,
    read_chooser,
    read_prompt,
)
from worker.tuning.evals.prompt_lint import PromptProblem, Severity, problems

from .evaluate import (
    ApiBase,
    Cases,
    Chooser,
    Deadline,
    MaxCost,
    Model,
    Parallel,
    Repeat,
    Set,
    World,
    Worlds,
    compared,
    difference_cells,
    measured,
    own_folder,
    places,
    setting,
)

prompts = typer.Typer(no_args_is_help=True, help="Check prompt files and promote better ones.")


@prompts.command("lint")
def lint(
    context: typer.Context,
    files: Annotated[list[Path] | None, typer.Argument(help="Prompt files (default: those in use).")] = None,
) -> None:
    """Report errors and warnings in prompt files; exit with code 1 if one cannot be used."""
    settings = quiet_settings_of(context)

    async def work() -> dict[str, list[PromptProblem]]:
        paths = files or [file.path for file in prompts_in_force(settings.service).values()]
        return {str(path): _problems_of(path, settings) for path in paths}

    found = run_async(work())
    fields = {
        path: [{"severity": one.severity, "words": one.words} for one in listed] for path, listed in found.items()
    }
    if not printed_as_json(fields):
        for path, listed in found.items():
            say(f"{path}: {'no problems found' if not listed else ''}")
            for one in listed:
                say(f"  {one.severity.value}: {one.words}")
    if any(one.severity is Severity.ERROR for listed in found.values() for one in listed):
        raise typer.Exit(1)


def _problems_of(path: Path, settings: Settings) -> list[PromptProblem]:
    try:
        return problems(read_prompt(path, *own_folder(settings)).prompt, settings.service.model_context)
    except PromptError as error:
        return [PromptProblem(Severity.ERROR, str(error).removeprefix(f"{path}: "))]


@prompts.command("promote")
def promote(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Prompt file to promote.")],
    to: Annotated[Path | None, typer.Option(help="Folder of prompts in use (default: prompts_dir).")] = None,
    model: Model = None,
    model_api_base: ApiBase = None,
    strategy: Chooser = None,
    worlds: Worlds = None,
    cases: Cases = None,
    world: World = None,
    settings: Set = None,
    repeat: Repeat = 1,
    parallel: Parallel = 4,
    max_cost: MaxCost = None,
    deadline_ms: Deadline = None,
    force: Annotated[str | None, typer.Option(help="Promote it regardless, for this recorded reason.")] = None,
) -> None:
    """Put a prompt into use if no measure gets worse and at least one gets better."""
    loaded = quiet_settings_of(context)

    async def work() -> tuple[Promotion, Path | None]:
        requested = EvaluationRequest(
            model=model,
            model_api_base=model_api_base,
            strategy=strategy,
            worlds=places(worlds, cases),
            only=world or (),
            settings=dict(map(setting, settings or ())),
            repeat=repeat,
            parallel=parallel,
            max_cost=max_cost,
            deadline_ms=deadline_ms,
        )
        folder = _folder(loaded, to)
        promotion = await _evaluate(loaded, requested, read_chooser(file, folder), folder, force)
        return promotion, install(promotion, folder, utc_now()) if promotion.passes else None

    promotion, target = run_async(work())
    if not printed_as_json({**record_of(promotion, utc_now()), "promoted_to": str(target) if target else None}):
        _print(promotion, target)
    if target is None:
        raise typer.Exit(1)


def _folder(loaded: Settings, to: Path | None) -> Path:
    """Return the folder of prompts in use. Raise `SettingsError` if it is the shipped one."""
    folder = to or loaded.service.prompts_dir
    if folder is None:
        raise SettingsError("the shipped prompts are in use; name a folder of your own with --to or in prompts_dir")
    return folder


async def _evaluate(
    loaded: Settings, requested: EvaluationRequest, new: PromptFile, folder: Path, force: str | None
) -> Promotion:
    """Check the new prompt and evaluate both in the same way."""
    if force is not None and not force.strip():
        raise SettingsError("--force: give a reason")
    old = chooser_in_force({**prompts_in_force(loaded.service), **prompts_in(folder)}, new.prompt.id)
    check_successor(new, old)
    check_place(new, old, folder)
    wrong = [one.words for one in problems(new.prompt, loaded.service.model_context) if one.severity is Severity.ERROR]
    if wrong:
        raise PromptError(f"{new.path}: {wrong[0]}")
    if not (await plan_of(loaded, requested, new)).models:
        raise SettingsError("without a model no prompt is used; choose one with --model")
    before, after = [await measured(loaded, requested, one, fresh=False) for one in (old, new)]
    if before.missing or after.missing:
        raise SettingsError(f"not all tasks were run: {after.stopped or before.stopped}")
    return Promotion(new, old, before, after, accept(compared(before, after)), force)


def _print(promotion: Promotion, target: Path | None) -> None:
    rows = [[*difference_cells(one.difference), one.standing.value] for one in promotion.acceptance.findings]
    say(f"current prompt: {promotion.old.prompt.name}; new prompt: {promotion.new.prompt.name}\n")
    show(table(None, ["", "before", "after", "difference", ""], rows))
    reasons = "; ".join(promotion.acceptance.reasons)
    if target is None:
        say(f"\nnot promoted: {reasons}; use --force REASON to promote it regardless")
    else:
        say(f"\npromoted to {target}{f', despite: {reasons}' if reasons else ''}")
