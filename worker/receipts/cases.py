"""Turn receipts into labelled cases for `meeseeks eval --cases FILE`.

A case file is JSON Lines: a line with a `message` is a labelled task (see `worker.tuning.labelled_worlds`), every other
line a memory (see `worker.transfer`).
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hooks.contract import Reason
from worker.domain.errors import OperationError, SettingsError
from worker.domain.kinds import ReceiptKeep
from worker.domain.memory import CandidateVerdict, Memory
from worker.domain.receipt import ConsideredMemory, Receipt
from worker.domain.visibility import as_everybodys
from worker.settings.atomic_file import locked, write_atomically
from worker.text.file_names import file_name_of
from worker.text.masking import mask_secrets
from worker.transfer.fields import to_fields

from .case_models import LabelledCase, Labels, Line

LONGEST_QUOTED = 230
"""Most characters of a quoted tenant in the name of a file, which file systems limit to 255 with all that is added."""


def candidates(receipt: Receipt) -> tuple[ConsideredMemory, ...]:
    """Return the memories that can be labelled: the considered ones that the session had not seen. Pure.

    Deleted ones cannot, since their text is gone.
    """
    offered = (one for one in receipt.considered if one.verdict is not CandidateVerdict.ALREADY_SHOWN)
    return tuple(one for one in offered if not one.deleted)


def labels_of(receipt: Receipt, requested: Labels) -> Labels:
    """Check labels. Raise `OperationError` if a memory was not considered, was deleted or has two labels. Pure."""
    known = {one.id for one in candidates(receipt)}
    labelled = [*requested.essential, *requested.missing, *requested.useful, *requested.forbidden]
    named = {*labelled, *(receipt.chosen if requested.accept else ())}
    deleted = sorted(one.id for one in receipt.considered if one.deleted and one.id in named)
    if deleted:
        raise _bad_request(f"deleted since, so that it cannot be part of a case: {', '.join(deleted)}")
    elsewhere = set(requested.missing) - {one.id for one in receipt.considered}
    unknown = sorted(set(labelled) - known - elsewhere)
    if unknown:
        raise _bad_request(f"not considered for this request: {', '.join(unknown)}")
    twice = sorted({key for key in labelled if labelled.count(key) > 1})
    if twice:
        raise _bad_request(f"labelled more than once: {', '.join(twice)}")
    accepted = [key for key in receipt.chosen if key not in labelled] if requested.accept else []
    return requested.model_copy(update={"essential": (*requested.essential, *requested.missing, *accepted)})


def case_of(
    receipt: Receipt, today: Sequence[Memory], requested: Labels, shared_users: Sequence[str] = ()
) -> LabelledCase:
    """Build a case from a receipt and labels; mask secrets. Pure.

    Memories that have changed keep the receipt's text. Shared owners, and memories deleted since, are left out. Raise
    `OperationError` if the receipt has no texts.
    """
    if receipt.kept is not ReceiptKeep.EVERYTHING:
        raise _bad_request(
            f"receipt {receipt.id} has no texts (receipt_keep = {receipt.kept}); it cannot become a case"
        )
    labels, stored = labels_of(receipt, requested), {memory.id: memory for memory in today}
    memories = [_as_it_was(one, stored.get(one.id), shared_users) for one in candidates(receipt)]
    memories += _missed(requested, stored, {one.id for one in memories}, shared_users)
    return LabelledCase(task=_task(receipt, labels), memories=tuple(to_fields(memory) for memory in memories))


def _missed(
    requested: Labels, stored: Mapping[str, Memory], known: Collection[str], shared_users: Sequence[str]
) -> Iterator[Memory]:
    """Yield the missing memories that were not considered, as they are today. Raise `OperationError` for others."""
    for key in requested.missing:
        if key in known:
            continue
        if key not in stored:
            raise _bad_request(f"there is no memory {key!r}")
        yield _shown(stored[key], shared_users)


def _task(receipt: Receipt, labels: Labels) -> Line:
    request, scope = receipt.request, receipt.request.scope
    agent = scope.agent or (request.agent_id if request.agent_id != "main" else None)
    return {
        "id": f"receipt-{receipt.id}",
        "category": labels.category,
        "message": request.message,
        "task_description": request.task_description,
        "recent_turns": [turn.model_dump() for turn in request.recent_messages],
        "source": request.source,
        "now": receipt.at.isoformat(),
        "scope": {"user": scope.user, "agent": agent, "project": scope.project, "channel": scope.channel},
        "essential": list(labels.essential),
        "useful": list(labels.useful),
        "forbidden": list(labels.forbidden),
    }


def _as_it_was(considered: ConsideredMemory, memory: Memory | None, shared_users: Sequence[str]) -> Memory:
    if memory is None:
        return Memory(
            id=considered.id,
            type=considered.type,
            content=considered.text,
            created_at=considered.created_at,
            version=considered.version,
        )
    changed = memory.version != considered.version
    update: dict[str, Any] = {"version": considered.version, **({"content": considered.text} if changed else {})}
    return _shown(memory, shared_users).model_copy(update=update)


def _shown(memory: Memory, shared_users: Sequence[str]) -> Memory:
    """Return a memory as a case shows it: with masked secrets, and without a shared owner."""
    shown = as_everybodys(memory) if memory.scope.user in shared_users else memory
    return shown.model_copy(update={"content": mask_secrets(shown.content)})


def added(lines: Sequence[str], case: LabelledCase) -> list[str]:
    """Add a case to the lines of a case file, replacing an earlier task of the same receipt.

    A memory that the file has with another text is added under an id with its version (`m1@v2`), which the task uses.
    Raise `SettingsError` if a line is invalid. Pure.
    """
    read = [_read(number, line) for number, line in enumerate(lines, 1)]
    known = {entry["id"]: entry for entry in read if "message" not in entry and "id" in entry}
    names = {memory["id"]: _name(memory, known) for memory in case.memories}
    new = [{**memory, "id": names[memory["id"]]} for memory in case.memories if names[memory["id"]] not in known]
    labels = {kind: [names[key] for key in case.task[kind]] for kind in ("essential", "useful", "forbidden")}
    task = _written({**case.task, **labels})
    kept = [task if entry.get("id") == case.task["id"] else line for entry, line in zip(read, lines, strict=True)]
    return [*kept, *map(_written, new), *([] if task in kept else [task])]


def _name(memory: Line, known: Mapping[str, Line]) -> str:
    name, number = memory["id"], memory.get("version", 1)
    while name in known and known[name].get("content") != memory["content"]:
        name, number = f"{memory['id']}@v{number}", number + 1
    return str(name)


def _read(number: int, line: str) -> Line:
    try:
        entry = json.loads(line) if line.strip() else {}
    except ValueError as error:
        raise SettingsError(f"line {number} of the case file is not JSON; nothing was changed") from error
    if not isinstance(entry, dict):
        raise SettingsError(f"line {number} of the case file is not a JSON object; nothing was changed")
    return entry


def _written(entry: Line) -> str:
    return json.dumps(entry, ensure_ascii=False)


def case_file(folder: Path, tenant: str) -> Path:
    """Return the file of a tenant's cases in the service's folder of cases."""
    quoted = quote(tenant, safe="")
    return folder / f"{quoted if len(quoted) <= LONGEST_QUOTED else file_name_of(tenant)}.jsonl"


def add_to_file(path: Path, case: LabelledCase) -> None:
    """Add a case to a file, atomically and under a lock. Raise `SettingsError` if that fails."""
    try:
        with locked(path):
            lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
            text = "".join(line + "\n" for line in added([line for line in lines if line.strip()], case))
            write_atomically(path, text)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from error


def _bad_request(text: str) -> OperationError:
    return OperationError(Reason.BAD_REQUEST, text)
