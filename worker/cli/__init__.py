"""The `meeseeks` command. The module of a command loads only when the command runs, so that `--help` starts fast."""

import sys
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Literal, Self

import typer
from typer.core import TyperCommand, TyperGroup

from .commands import COMMANDS, EVERY_DAY, HIDDEN, MEANT, PANELS
from .common import common


class LazyCommand(TyperCommand):
    """A command that is known by name and first line of help until it runs."""

    def __init__(self, name: str, target: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._target = target

    def load(self) -> Any:
        """Import the command."""
        command = loaded(self._target)
        command.hidden, command.rich_help_panel = self.hidden, self.rich_help_panel
        command.rich_markup_mode = _markup()
        return command

    def make_context(self, *args: Any, **options: Any) -> Any:
        return self.load().make_context(*args, **options)


class LazyGroup(TyperGroup):
    """The commands of the table."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        top = {name: line for name, (_, line) in COMMANDS.items() if " " not in name}
        self.commands = {
            **{name: LazyCommand(name, name, help=top[name], rich_help_panel=_panel(name)) for name in top},
            **{name: LazyCommand(name, target, hidden=True) for name, target in HIDDEN.items()},
        }

    def main(self, *args: Any, **options: Any) -> Any:
        self.rich_markup_mode = _markup()
        return super().main(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = import_module("worker.cli.command").plain(error)  # slow to load, and only needed here
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write plain help as the terminal shows it: under the headings of `PANELS`."""
        for heading in dict.fromkeys((EVERY_DAY, *PANELS.values())):
            with formatter.section(heading):
                formatter.write_dl(list(self._under(heading)))

    def _under(self, heading: str) -> Iterator[tuple[str, str]]:
        for name, command in self.commands.items():
            if not command.hidden and _panel(name) == heading:
                yield name, command.help or ""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not ctx.resilient_parsing:
            meant = MEANT.get(args[0])
            ctx.fail(
                f"there is no command {args[0]!r}; {f'use `meeseeks {meant}`' if meant else self._nearest(args[0])}"
            )
        return super().resolve_command(ctx, args)

    def _nearest(self, word: str) -> str:
        found = get_close_matches(word, self.commands, n=1)
        return f"did you mean `meeseeks {HIDDEN.get(found[0], found[0])}`?" if found else "see `meeseeks --help`"

    def all_loaded(self) -> Self:
        """Load every command, for documentation."""
        _load_all(self)
        return self


def _load_all(group: Any) -> None:
    for name, command in group.commands.items():
        if isinstance(command, LazyCommand):
            group.commands[name] = command.load()
        if isinstance(group.commands[name], TyperGroup):
            _load_all(group.commands[name])


def _markup() -> Literal["rich"] | None:
    """Return how help and usage errors are drawn: with frames on a terminal, and as plain text elsewhere."""
    return "rich" if sys.stdout.isatty() else None


def _panel(name: str) -> str:
    return PANELS.get(name, EVERY_DAY)


def loaded(name: str) -> Any:
    """Import a command; of a group, only the group."""
    target, line = COMMANDS[name]
    short = name.rpartition(" ")[2]
    command: Any = (
        TyperGroup(name=short, help=line, no_args_is_help=True) if target is None else _imported(short, target)
    )
    members = {path.rpartition(" ")[2]: path for path in COMMANDS if path.startswith(f"{name} ")}
    if members:
        command.commands |= {one: LazyCommand(one, path, help=COMMANDS[path][1]) for one, path in members.items()}
    return command


def _imported(name: str, target: str) -> Any:
    return import_module("worker.cli.command").command(name, target)


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False)
app.callback()(common)
