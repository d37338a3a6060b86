"""What every result says of itself: the command, the date, the machine and the versions."""

import datetime
import json
import sys

from perm_gpu.evaluate.specs import specs


def write(path, module, results):
    """Writes `results` (a dict) of `python -m module` to a JSON file."""
    record = {
        "command": " ".join(["python -m", module, *sys.argv[1:]]),
        "date": datetime.date.today().isoformat(),
        "specs": specs(),
        **results,
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
