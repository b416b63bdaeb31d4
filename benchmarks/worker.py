# SPDX-License-Identifier: Apache-2.0
"""The process of one side of one row: reads a line, measures a round, writes a line of JSON, until its input ends."""

import json
import os
import sys

from rows import ROWS
from sides import Side


def main() -> None:
    """Runs as `worker.py ROW SIDE PHASE QUICK`."""
    name, side, phase, quick = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    rounds = ROWS[name].measure(Side(side, phase, bool(quick)))
    for _ in sys.stdin:
        print(json.dumps(next(rounds)), file=answers, flush=True)


if __name__ == "__main__":
    main()
