#!/usr/bin/python3
"""Run physics oracles: scenarios with known answers, through the daemon or through the engine's parts.

    tests/oracle/run.py [--build DIR] [--only TEXT] [--brief] [DIR]

DIR holds one JSON file a scenario (tests/data/physics/README.md says how they are written; without DIR those are run).
What a scene can pose goes through a qpcollided of its own (physics_scenes.py, physics_bodies.py), what is algebra to the
engine's rows, solvers, tetrahedra and continuous tests through oracle_tool (physics_algebra.py); some scenarios have values of
both. Prints for every value its name, route, expected and got value, and its error over the tolerance, which is the file's own.
At the end what is not covered, by name and reason. Exit status 1 if any value missed.
"""

import argparse
import json
import math
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = pathlib.Path(os.environ.get("QPC_SOURCE", HERE.parents[1]))
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]


def flat(value):
    """Numbers of nested lists and arrays, in order."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [number for item in value for number in flat(item)]
    return [value]


def compare(expected, got, tolerance):
    """(largest error, tolerance passed) of the values that are not Missing, and the reasons of those."""
    from physics_algebra import Missing
    want, have = flat(expected), flat(got)
    reasons = sorted({item.reason for item in have if isinstance(item, Missing)})
    if len(want) != len(have):
        return math.inf, reasons
    pairs = [(a, b) for a, b in zip(want, have) if not isinstance(b, Missing)]
    if not pairs:
        return None, reasons
    errors = [0.0 if a is b else abs(float(a) - float(b)) for a, b in pairs]
    return max(math.inf if math.isnan(e) else e for e in errors), reasons


def show(value):
    numbers = flat(value)
    text = ", ".join(f"{v:.10g}" if isinstance(v, (int, float)) and not isinstance(v, bool) else str(v)
                     for v in numbers[:4] if isinstance(v, (int, float)))
    return text + (f", ... ({len(numbers)})" if len(numbers) > 4 else "")


def find(quantity, answers):
    return [(start, value) for start, value in answers if quantity.startswith(start)]


def scenes():
    import physics_bodies
    import physics_scenes
    return {**physics_scenes.KINDS, **physics_bodies.KINDS}


def ask_scene(kind, setup):
    from physics_scenes import Stage
    with Stage() as stage:
        return scenes()[kind](setup, stage)


class Run:
    def __init__(self, build, brief):
        self.build, self.brief = build, brief
        self.passed = self.missed = 0
        self.not_covered = []  # (name, quantity or None, reason)

    def scenario(self, path):
        from physics_algebra import KINDS as algebra
        from physics_scenes import NOT_COVERED
        file = json.loads(path.read_text())
        name, kind = path.stem, file["kind"]
        if kind not in scenes() and kind not in algebra:
            self.not_covered.append((name, None, NOT_COVERED.get(kind, f"no scenario of kind {kind} is known here")))
            return
        start = time.monotonic()
        answers = {}
        if kind in scenes():
            answers["scene"] = ask_scene(kind, file["setup"])
        if kind in algebra:
            answers["parts"] = self.ask_parts(kind, file["setup"])
        for result in file["results"]:
            route = next((r for r in answers if find(result["quantity"], answers[r])), None)
            if route is None:
                self.not_covered.append((name, result["quantity"], "the runner has no answer to it"))
            else:
                self.value(name, route, result, answers[route])
        if not self.brief:
            print(f"     {name}: {time.monotonic() - start:.1f} s", flush=True)

    def ask_parts(self, kind, setup):
        from physics_algebra import KINDS, Engine
        engine = Engine(self.build / "tests" / "support" / "oracle_tool")
        try:
            return KINDS[kind](setup, engine)
        finally:
            engine.close()

    def value(self, name, route, result, answers):
        from physics_algebra import Missing
        quantity, tolerance = result["quantity"], result["tolerance"]
        got = max(find(quantity, answers), key=lambda pair: len(pair[0]))[1]
        if isinstance(got, Missing):
            self.not_covered.append((name, quantity, got.reason))
            return
        error, reasons = compare(result["value"], got, tolerance)
        self.not_covered += [(name, quantity + " (in part)", reason) for reason in reasons]
        if error is None:
            return
        good = error <= tolerance
        self.passed += good
        self.missed += not good
        over = "exact" if error == 0 else f"{error / tolerance:.2g} of the tolerance" if tolerance > 0 else f"{error:.2g}"
        if not good or not self.brief:
            print(f"{'pass' if good else 'MISS'} {name} [{route}] {quantity}: expected {show(result['value'])}, "
                  f"got {show(got)}, {over} ({tolerance:g} {result['unit']})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path,
                        default=pathlib.Path(os.environ.get("QPC_BUILD", SOURCE / "build-test")))
    parser.add_argument("--only", default="", help="scenarios whose name has this text")
    parser.add_argument("--brief", action="store_true", help="print misses alone, and the end")
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=SOURCE / "tests" / "data" / "physics")
    args = parser.parse_args()
    os.environ["QPC_BUILD"] = str(args.build.resolve())
    paths = [path for path in sorted(args.folder.glob("*.json")) if args.only in path.stem]
    run = Run(args.build.resolve(), args.brief)
    for path in paths:
        try:
            run.scenario(path)
        except Exception as error:  # noqa: BLE001 - every failure is counted
            run.missed += 1
            print(f"MISS {path.stem}: {type(error).__name__}: {error}", flush=True)
    whole = [entry for entry in run.not_covered if entry[1] is None]
    print(f"not covered: {len(whole)} of {len(paths)} scenarios, {len(run.not_covered) - len(whole)} single values")
    grouped = {}
    for name, quantity, reason in run.not_covered:
        grouped.setdefault((name, reason), []).append(quantity)
    for (name, reason), quantities in grouped.items():
        what = "" if quantities[0] is None else f": {quantities[0]}"
        more = f" and {len(quantities) - 1} values more" if len(quantities) > 1 else ""
        print(f"     {name}{what}{more}: {reason}")
    print(f"{run.passed} passed, {run.missed} missed")
    return run.missed > 0 or run.passed == 0


if __name__ == "__main__":
    sys.exit(main())
