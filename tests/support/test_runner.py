"""The runner counts what happened, also when programs end badly."""

import pathlib
import subprocess
import sys
import tempfile
import textwrap
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
