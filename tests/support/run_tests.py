"""Run the test programs of a build and the Python tests, and count them by function.

C tests are those that meson.build names; cmocka prints TAP, whose lines are counted. Python tests are
the files test_*.py under tests/, each run by tests/support/run_python.py in a process of its own,
which prints TAP too. Both kinds share the processors, one program each, the long ones first. A program
that ends badly outside its functions, or does not reach all of them, counts what is missing as failed.
The last line printed is `N passed, N failed[, N skipped]`.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SHOWN_LINES = 120  # of a failing program's output
# Sanitized programs run several times slower.
SANITIZED_TIMEOUTS = 5
PYTHON_TIMEOUT_S = 900
SKIPPED_STATUS = 77
# Suite `threads`: programs in which threads meet; of long ones only those functions (meson's suite `threads`, which no
# other run has).
THREADS_C = r"(base|protocol|server|storage)-|client-client$|engine-(detect|mesh|sheet_invariance)$|world$|.*-threads$"
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
        if passed + failed == 0 and plan == 0 and not self.has_tap(output):
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
    def has_tap(output):
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


class Program:
    """A test program: what to run and when."""

    def __init__(self, name, command, timeout, *, priority=0, alone=False, env=None, needs=()):
        self.name = name
        self.command = command
        self.timeout = timeout
        self.priority = priority  # the higher, the sooner: about its seconds in a sanitized build
        self.alone = alone  # takes times that others would disturb
        self.env = env or {}
        self.needs = needs  # targets of meson's, by their ids; of Python files the one that has all they run


class Runner:
    """Runs programs, `jobs` at a time, and hands each that ended to report(program, ended), one at a time."""

    def __init__(self, env, jobs, report):
        self.env = env
        self.jobs = jobs
        self.report = report
        self.running = set()
        self.stopped = False

    def run(self, programs):
        """The long ones first, so that no processor idles at the end; those that want to be alone last."""
        together = sorted((p for p in programs if not p.alone), key=lambda p: -p.priority)
        try:
            with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
                started = {pool.submit(self._one, p): p for p in together}
                try:
                    for future in concurrent.futures.as_completed(started):
                        self.report(started[future], future.result())
                except BaseException:
                    self._stop()
                    raise
            for p in programs:
                if p.alone:
                    self.report(p, self._one(p))
        except BaseException:
            self._stop()
            raise

    def _stop(self):
        self.stopped = True
        for group in list(self.running):
            kill_group(group)

    def _one(self, program):
        return None if self.stopped else Ended(program, {**self.env, **program.env}, self.running)


class Ended:
    """How a program ended: output, status (None after a time-out), seconds passed and seconds of processors."""

    def __init__(self, program, env, running):
        start = time.monotonic()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            # A session of its own, so that nothing a test has started outlives it.
            process = subprocess.Popen(program.command, env=env, cwd=SOURCE, stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=err, start_new_session=True)
            running.add(process.pid)
            late = threading.Event()
            alarm = threading.Timer(program.timeout, lambda: (late.set(), kill_group(process.pid)))
            alarm.start()
            _, status, used = os.wait4(process.pid, 0)
            alarm.cancel()
            running.discard(process.pid)
            kill_group(process.pid)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.output = "".join(self._text(stream) for stream in (out, err))
        self.status = None if late.is_set() else process.returncode
        self.ending = f"no end after {program.timeout} s" if late.is_set() else f"exit status {self.status}"
        self.seconds = time.monotonic() - start
        self.processor = used.ru_utime + used.ru_stime

    @staticmethod
    def _text(stream):
        stream.seek(0)
        return stream.read().decode(errors="replace")


def kill_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def c_programs(args):
    """The test programs of a build, as meson lists them."""
    slower = SANITIZED_TIMEOUTS if args.sanitize else 1
    for test in json.loads((args.build / "meson-info" / "intro-tests.json").read_text()):
        suites = [suite.rsplit(":", 1)[-1] for suite in test["suite"]]
        if args.suite != "all" and "slow" in suites:
            continue
        if args.suite != "threads" and "threads" in suites:
            continue
        if args.suite == "threads" and not re.match(THREADS_C, test["name"]):
            continue
        # What is read without having been written, or after it was freed, shall differ from run to run.
        env = {"MALLOC_PERTURB_": str(random.randint(1, 255)), **test["env"]}
        yield Program(test["name"], test["cmd"], test["timeout"] * slower, priority=test["priority"],
                      alone=not test["is_parallel"], env=env, needs=test["depends"])


def python_programs(args):
    """Files test_*.py; lines `SLOW = True`, `ALONE = True` and `PRIORITY = number` say what meson.build says of C tests."""
    for path in sorted((SOURCE / "tests").glob("**/test_*.py")):
        name = str(path.relative_to(SOURCE / "tests"))
        said = dict(re.findall(r"^(SLOW|ALONE|PRIORITY) = (\w+)\b", path.read_text(), re.M))
        if args.suite != "all" and said.get("SLOW") == "True":
            continue
        if args.suite == "threads" and not re.match(THREADS_PYTHON, name):
            continue
        command = [sys.executable, str(SOURCE / "tests" / "support" / "run_python.py"), str(path)]
        yield Program(name, command, PYTHON_TIMEOUT_S, priority=int(said.get("PRIORITY", 0)),
                      alone=said.get("ALONE") == "True", needs=["python-tests"])


def targets(build, programs):
    """What ninja has to build for them."""
    listed = json.loads((build / "meson-info" / "intro-targets.json").read_text())
    files = {target["id"]: target["filename"] for target in listed}
    needed = {os.path.relpath(file, build.resolve()) for p in programs for need in p.needs for file in files.get(need, [])}
    return sorted(needed) + (["python-tests"] if any("python-tests" in p.needs for p in programs) else [])


def report(tally, program, ended):
    if ended.status == SKIPPED_STATUS and not Tally.has_tap(ended.output):
        reason = ended.output.strip().splitlines()
        tally.skipped.append(f"{program.name}: {reason[-1] if reason else 'no reason given'}")
        return
    ok = ended.status == 0
    passed, failed = tally.add_program(program.name, ended.output, ok, ended.ending)
    print(f"{'FAIL' if failed else 'ok':4} {program.name} ({passed} passed{f', {failed} failed' if failed else ''}, "
          f"{ended.seconds:.1f} s, {ended.processor:.1f} s of a processor)", flush=True)
    if failed:
        show_output(ended.output + ("" if ok else f"\n{ended.ending}\n"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--suite", choices=["quick", "threads", "all"], default="all")
    parser.add_argument("--sanitize", default="")
    parser.add_argument("--only", choices=["", "c", "python"], default="")
    parser.add_argument("--filter", default="")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--targets", action="store_true", help="print what has to be built, and run nothing")
    args = parser.parse_args()

    programs = []
    if args.only in ("", "c"):
        programs += c_programs(args)
    if args.only in ("", "python"):
        programs += python_programs(args)
    programs = [p for p in programs if args.filter in p.name]
    if args.targets:
        print("\n".join(targets(args.build, programs)))
        return 0
    tally = Tally()
    Runner(environment(args), args.jobs, lambda p, ended: report(tally, p, ended)).run(programs)

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
