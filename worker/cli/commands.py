"""The commands by name, each with the first line of its help, so that `--help` need not load them."""

from collections.abc import Mapping

COMMANDS: Mapping[str, tuple[str | None, str]] = {
    "setup": (
        "hosts.setup:setup",
        "Start the service and keep it running, connect the hosts on this machine, and test each with a real prompt.",
    ),
    "status": ("background:status", "Show whether the service runs, and with what."),
    "remember": ("memory.memories:remember", "Store a memory. The same text is stored only once."),
    "search": ("memory.memories:recall", "Search memories and show their scores and the searches that found them."),
    "list": (
        "memory.memories:list_memories",
        "List memories, the newest first and page by page, outdated ones too.",
    ),
    "show": ("memory.memories:show_memory", "Show a memory, its earlier and later versions, and related memories."),
    "edit": (
        "memory.memories:update",
        "Change a memory. Fields you omit stay unchanged; new text creates a new version.",
    ),
    "forget": ("memory.memories:forget", "Delete memories, and all references to them."),
    "undo": (
        "memory.memories:undo",
        "Restore deleted memories within ten minutes: those of the latest deletion, or these.",
    ),
    "capture": (
        "memory.capture:capture",
        "Find memories in a transcript. Turns that were captured before are skipped, so it is safe to run again.",
    ),
    "review": (
        "memory.capture:review",
        "Show the proposals that wait with the words they rest on, and accept, edit or reject them.",
    ),
    "upkeep": (
        "memory.upkeep:upkeep",
        ("Find duplicates, expired memories, changed values and unused memories; with --apply, put them in order."),
    ),
    "import": (
        "memory.transfers:import_memories",
        (
            "Import memories from notes, memory files of coding agents, tables, JSON, or the dump of another memory"
            " system."
        ),
    ),
    "export": ("memory.transfers:export_memories", "Export all memories of a tenant in a format that `import` reads."),
    "why": (
        "memory.why:why",
        "Explain the latest request, or another one: what was near, what decided, and what would change it.",
    ),
    "console": ("console:console", "Open the console in the browser, or print its address where there is none."),
    "settings": (
        "settings:settings",
        "Show all settings and their origin; change saved settings with `set`, `unset`, `reset` and `undo`.",
    ),
    "up": (
        "serving:up",
        "Run everything: a worker, the embedded store, HTTP, and an embedded Valkey unless --redis-url is given.",
    ),
    "start": ("background:start", "Run the service in the background, until `stop`."),
    "stop": ("background:stop", "Stop the service of this data folder; requests in progress are finished."),
    "restart": ("background:restart", "Stop the service of this data folder if it runs, and start it again."),
    "logs": ("background:logs", "Show the last lines that the service in the background has logged."),
    "doctor": ("doctor:doctor", "Check the service, store, embedder and models, and run a test injection."),
    "inject": ("memory.inject:inject", "Show which memories a message gets, as the hook would inject them."),
    "demo": (
        "demo:demo",
        "Start a service in a temporary folder, import example memories, and send ten tasks through the hook.",
    ),
    "prompts": ("tuning.prompts:prompts", "Check prompt files and promote better ones."),
    "eval": ("tuning.evaluate:evals", "Measure what the service injects for labelled tasks, on temporary stores."),
    "eval compare": (
        "tuning.evaluate:comparison",
        "Compare two evaluations: differences with confidence intervals, and the tasks that changed.",
    ),
    "eval label": (
        "memory.label:label",
        "Label which memories a request should have received, and add it to a case file.",
    ),
    "eval replay": ("memory.replay:replay", "Re-run a past request without side effects and show what changes."),
    "eval calibrate": (
        "tuning.calibrate:calibrate",
        "Fit the search thresholds and the relevance model to labelled tasks, or only the thresholds to the store.",
    ),
    "eval calibrate-decision": (
        "tuning.calibrate_decision:calibrate_decision",
        "Calibrate a decision model's probabilities and threshold on labelled tasks.",
    ),
    "eval capture": (
        "tuning.capture:eval_capture",
        "Measure what capture finds in labelled conversations, on a temporary store.",
    ),
    "eval cues": (
        "tuning.cues:eval_cues",
        "Let a model write cues for labelled memories, and measure what they bring.",
    ),
    "eval relevance": (
        "tuning.relevance:relevance_model",
        "Show, evaluate and fit the built-in model that decides if no other model is configured.",
    ),
    "store": ("store:store", "Maintain the store: backups, indexes, engines, relations, cues and usage."),
    "store relate": ("memory.memories:relate", "Add a relation from one memory to another."),
    "store enrich": ("memory.enrich:enrich", "Let the configured model write cues for memories that have none."),
    "store usage": (
        "memory.usage:usage",
        "List how often memories were injected and used, least used first. Needs reports from the post-execution hook.",
    ),
    "hosts": (None, "Connect the hosts of agents: hooks, MCP tools, the skill, and automations."),
    "hosts install": (
        "hosts.install:install",
        "Add the hooks and the MCP server to a host's settings, or print the snippet to paste. Safe to run again.",
    ),
    "hosts uninstall": (
        "hosts.install:uninstall",
        "Remove the hooks and the MCP server from a host's settings and restore them as they were.",
    ),
    "hosts mcp": ("mcp:mcp", "Serve memory as MCP tools on standard input and output."),
    "hosts skill": ("mcp:skill", "Install the Memory Search skill in a host's skills folder, or print where it is."),
    "hosts automations": ("automations:automations", "Manage the programs that run at an orchestrator's hook points."),
    "admin": (None, "Run workers apart, and look into past requests and sessions."),
    "admin worker": (
        "serving:worker",
        "Run one worker on an existing Redis. Several workers can share it with a Qdrant server as the store.",
    ),
    "admin http": ("serving:http", "Serve only HTTP, for workers that run elsewhere on the same Redis."),
    "admin receipts": (
        "memory.receipts:receipt",
        "List past requests, or explain one: which memories were considered and injected, why, and how long it took.",
    ),
    "admin session": ("memory.sessions:session", "Show and change which memories a session has received."),
}
"""By the full name, with its group in front: the function or group, `None` for a mere group, and its help."""

