# SPDX-License-Identifier: Apache-2.0
"""Both examples, one after the other: what ran where, how long it took, what was compiled."""

import time

import sentences
import train_gpt
from report import console, summary


def main() -> None:
    """Runs the demo."""
    start = time.perf_counter()
    sentences.main()
    train_gpt.main()
    console.rule(f"done in {time.perf_counter() - start:.0f} s")
    summary()


if __name__ == "__main__":
    main()
