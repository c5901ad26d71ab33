"""`python -m tests.chaos`: break one part after the other under load, and print what held."""

import argparse
import asyncio
import json
import sys
from typing import Any

from tests.chaos.run import run


def table(found: dict[str, Any]) -> str:
    lines = ["| invariant | checked | violations |", "|---|---|---|"]
    lines += [f"| {one['says']} | {one['checked']:,} | {one['violations']} |" for one in found["invariants"].values()]
    lines += ["", "| fault | times | memories come again after, median | slowest |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {one['times']} | {one['recovery_s']:.2f} s | {one['max_s']:.2f} s |"
        for name, one in found["faults"].items()
    ]
    lines += ["", f"{found['calls']:,} calls, {found['calls_per_second']:g} a second and ten times that in overload."]
    lines += [f"Latency from the intended time in ms: {found['latency_ms']}"]
    lines += [f"Late only because other processes had the cores: {found['late_by_noise']}"]
    lines += [f"Delivered without a mark in the ledger, so they may come again: {found['delivered_without_mark']}"]
    lines += [f"Answers: {found['outcomes']}", *found["examples"]]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--rate", type=float, default=40.0, help="calls a second")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report = asyncio.run(run(options.seconds, options.rate))
    found = report.as_json()
    sys.stdout.write((json.dumps(found, indent=2) if options.json else table(found)) + "\n")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
