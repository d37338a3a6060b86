"""Commands that tests run outside their own process."""

import os
import subprocess
from pathlib import Path


def run(*command: object, cwd: Path, **environment: str) -> str:
    """What `command` prints; a failure shows all of its output."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
