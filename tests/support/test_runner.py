"""The runner counts what happened, also when programs end badly."""

import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import run_tests


def tally(output, ok=True, ending="exit status 1"):
    counts = run_tests.Tally()
    counts.add_program("x", textwrap.dedent(output), ok, ending)
    return counts


class Counting(unittest.TestCase):
    def test_functions_are_counted(self):
        self.assertEqual(tally("1..2\nok 1 - a\nok 2 - b\n# ok - group\n").line(),
                         "2 passed, 0 failed")

    def test_failures_are_counted_and_named(self):
        counts = tally("1..2\nok 1 - a\nnot ok 2 - b\n# 1 != 2\n# not ok - group\n", ok=False)
        self.assertEqual(counts.line(), "1 passed, 1 failed")
        self.assertEqual(counts.failures, ["x: b"])

    def test_cmocka_skips_are_no_failures(self):
        counts = tally("1..2\nok 1 - a\nnot ok 2 # SKIP b\n")
        self.assertEqual(counts.line(), "1 passed, 0 failed, 1 skipped")
        self.assertEqual(counts.skipped, ["x: b"])

    def test_functions_not_reached_have_failed(self):
        counts = tally("1..5\nok 1 - a\n", ok=False)
        self.assertEqual(counts.line(), "1 passed, 4 failed")
        self.assertIn("4 functions not reached", counts.failures[0])

    def test_a_group_that_cannot_be_set_up_has_failed(self):
        counts = tally("1..3\nnot ok 0 - g [  FAILED  ] GROUP SETUP\n", ok=False)
        self.assertEqual(counts.line(), "0 passed, 3 failed")

    def test_several_groups_in_a_program_add_up(self):
        self.assertEqual(tally("1..1\nok 1 - a\n1..2\nok 1 - a\nok 2 - b\n").line(),
                         "3 passed, 0 failed")

    def test_a_bad_end_after_good_functions_is_a_failure(self):
        # As a leak found at exit is.
        counts = tally("1..1\nok 1 - a\nERROR: LeakSanitizer\n", ok=False, ending="exit status 99")
        self.assertEqual(counts.line(), "1 passed, 1 failed")
        self.assertEqual(counts.failures, ["x: exit status 99"])

    def test_a_program_without_functions_is_one_test(self):
        self.assertEqual(tally("all fine\n").line(), "1 passed, 0 failed")
        self.assertEqual(tally("all bad\n", ok=False).line(), "0 passed, 1 failed")


class Running(unittest.TestCase):
    def run_all(self, programs, jobs=2):
        ended = []
        run_tests.Runner(dict(os.environ), jobs, lambda p, e: ended.append((p.name, e))).run(programs)
        return ended

    @staticmethod
    def program(name, code, timeout=60, **more):
        return run_tests.Program(name, [sys.executable, "-c", code], timeout, **more)

    def test_the_long_ones_start_first_and_those_alone_end_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            code = f"import sys; log = open({str(log)!r}, 'a'); log.write('+%s'); log.flush(); log.write('-')"
            programs = [self.program("a", code % "a", alone=True), self.program("b", code % "b"),
                        self.program("c", code % "c", priority=9)]
            ended = self.run_all(programs, jobs=1)
            self.assertEqual(log.read_text(), "+c-+b-+a-")
        self.assertEqual([name for name, _ in ended], ["c", "b", "a"])

    def test_output_status_and_seconds_are_kept(self):
        code = "import sys, time; time.sleep(0.2); print('ok 1 - x'); sys.stderr.write('so\\n'); sys.exit(3)"
        ((_, ended),) = self.run_all([self.program("a", code, env={"PYTHONUNBUFFERED": ""})])
        self.assertEqual(ended.output, "ok 1 - x\nso\n")
        self.assertEqual((ended.status, ended.ending), (3, "exit status 3"))
        self.assertGreaterEqual(ended.seconds, 0.2)
        self.assertLess(ended.processor, ended.seconds)

    def test_what_takes_too_long_is_ended_with_all_that_it_started(self):
        code = ("import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)']);"
                "print(p.pid, flush=True); p.wait()")
        ((_, ended),) = self.run_all([self.program("a", code, timeout=3)])
        self.assertEqual((ended.status, ended.ending), (None, "no end after 3 s"))
        self.assertLess(ended.seconds, 60)
        end = time.monotonic() + 20  # whoever inherits it has to see it off
        while pathlib.Path(f"/proc/{ended.output.strip()}/cmdline").exists() and time.monotonic() < end:
            if not pathlib.Path(f"/proc/{ended.output.strip()}/cmdline").read_bytes():
                break
            time.sleep(0.05)
        self.assertLess(time.monotonic(), end)

    def test_a_broken_report_ends_what_runs(self):
        def report(program, ended):
            raise KeyError(program.name)
        programs = [self.program("long", "import time; time.sleep(99)"), self.program("short", "")]
        start = time.monotonic()
        with self.assertRaises(KeyError):
            run_tests.Runner(dict(os.environ), 2, report).run(programs)
        self.assertLess(time.monotonic() - start, 60)


class PythonFiles(unittest.TestCase):
    def run_file(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "test_sample.py"
            path.write_text(textwrap.dedent(text))
            runner = pathlib.Path(run_tests.__file__).with_name("run_python.py")
            run = subprocess.run([sys.executable, runner, path], capture_output=True, text=True)
        counts = run_tests.Tally()
        counts.add_program("x", run.stdout + run.stderr, run.returncode == 0, "exit status")
        return counts

    def test_results_of_every_kind_are_counted(self):
        counts = self.run_file("""
            import unittest
            class T(unittest.TestCase):
                def test_good(self): pass
                def test_bad(self): self.assertEqual(1, 2)
                def test_broken(self): raise KeyError("x")
                @unittest.skip("not here")
                def test_skipped(self): pass
                def test_parts(self):
                    for i in range(4):
                        with self.subTest(i=i):
                            self.assertNotEqual(i, 2)
            """)
        self.assertEqual(counts.line(), "1 passed, 3 failed, 1 skipped")
        self.assertEqual(counts.skipped, ["x: test_skipped: not here"])

    def test_a_file_that_cannot_be_read_has_failed(self):
        self.assertEqual(self.run_file("import nothing_of_that_name\n").line(),
                         "0 passed, 1 failed")

    def test_a_file_without_tests_has_failed(self):
        self.assertEqual(self.run_file("x = 1\n").line(), "0 passed, 1 failed")

    def test_a_set_up_that_fails_has_failed(self):
        counts = self.run_file("""
            import unittest
            class T(unittest.TestCase):
                @classmethod
                def setUpClass(cls): raise RuntimeError("no daemon")
                def test_a(self): pass
            """)
        self.assertEqual(counts.line(), "0 passed, 1 failed")


if __name__ == "__main__":
    unittest.main()
