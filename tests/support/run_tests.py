"""Run the test programs of a build and the Python tests, and count them by function.

C tests are meson's; cmocka prints TAP, whose lines are counted. Python tests are the files
test_*.py under tests/, each run by tests/support/run_python.py in a process of its own, which
prints TAP too. A program that ends badly outside its functions, or does not reach all of them,
counts what is missing as failed. The last line printed is `N passed, N failed[, N skipped]`.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SHOWN_LINES = 120  # of a failing program's output
# Sanitized programs run several times slower.
PYTHON_TIMEOUT_S = 900
# Suite `threads`: programs in which threads meet. Every other one runs on a single thread, what it calls is in these too.
THREADS_C = r"(base|client|protocol|server|storage|world)-|engine-(detect|broad)$|(world|cloth|thin-sheets)$"
THREADS_PYTHON = r"(e2e|support)/"


class Tally:
    """Counts, and the reasons of skips."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = []
        self.failures = []

    def add_program(self, name, output, ok, ending):
        """Count one program's TAP output; a program without any counts as one test."""
        plan = passed = failed = 0
        names = []
        for line in output.splitlines():
            if match := re.match(r"1\.\.(\d+)\s*$", line):
                plan += int(match[1])
            elif match := re.match(r"(?:not )?ok\b *\d* *-? *# *SKIP *(.*)", line, re.I):
                self.skipped.append(f"{name}: {match[1].strip() or 'no reason given'}")
                plan -= 1
            elif re.match(r"ok\b", line):
                passed += 1
            elif match := re.match(r"not ok\b *\d* *-? *(.*)", line):
                failed += 1
                names.append(match[1].strip())
        if passed + failed == 0 and plan == 0 and not self._has_tap(output):
            passed, failed = (1, 0) if ok else (0, 1)
        else:
            if passed + failed < plan:
                names.append(f"{plan - passed - failed} functions not reached")
                failed = plan - passed
            if not ok and failed == 0:
                failed = 1
        self.passed += passed
        self.failed += failed
        if failed:
            what = "; ".join(names) if names else ending
            self.failures.append(f"{name}: {what}")
        return passed, failed

    @staticmethod
    def _has_tap(output):
        return re.search(r"^1\.\.\d+\s*$", output, re.M) is not None

    def line(self):
        text = f"{self.passed} passed, {self.failed} failed"
        return text + (f", {len(self.skipped)} skipped" if self.skipped else "")


def show_output(output):
    lines = [line for line in output.splitlines() if not re.match(r"ok\b", line)]
    if len(lines) > SHOWN_LINES:
        print(f"    ... {len(lines) - SHOWN_LINES} lines before")
    for line in lines[-SHOWN_LINES:]:
        print("    " + line)


def report(tally, name, output, ok, ending, seconds):
    passed, failed = tally.add_program(name, output, ok, ending)
    mark = "FAIL" if failed else "ok"
    print(f"{mark:4} {name} ({passed} passed{f', {failed} failed' if failed else ''}, "
          f"{seconds:.1f} s)", flush=True)
    if failed:
        show_output(output)


def environment(args):
    env = dict(os.environ)
    env["CMOCKA_MESSAGE_OUTPUT"] = "TAP"
    env["QPC_SOURCE"] = str(SOURCE)
    env["QPC_BUILD"] = str(args.build.resolve())
    env["QPC_SUITE"] = "all" if args.suite == "all" else "quick"
    env["QPC_SANITIZE"] = args.sanitize
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env["PYTHONPATH"] = os.pathsep.join(
        [str(SOURCE / "client" / "python"), str(SOURCE / "tests" / "support")])
    env.setdefault("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0:exitcode=99")
    env.setdefault("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")
    env.setdefault("TSAN_OPTIONS", "halt_on_error=0:exitcode=99:second_deadlock_stack=1")
    env.setdefault("OPENBLAS_NUM_THREADS", "1")
    return env


def run_c(args, tally):
    command = ["meson", "test", "-C", str(args.build), "--no-rebuild", "--num-processes",
               str(args.jobs)]
    if args.sanitize:
        command += ["--timeout-multiplier", "5"]
    if args.suite != "all":
        command += ["--no-suite", "slow"]
    if args.filter or args.suite == "threads":
        listed = subprocess.run(["meson", "test", "-C", str(args.build), "--no-rebuild", "--list"],
                                capture_output=True, text=True, check=True).stdout
        names = [line.rsplit("/", 1)[-1].strip() for line in listed.splitlines()]
        names = sorted({n.rsplit(":", 1)[-1].strip() for n in names if args.filter in n})
        if args.suite == "threads":
            names = [n for n in names if re.match(THREADS_C, n)]
        if not names:
            return
        command += names
    log = args.build / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    run = subprocess.run(command, env=environment(args), capture_output=True, text=True)
    if not log.exists():
        if "No tests defined" not in run.stdout and "No suitable tests" not in run.stdout:
            report(tally, "meson test", run.stdout + run.stderr, False, "meson test failed", 0)
        return
    for line in log.read_text().splitlines():
        test = json.loads(line)
        output = (test.get("stdout") or "") + (test.get("stderr") or "")
        name = test["name"].split(" / ")[-1]
        if test["result"] == "SKIP" and not Tally._has_tap(output):
            reason = output.strip().splitlines()
            tally.skipped.append(f"{name}: {reason[-1] if reason else 'no reason given'}")
            continue
        ok = test["result"] in ("OK", "EXPECTEDFAIL", "SKIP")
        ending = "time-out" if test["result"] == "TIMEOUT" else f"exit status {test['returncode']}"
        if not ok:
            output += f"\n{ending}\n"
        report(tally, name, output, ok, ending, test["duration"])


def run_python(args, tally):
    for path in sorted((SOURCE / "tests").glob("**/test_*.py")):
        name = str(path.relative_to(SOURCE / "tests"))
        if args.filter not in name:
            continue
        if args.suite != "all" and re.search(r"^SLOW = True$", path.read_text(), re.M):
            continue
        if args.suite == "threads" and not re.match(THREADS_PYTHON, name):
            continue
        start = time.monotonic()
        # A session of its own, so that nothing a test has started outlives it.
        process = subprocess.Popen(
            [sys.executable, str(SOURCE / "tests" / "support" / "run_python.py"), str(path)],
            env=environment(args), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", cwd=SOURCE, start_new_session=True)
        try:
            output, _ = process.communicate(timeout=PYTHON_TIMEOUT_S)
            ending = f"exit status {process.returncode}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            ending = f"no end after {PYTHON_TIMEOUT_S} s"
        ok = process.returncode == 0
        if not ok:
            output += f"\n{ending}\n"
        report(tally, name, output, ok, ending, time.monotonic() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--suite", choices=["quick", "threads", "all"], default="all")
    parser.add_argument("--sanitize", default="")
    parser.add_argument("--only", choices=["", "c", "python"], default="")
    parser.add_argument("--filter", default="")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()

    tally = Tally()
    if args.only in ("", "c"):
        run_c(args, tally)
    if args.only in ("", "python"):
        run_python(args, tally)

    for text in tally.skipped:
        print(f"skipped: {text}")
    for text in tally.failures:
        print(f"failed: {text}")
    if tally.passed + tally.failed == 0:
        print("No test was run.")
        tally.failed = 1
    print(tally.line(), flush=True)
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
