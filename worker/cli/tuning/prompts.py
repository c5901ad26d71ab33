"""`meeseeks prompts`: look through prompt files, and put one into use when it has proved itself."""

from pathlib import Path
from typing import Annotated, Any

import typer

from worker.bootstrap.assembly import utc_now
from worker.cli.options import AsJson, run, settings_of
from worker.cli.output import print_json, say, show, table
from worker.domain.errors import PromptError, SettingsError
from worker.settings.injection import Settings
from worker.tuning.evals.acceptance import accept
from worker.tuning.evals.number_text import NAMES, difference, number
from worker.tuning.evals.planning import EvaluationRequest, plan_of
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
    measured,
    own_folder,
    places,
    setting,
)

prompts = typer.Typer(no_args_is_help=True, help="Look through prompt files, and put one into use.")


@prompts.command("lint")
def lint(
    context: typer.Context,
    files: Annotated[list[Path] | None, typer.Argument(help="Prompt files; without any, those in force.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with prompt files, and what is doubtful; exit code 1 where one cannot be used."""
    settings = settings_of(context, as_json=as_json)

    async def work() -> dict[str, list[PromptProblem]]:
        paths = files or [file.path for file in prompts_in_force(settings.service).values()]
        return {str(path): _looked_through(path, settings) for path in paths}

    found = run(work(), as_json=as_json)
    if as_json:
        print_json(
            {path: [{"severity": one.severity, "words": one.words} for one in told] for path, told in found.items()}
        )
    else:
        for path, told in found.items():
            say(f"{path}: {'nothing to say' if not told else ''}")
            for one in told:
                say(f"  {one.severity.value}: {one.words}")
    if any(one.severity is Severity.ERROR for told in found.values() for one in told):
        raise typer.Exit(1)


def _looked_through(path: Path, settings: Settings) -> list[PromptProblem]:
    try:
        return problems(read_prompt(path, *own_folder(settings)).prompt, settings.service.model_context)
    except PromptError as error:
        return [PromptProblem(Severity.ERROR, str(error).removeprefix(f"{path}: "))]


@prompts.command("promote")
def promote(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The prompt that is to be used from now on.")],
    to: Annotated[Path | None, typer.Option(help="Folder of prompts; unset: the service's prompts_dir.")] = None,
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
    force: Annotated[str | None, typer.Option(help="Why it is put into use all the same; recorded.")] = None,
    as_json: AsJson = False,
) -> None:
    """Put a prompt into use, if it is as good as the one in force on every measure and better on one."""
    loaded = settings_of(context, as_json=as_json)

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
        promotion = await _tried(loaded, requested, read_chooser(file, folder), folder, force, quiet=as_json)
        return promotion, install(promotion, folder, utc_now()) if promotion.passes else None

    promotion, target = run(work(), as_json=as_json)
    if as_json:
        print_json({**record_of(promotion, utc_now()), "promoted_to": str(target) if target else None})
    else:
        _show(promotion, target)
    if target is None:
        raise typer.Exit(1)


def _folder(loaded: Settings, to: Path | None) -> Path:
    """Where prompts in use are. Raises `SettingsError` where they are those of the installation."""
    folder = to or loaded.service.prompts_dir
    if folder is None:
        raise SettingsError(
            "the prompts in use are those of the installation; name a folder of your own with --to or in prompts_dir"
        )
    return folder


async def _tried(
    loaded: Settings, requested: EvaluationRequest, new: PromptFile, folder: Path, force: str | None, *, quiet: bool
) -> Promotion:
    """Both prompts evaluated in the same way, and the verdict."""
    if force is not None and not force.strip():
        raise SettingsError("--force: say why")
    old = chooser_in_force({**prompts_in_force(loaded.service), **prompts_in(folder)}, new.prompt.id)
    check_successor(new, old)
    check_place(new, old, folder)
    wrong = [one.words for one in problems(new.prompt, loaded.service.model_context) if one.severity is Severity.ERROR]
    if wrong:
        raise PromptError(f"{new.path}: {wrong[0]}")
    if not (await plan_of(loaded, requested, new)).models:
        raise SettingsError("without a model no prompt is used, so there is nothing to judge; name one with --model")
    before, after = [await measured(loaded, requested, one, fresh=False, quiet=quiet) for one in (old, new)]
    if before.missing or after.missing:
        raise SettingsError(f"not every task was run: {after.stopped or before.stopped}")
    return Promotion(new, old, before, after, accept(compared(before, after)), force)


def _show(promotion: Promotion, target: Path | None) -> None:
    def row(finding: Any) -> list[str]:
        one = finding.difference
        before, after = number(one.measure, one.before), number(one.measure, one.after)
        return [NAMES[one.measure], before, after, difference(one), finding.standing.value]

    say(f"{promotion.new.prompt.name} against {promotion.old.prompt.name}, which is in force\n")
    show(table(None, ["", "before", "after", "difference", ""], list(map(row, promotion.verdict.findings))))
    reasons = "; ".join(promotion.verdict.reasons)
    if target is None:
        say(f"\nnot promoted: {reasons}. --force REASON puts it into use all the same")
    else:
        say(f"\npromoted to {target}{f', although: {reasons}' if reasons else ''}")
