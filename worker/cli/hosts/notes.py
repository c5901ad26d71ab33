"""Notes for agents on this machine, which `setup` offers to import."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from worker.cli.memory.import_report import ImportReport, previewed
from worker.cli.memory.places import Places
from worker.cli.memory.transfers import ImportOptions, import_into
from worker.domain.errors import MemoryRejected
from worker.domain.memory import Memory
from worker.settings.injection import Settings
from worker.text.counts import counted
from worker.transfer.formats import Selection, sources

from .host_setup import HostEnvironment

PLACES = (
    *("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", ".claude/CLAUDE.md", ".codex/AGENTS.md"),
    *(".claude/memory", ".claude/rules", ".claude/projects/*/memory", ".codex/memories", ".cursor/rules"),
)
"""Files and folders below the home folder and this one; `*` is any name."""

SHOWN = 5
TENANT = "default"


@dataclass(frozen=True, slots=True)
class Notes:
    """Files that were not imported yet, and the first of their memories as lines."""

    selection: Selection
    count: int
    first: tuple[str, ...]

    @property
    def paths(self) -> list[str]:
        return [str(source.path) for source in self.selection.files]

    def lines(self) -> Iterator[str]:
        """Yield what would be imported."""
        yield f"- notes for agents that could become {counted(self.count)}:"
        yield from (f"    {path}" for path in self.paths)
        yield from (f"    + {line}" for line in self.first)
        if self.count > len(self.first):
            yield f"    and {self.count - len(self.first)} more"


def find_notes(environment: HostEnvironment, settings: Settings) -> Notes:
    """Look for notes, and read them as an import would."""
    places = Places(settings.service.home, TENANT)
    found = sources(list(_existing(environment)))
    files = [source for source in found.files if not places.place(source.path).ids]
    selection = Selection(files, found.left_out, found.folders)
    memories = list({memory.id: memory for memory in _memories(selection)}.values())
    return Notes(selection, len(memories), tuple(previewed(memory) for memory in memories[:SHOWN]))


def import_notes(notes: Notes, settings: Settings) -> ImportReport:
    """Import them all."""
    report = ImportReport()
    options = ImportOptions(mask=settings.service.mask_secrets_at_write)
    import_into(report, settings, sources([source.path for source in notes.selection.files]), TENANT, options)
    return report


def _existing(environment: HostEnvironment) -> Iterator[Path]:
    for folder in dict.fromkeys((environment.home, environment.project)):
        for place in PLACES:
            yield from sorted(folder.glob(place))


def _memories(selection: Selection) -> Iterator[Memory]:
    for source in selection.files:
        try:
            yield from (entry for entry in source.entries(mask=True) if isinstance(entry, Memory))
        except (OSError, MemoryRejected):
            continue  # the import itself tells why
