"""The `meeseeks` command."""

import typer

from .automations import automations
from .calibrate import calibrate
from .calibrate_decision import calibrate_decision
from .demo import demo
from .doctor import doctor
from .evaluating import comparison, evaluation
from .injecting import inject
from .install import install, uninstall
from .judge import judge
from .label import label
from .mcp import mcp, skill
from .memories import forget, list_memories, recall, relate, remember, show_memory, update
from .options import common
from .prompting import prompts
from .receipts import receipt
from .replay import replay
from .serving import http, up, worker
from .sessions import session
from .settings import settings
from .store import store
from .transfers import export_memories, import_memories
from .usage import usage

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
app.callback()(common)
for _command in (up, worker, http, remember, update, relate, forget, recall, inject, receipt, doctor, calibrate, demo):
    app.command()(_command)
app.command()(replay)
app.command()(label)
app.command()(usage)
app.command()(install)
app.command()(uninstall)
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
app.add_typer(judge, name="judge")
app.add_typer(prompts, name="prompts")
app.add_typer(settings, name="settings")
app.add_typer(session, name="session")
app.add_typer(store, name="store")
