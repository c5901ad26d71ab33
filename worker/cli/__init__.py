"""The `meeseeks` command. The module of a command loads only when the command runs, so that `--help` starts fast."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Self

import typer
from typer.core import TyperCommand, TyperGroup

from .common import common

COMMANDS: Mapping[str, tuple[str, str]] = {
    "up": (
        "serving:up",
        "Run everything: a worker, the embedded store, HTTP, and an embedded Valkey unless --redis-url is given.",
    ),
    "setup": (
        "hosts.setup:setup",
        "Start the service, connect the hosts on this machine, and test each with a real prompt. Safe to run again.",
    ),
    "start": ("background:start", "Run the service in the background, until `stop` or the end of the session."),
    "stop": ("background:stop", "Stop the service of this data folder; requests in progress are finished."),
    "restart": ("background:restart", "Stop the service of this data folder if it runs, and start it again."),
    "status": ("background:status", "Show whether the service runs, and with what."),
    "logs": ("background:logs", "Show the last lines that the service in the background has logged."),
    "worker": (
        "serving:worker",
        "Run one worker on an existing Redis. Several workers can share it with a Qdrant server as the store.",
    ),
    "http": ("serving:http", "Serve only HTTP, for workers that run elsewhere on the same Redis."),
    "remember": ("memory.memories:remember", "Store a memory. The same text is stored only once."),
    "update": (
        "memory.memories:update",
        "Change a memory. Fields you omit stay unchanged; new text creates a new version.",
    ),
    "relate": ("memory.memories:relate", "Add a relation from one memory to another."),
    "forget": ("memory.memories:forget", "Delete memories permanently, and all references to them."),
    "recall": ("memory.memories:recall", "Search memories and show their scores and the searches that found them."),
    "inject": ("memory.inject:inject", "Show which memories a message gets, as the hook would inject them."),
    "receipt": (
        "memory.receipts:receipt",
        "List past requests, or explain one: which memories were considered and injected, why, and how long it took.",
    ),
    "why": (
        "memory.why:why",
        "Explain the latest request, or another one: what was near, what decided, and what would change it.",
    ),
    "doctor": ("doctor:doctor", "Check the service, store, embedder and models, and run a test injection."),
    "calibrate": (
        "tuning.calibrate:calibrate",
        "Fit the search thresholds and the relevance model to labelled tasks, or only the thresholds to the store.",
    ),
    "demo": (
        "demo:demo",
        "Start a service in a temporary folder, import example memories, and send ten tasks through the hook.",
    ),
    "replay": ("memory.replay:replay", "Re-run a past request without side effects and show what changes."),
    "label": ("memory.label:label", "Label which memories a request should have received, and add it to a case file."),
    "usage": (
        "memory.usage:usage",
        "List how often memories were injected and used, least used first. Needs reports from the post-execution hook.",
    ),
    "install": (
        "hosts.install:install",
        "Add the hooks to a host's settings file, or print the snippet to paste. Safe to run again.",
    ),
    "uninstall": ("hosts.install:uninstall", "Remove the hooks from a host's settings file and restore it as it was."),
    "calibrate-decision": (
        "tuning.calibrate_decision:calibrate_decision",
        "Calibrate a decision model's probabilities and threshold on labelled tasks.",
    ),
    "show": ("memory.memories:show_memory", "Show a memory, its earlier and later versions, and related memories."),
    "list": (
        "memory.memories:list_memories",
        "List memories page by page, including outdated ones, in no particular order.",
    ),
    "import": (
        "memory.transfers:import_memories",
        (
            "Import memories from notes, memory files of coding agents, tables, JSON, or the dump of another"
            " memory system."
        ),
    ),
    "export": ("memory.transfers:export_memories", "Export all memories of a tenant in a format that `import` reads."),
    "eval": ("tuning.evaluate:evaluation", "Measure what the service injects for labelled tasks, on temporary stores."),
    "compare": (
        "tuning.evaluate:comparison",
        "Compare two evaluations: differences with confidence intervals, and the tasks that changed.",
    ),
    "enrich": ("memory.enrich:enrich", "Let the configured model write cues for memories that have none."),
    "mcp": ("mcp:mcp", "Serve memory as MCP tools on standard input and output."),
    "skill": ("mcp:skill", "Install the Memory Search skill in a host's skills folder, or print where it is."),
    "automations": ("automations:automations", "Manage the programs that run at an orchestrator's hook points."),
    "relevance": (
        "tuning.relevance:relevance_model",
        "Show, evaluate and fit the built-in model that decides if no other model is configured.",
    ),
    "prompts": ("tuning.prompts:prompts", "Check prompt files and promote better ones."),
    "settings": (
        "settings:settings",
        "Show all settings and their origin; change saved settings with `set`, `unset` and `reset`.",
    ),
    "session": ("memory.sessions:session", "Show and change which memories a session has received."),
    "store": ("store:store", "Back up, restore, reindex or migrate the whole store."),
}
"""By the name of the command: its function or group and the first line of its help."""

HIDDEN = {"judge": "relevance"}
"""Names of earlier versions."""


MEANT = {
    **dict.fromkeys(("add", "save", "new", "create"), "use `meeseeks remember`"),
    **dict.fromkeys(("delete", "remove", "rm", "del"), "use `meeseeks forget`"),
    **dict.fromkeys(("search", "find", "query"), "use `meeseeks recall`"),
    **dict.fromkeys(("edit", "change"), "use `meeseeks update`"),
    **dict.fromkeys(("serve", "run"), "use `meeseeks up` or `meeseeks start`"),
    "init": "use `meeseeks setup`",
    "down": "use `meeseeks stop`",
    **dict.fromkeys(("check", "health"), "use `meeseeks doctor`"),
    **dict.fromkeys(("explain", "reason"), "use `meeseeks why`"),
    **dict.fromkeys(("ls", "memories"), "use `meeseeks list`"),
    **dict.fromkeys(("config", "get", "set"), "use `meeseeks settings`"),
    **dict.fromkeys(("backup", "restore", "reindex"), "use `meeseeks store`"),
}
"""What to do instead of commands that other programs have."""


class LazyCommand(TyperCommand):
    """A command that is known by name and first line of help until it runs."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        return loaded(str(self.name)).make_context(*args, **options)


class LazyGroup(TyperGroup):
    """The commands of the table."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        known = [LazyCommand(name, help=line) for name, (_, line) in COMMANDS.items()]
        hidden = [LazyCommand(name, hidden=True) for name in HIDDEN]
        self.commands = {str(command.name): command for command in (*known, *hidden)}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and args[0] in MEANT:
            ctx.fail(f"there is no command {args[0]!r}; {MEANT[args[0]]}")
        return super().resolve_command(ctx, args)

    def all_loaded(self) -> Self:
        """Load every command, for documentation."""
        self.commands = {name: loaded(name) for name in self.commands}
        return self


def loaded(name: str) -> Any:
    """Import a command."""
    target, _ = COMMANDS[HIDDEN.get(name, name)]
    command = import_module("worker.cli.command").command(name, target)
    command.hidden = name in HIDDEN
    return command


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
app.callback()(common)