EVERY_DAY, SERVICE, GROUPS = "Every day", "Service", "Groups"

PANELS: Mapping[str, str] = {
    **dict.fromkeys(("up", "start", "stop", "restart", "logs", "doctor", "inject", "demo"), SERVICE),
    **dict.fromkeys(("prompts", "eval", "store", "hosts", "admin"), GROUPS),
}
"""Headings of commands in the help; all others are for every day."""

HIDDEN: Mapping[str, str] = {
    "add": "remember",
    "recall": "search",
    "update": "edit",
    "receipt": "admin receipts",
    "receipts": "admin receipts",
    "judge": "eval relevance",
    **{name: f"eval {name}" for name in ("compare", "label", "replay", "calibrate", "calibrate-decision", "relevance")},
    **{name: f"store {name}" for name in ("relate", "enrich", "usage")},
    **{name: f"hosts {name}" for name in ("install", "uninstall", "mcp", "skill", "automations")},
    **{name: f"admin {name}" for name in ("worker", "http", "session")},
}
"""Other spellings that work, most of them of earlier versions."""

MEANT: Mapping[str, str] = {
    **dict.fromkeys(("save", "new", "create", "learn", "memorize"), "remember"),
    **dict.fromkeys(("delete", "remove", "rm", "del", "erase", "drop"), "forget"),
    **dict.fromkeys(("find", "query", "lookup", "grep"), "search"),
    **dict.fromkeys(("change", "modify"), "edit"),
    **dict.fromkeys(("ls", "memories", "all"), "list"),
    **dict.fromkeys(("get", "view", "cat"), "show"),
    **dict.fromkeys(("serve", "run"), "up"),
    **dict.fromkeys(("init", "bootstrap"), "setup"),
    **dict.fromkeys(("down", "kill"), "stop"),
    "ps": "status",
    **dict.fromkeys(("check", "health", "test"), "doctor"),
    **dict.fromkeys(("explain", "reason", "debug"), "why"),
    **dict.fromkeys(("config", "set"), "settings"),
    **dict.fromkeys(("load", "ingest"), "import"),
    **dict.fromkeys(("ui", "web", "browser", "dashboard", "open"), "console"),
    **dict.fromkeys(("dump", "save-as"), "export"),
    **{name: f"store {name}" for name in ("backup", "restore", "reindex", "migrate")},
    **{name: f"prompts {name}" for name in ("lint", "promote")},
    **dict.fromkeys(("connect", "hooks"), "hosts install"),
    **dict.fromkeys(("dedup", "deduplicate", "merge", "cleanup", "clean", "consolidate", "tidy"), "upkeep"),
    "link": "store relate",
    "log": "logs",
    "server": "up",
    "evaluate": "eval",
    "version": "--version",
    "help": "--help",
}
"""What to use instead of words that people try."""
