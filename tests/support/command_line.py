"""`meeseeks` commands in the test's own process: everything but the start of an interpreter is real."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from click.testing import Result
from typer.testing import CliRunner

from worker.cli import app


@dataclass(frozen=True)
class CommandLine:
    """Runs commands on the data folder `folder/data`; keyword search alone unless `variables` name an embedder."""

    folder: Path
    variables: Mapping[str, str]

    def run(self, *arguments: str, given: str = "") -> Result:
        line = ["--data-dir", str(self.folder / "data"), *arguments]
        environment = {"MEESEEKS_EMBEDDER": "none", "MEESEEKS_MODEL": "none", "COLUMNS": "200", **self.variables}
        try:
            return CliRunner().invoke(app, line, input=given, env=environment, catch_exceptions=False)
        finally:
            structlog.reset_defaults()  # the command made it log to a stream that is closed by now

    def ok(self, *arguments: str, given: str = "") -> str:
        """What a command prints that must go well."""
        result = self.run(*arguments, given=given)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *arguments: str, exit_code: int = 0) -> Any:
        result = self.run(*arguments, "--json")
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout)


def command_line(folder: Path, **variables: str) -> CommandLine:
    return CommandLine(folder, variables)
