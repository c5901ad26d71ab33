"""The `meeseeks` command."""

import typer

from .demo import demo
from .doctor import doctor
from .injecting import inject, receipt
from .memories import export_memories, forget, import_memories, recall, remember
from .options import common
from .serving import up, worker
from .settings import settings

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
app.callback()(common)
for _command in (up, worker, remember, recall, inject, receipt, forget, doctor, demo):
    app.command()(_command)
app.command("import")(import_memories)
app.command("export")(export_memories)
app.add_typer(settings, name="settings")
