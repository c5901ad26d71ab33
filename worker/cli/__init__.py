"""The `meeseeks` command."""

import typer

from worker.cli.hosts.install import install, uninstall
from worker.cli.memory.inject import inject
from worker.cli.memory.label import label
from worker.cli.memory.memories import forget, list_memories, recall, relate, remember, show_memory, update
from worker.cli.memory.receipts import receipt
from worker.cli.memory.replay import replay
from worker.cli.memory.sessions import session
from worker.cli.memory.transfers import export_memories, import_memories
from worker.cli.memory.usage import usage
from worker.cli.tuning.calibrate import calibrate
from worker.cli.tuning.calibrate_decision import calibrate_decision
from worker.cli.tuning.evaluate import comparison, evaluation
from worker.cli.tuning.prompts import prompts
from worker.cli.tuning.relevance import relevance_model

from .automations import automations
from .demo import demo
from .doctor import doctor
from .mcp import mcp, skill
from .options import common
from .serving import http, up, worker
from .settings import settings
from .store import store

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
app.callback()(common)
for _command in (up, worker, http, remember, update, relate, forget, recall, inject, receipt, doctor, calibrate, demo):
    app.command()(_command)
for _other in (replay, label, usage, install, uninstall):
    app.command()(_other)
app.command("calibrate-decision")(calibrate_decision)
app.command("show")(show_memory)
app.command("list")(list_memories)
app.command("import")(import_memories)
app.command("export")(export_memories)
app.command("eval")(evaluation)
app.command("compare")(comparison)
app.command("mcp")(mcp)
app.command("skill")(skill)
app.add_typer(automations, name="automations")
app.add_typer(relevance_model, name="relevance")
app.add_typer(relevance_model, name="judge", hidden=True)  # its name in earlier versions
app.add_typer(prompts, name="prompts")
app.add_typer(settings, name="settings")
app.add_typer(session, name="session")
app.add_typer(store, name="store")
