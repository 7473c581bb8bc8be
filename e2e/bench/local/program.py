"""The program of a trial, as users of Podtune and of Syne Tune write it: reports one value, after so many seconds.

program.py podtune SECONDS; program.py syne-tune --seconds SECONDS --x X
"""

from __future__ import annotations

import argparse
import sys
import time


def main() -> None:
    if sys.argv[1] == "podtune":
        from podtune import trial

        time.sleep(float(sys.argv[2]))
        trial.report({"value": (trial.params({"x": 0.0})["x"] - 0.3) ** 2})
        return
    from syne_tune import Reporter

    parser = argparse.ArgumentParser()
    parser.add_argument("--x", type=float)
    parser.add_argument("--seconds", type=float)
    given, _ = parser.parse_known_args()
    time.sleep(given.seconds)
    Reporter()(value=(given.x - 0.3) ** 2, epoch=1)


if __name__ == "__main__":
    main()
