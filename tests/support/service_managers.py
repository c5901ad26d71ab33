"""Executables named `systemctl` and `launchctl` that do what the real ones do to the files and processes of a test.

Each runs as a process of its own and notes its calls. Only what `worker.adapters.local.service_managers` uses is there.
"""

import sys
from pathlib import Path

COMMON = """#!PYTHON
import json, os, pathlib, plistlib, shlex, signal, subprocess, sys, time
STATE = pathlib.Path(FOLDER)
words = sys.argv[1:]
with (STATE / "calls").open("a") as calls:
    calls.write(" ".join(words) + "\\n")
for refused in (STATE / "refuse").read_text().split() if (STATE / "refuse").exists() else ():
    if refused in words:
        sys.exit("Access denied")

def launch(name, command, log, variables, folder):
    with open(log, "ab") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=folder, start_new_session=True,
            env={**os.environ, **variables})
    (STATE / (name + ".pid")).write_text(str(process.pid))

def end(name):
    file = STATE / (name + ".pid")
    if not file.exists():
        return
    pid = int(file.read_text())
    file.unlink()
    for step in range(600):
        try:
            os.kill(pid, signal.SIGTERM if step == 0 else 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
"""

SYSTEMCTL = """
assert words.pop(0) == "--user"
folder = pathlib.Path(os.environ.get("XDG_CONFIG_HOME") or os.environ["HOME"] + "/.config") / "systemd/user"

def values(key):
    lines = (folder / words[1]).read_text().splitlines()
    found = [line.partition("=")[2] for line in lines if line.startswith(key + "=")]
    return [value.replace("%%", "%") for value in found]

link = folder / "default.target.wants" / words[-1]
if words[0] == "enable":
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(folder / words[1])
elif words[0] == "disable":
    link.unlink()
    link.parent.rmdir()
elif words[0] == "start" and not (STATE / (words[1] + ".pid")).exists():
    command = [word.replace("$$", "$") for word in shlex.split(values("ExecStart")[0])]
    pairs = [shlex.split(value)[0].partition("=") for value in values("Environment")]
    log = values("StandardOutput")[0].removeprefix("append:")
    launch(words[1], command, log, {name: value for name, _, value in pairs}, values("WorkingDirectory")[0][1:])
elif words[0] == "stop":
    end(words[1])
"""

LAUNCHCTL = """
domain = f"user/{os.getuid()}"
verb, place = words[:2]
loaded = STATE / (place.rpartition("/")[2] + ".loaded")
if verb == "print":
    sys.exit(0 if place == domain or loaded.exists() else 113)
elif verb in ("bootstrap", "kickstart"):
    assert place.startswith(domain), place
    file = pathlib.Path(words[2] if verb == "bootstrap" else loaded.read_text())
    values = plistlib.loads(file.read_bytes())
    (STATE / (values["Label"] + ".loaded")).write_text(str(file))
    launch(values["Label"], values["ProgramArguments"], values["StandardOutPath"], values["EnvironmentVariables"],
        values["WorkingDirectory"])
elif verb == "bootout":
    if not loaded.exists():
        sys.exit("Boot-out failed: 3: No such process")
    loaded.unlink()
    end(place.rpartition("/")[2])
"""


class ScriptedManager:
    """One of the executables: `bin` is a folder for `PATH`."""

    def __init__(self, folder: Path, program: str) -> None:
        self.bin, self._state = folder / "bin", folder / "manager"
        for made in (self.bin, self._state):
            made.mkdir(parents=True)
        script = COMMON.replace("PYTHON", sys.executable).replace("FOLDER", repr(str(self._state)))
        script += {"systemctl": SYSTEMCTL, "launchctl": LAUNCHCTL}[program]
        (self.bin / program).write_text(script, encoding="utf-8")
        (self.bin / program).chmod(0o755)

    def refuse(self, *words: str) -> None:
        """Fail from now on if one of these is asked for."""
        (self._state / "refuse").write_text(" ".join(words), encoding="utf-8")

    @property
    def calls(self) -> list[str]:
        return (self._state / "calls").read_text(encoding="utf-8").splitlines()

    @property
    def running(self) -> list[str]:
        """Names of the services that were started and not stopped."""
        return sorted(path.stem for path in self._state.glob("*.pid"))
