"""Makes the function or group of a command ready to run: `--json` for each, and one place that reports errors."""

import gc
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from worker.domain.errors import MeeseeksError
from worker.domain.validation import describe_faults, plain_message

from .output import choose_json, fail

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.", callback=choose_json, expose_value=False)]


def command(name: str, target: str) -> Any:
    """Return the command of a function or group, which `target` names as `module:name`."""
    module, attribute = target.split(":")
    found = getattr(import_module(f"worker.cli.{module}"), attribute)
    app = typer.Typer(add_completion=False)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name)(found)
    made: Any = typer.main.get_command(app)
    return _completed(made.commands[name] if isinstance(found, typer.Typer) else made)


def plain(error: typer.BadParameter) -> str:
    """Return what is wrong with the value of an option, without the words of a library."""
    cause = error.__cause__
    return plain_message(cause.errors()[0]) if isinstance(cause, ValidationError) else error.message


def _completed(part: Any) -> Any:
    for member in getattr(part, "commands", {}).values():
        _completed(member)
    for parameter in part.params:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""  # otherwise its help offers a value
    if part.callback is not None:
        part.callback = _reporting_errors(part.callback)
        if not any("--json" in parameter.opts for parameter in part.params):
            part.params.append(_json_option())
    return part


def _reporting_errors(work: Callable[..., None]) -> Callable[..., None]:
    """End the command with a message on an expected error."""

    @wraps(work)
    def reporting(**options: Any) -> None:
        _collect_garbage()
        try:
            work(**options)
        except MeeseeksError as error:
            fail(str(error))
        except ValidationError as error:
            fail(describe_faults(error))
        finally:
            choose_json(False)

    return reporting


def _collect_garbage() -> None:
    """Turn the collection of garbage on if `main` has turned it off; it need not look at what is loaded by now."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _json_option() -> Any:
    app = typer.Typer(add_completion=False)

    @app.command()
    def any_command(as_json: AsJson = False) -> None: ...

    return typer.main.get_command(app).params[0]
