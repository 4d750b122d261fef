"""Run one Python test file (unittest) and print its results as TAP, for run_tests.py."""

import importlib.util
import pathlib
import sys
import traceback
import unittest


class TapResult(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.number = 0
        self.subtest_failed = False

    def _print(self, ok, test, note="", detail=""):
        self.number += 1
        name = str(test).split(" ")[0] + note
        print(f"{'ok' if ok else 'not ok'} {self.number} - {name}", flush=True)
        for line in detail.splitlines():
            print("# " + line, flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.subtest_failed = False

    def addSuccess(self, test):
        # Called after failed subtests too, which are counted already.
        if not self.subtest_failed:
            self._print(True, test)

    def _failed(self, test, err, note=""):
        self._print(False, test, note, "".join(traceback.format_exception(*err)))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._failed(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self._failed(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.subtest_failed = True
            self._failed(test, err, " " + subtest._subDescription())

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.number += 1
        print(f"ok {self.number} # SKIP {str(test).split(' ')[0]}: {reason}", flush=True)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self._print(True, test, " (expected failure)")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._print(False, test, " (unexpected success)")


def main():
    path = pathlib.Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    if suite.countTestCases() == 0:
        print(f"# no unittest case in {path.name}")
        return 1
    result = TapResult()
    suite.run(result)
    print(f"1..{result.number}")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
