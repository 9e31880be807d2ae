"""Looks for known faults of the locked dependencies, and for secrets in the tree.

Faults come from an advisory database on the network. Where that can't be reached the check is left out, loudly, since a
build must not depend on it; whatever is found ends it with status 1. Arguments go to ``uv audit``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.audit.judge import Verdict, judge

ROOT = Path(__file__).resolve().parents[2]
UV = os.environ.get("UV", "uv")
"""Named by ``uv run`` itself."""

UNCHECKED = ("uv.lock",)
"""Of the tree: hashes, and nothing that anybody has written."""

LIMIT_S = 300.0


def main(arguments: Sequence[str]) -> int:
    """Both checks; the exit status."""
    return max(audit_dependencies(arguments), audit_secrets())


def audit_dependencies(arguments: Sequence[str] = ()) -> int:
    """Ask the advisory database for all that is locked; the exit status."""
    done = _run(UV, "audit", "--locked", "--preview-features", "audit-command", *arguments)
    found = judge(done.returncode, done.stdout, done.stderr)
    print(found.text, file=sys.stdout if found.verdict is Verdict.CLEAN else sys.stderr)
    return found.verdict.status


def audit_secrets() -> int:
    """Look through all files that git knows; the exit status."""
    tracked = _run("git", "ls-files", "-z").stdout.split("\0")
    files = [name for name in tracked if name and name not in UNCHECKED and (ROOT / name).is_file()]
    done = _run("detect-secrets-hook", *files)
    if done.returncode == 0 and files:
        print(f"audit: no secrets in {len(files)} files")
        return 0
    print(
        f"{done.stdout}{done.stderr}\naudit: SECRETS, or what looks like them, in the tree: take them out, and replace "
        "those that were real; what is none is marked by a comment `pragma: allowlist secret`",
        file=sys.stderr,
    )
    return 1


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which(command[0])
    if program is None:
        sys.exit(f"error: {command[0]} is not installed; run make audit")
    return subprocess.run(
        [program, *command[1:]], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
