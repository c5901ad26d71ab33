CREATE TABLE automations (
  id            INTEGER PRIMARY KEY,
  name          TEXT NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 100),
  hook_point    TEXT NOT NULL CHECK (length(hook_point) > 0),
  mode          TEXT NOT NULL DEFAULT 'persistent' CHECK (mode IN ('persistent', 'ephemeral')),
  status        TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'disabled')),
  blocking      INTEGER NOT NULL DEFAULT 1 CHECK (blocking IN (0, 1)),
  kind          TEXT NOT NULL DEFAULT 'script' CHECK (kind IN ('script', 'python')),
  script_path   TEXT NOT NULL CHECK (length(script_path) > 0),
  workspace_dir TEXT,
  timeout_ms    INTEGER NOT NULL DEFAULT 3000 CHECK (timeout_ms BETWEEN 1 AND 60000),
  position      INTEGER NOT NULL DEFAULT 100,
  created_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
  updated_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
);

CREATE INDEX automations_by_hook_point ON automations (hook_point, status, position, id);

INSERT INTO automations (name, hook_point, mode, status, blocking, kind, script_path, timeout_ms, position)
VALUES (
  'memory-injection', 'worker:pre_execution', 'persistent', 'active', 1,
  'python', '.automations.memory_injection:MemoryInjection', 3000, 10
);
