#!/usr/bin/python3
"""Run dynamics cases (scene/1 of tests/data/cases/FORMAT.md) through a qpcollided of their own, and the run files that they
leave through qpc-run-check.

    tests/oracle/dynamics_cases.py [--build DIR] [--only TEXT] [FOLDER]

Without FOLDER the cases of the repository are run. Prints pass, fail or skipped with the reason for every case; exit status
1 if any failed. What a scene cannot pose yet is skipped, by the kinds of bodies, laws and events that it needs.
"""

import argparse
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--only", default="", help="cases whose id or file name has this text")
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    args = parser.parse_args()
    if args.build is not None:
        os.environ["QPC_BUILD"] = str(args.build.resolve())
    import run_cases
    counts = {"pass": 0, "fail": 0, "skip": 0}
    for path in sorted((args.folder or run_cases.CASES / "dynamics").glob("*.json")):
        if args.only not in path.name:
            continue
        name = json.loads(path.read_text()).get("id", path.stem)
        try:
            run_cases.run_dynamics(path)
        except run_cases.Skip as reason:
            word, text = "skip", f": {reason}"
        except Exception as error:  # noqa: BLE001 - every failure is counted
            word, text = "fail", f": {type(error).__name__}: {error}"
        else:
            word, text = "pass", ""
        counts[word] += 1
        print(f"{word} {name}{text}", flush=True)
    print(f"{counts['pass']} passed, {counts['fail']} failed, {counts['skip']} skipped")
    return counts["fail"] > 0 or sum(counts.values()) == 0


if __name__ == "__main__":
    sys.exit(main())
