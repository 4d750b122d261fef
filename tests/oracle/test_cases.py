"""The case files under unittest: one test an id. See run_cases.py."""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run_cases  # noqa: E402

PRIORITY = 100


class Cases(unittest.TestCase):
    pass


def add(name, function):
    def test(self):
        try:
            function()
        except run_cases.Skip as reason:
            self.skipTest(f"{name}: {reason}")
    test.__name__ = f"test_{name}"
    setattr(Cases, test.__name__, test)


for case, play in run_cases.cases(quick=os.environ.get("QPC_SUITE") == "quick").items():
    add(case, play)

if __name__ == "__main__":
    unittest.main()
