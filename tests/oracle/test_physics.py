"""The physics oracles of tests/data/physics under unittest: one test a scenario. See run.py."""

import contextlib
import io
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import run  # noqa: E402
from daemon import BUILD  # noqa: E402

PRIORITY = 1000

SLOW = {"cantilever_beam", "twisted_square_bar", "capstan_holding", "capstan_slipping", "bouncing_ball", "cloth_strip_trough",
        "cloth_on_cylinder_weight"}


class Physics(unittest.TestCase):
    pass


def add(path):
    def test(self):
        if path.stem in SLOW and os.environ.get("QPC_SUITE") == "quick":
            self.skipTest(f"{path.stem}: slow")
        oracles, said = run.Run(BUILD.resolve(), True), io.StringIO()
        with contextlib.redirect_stdout(said):
            oracles.scenario(path)
        for name, quantity, reason in oracles.not_covered:
            if quantity is None:
                self.skipTest(f"{name}: {reason}")
        self.assertEqual(oracles.missed, 0, said.getvalue())
        self.assertGreater(oracles.passed, 0)

    setattr(Physics, f"test_{path.stem}", test)


class Judge(unittest.TestCase):
    """What decides: bent answers must be misses."""

    def judged(self, value, got, tolerance=1e-6):
        oracles = run.Run(BUILD, True)
        result = {"quantity": "length, in all", "unit": "m", "value": value, "tolerance": tolerance}
        with contextlib.redirect_stdout(io.StringIO()):
            oracles.value("x", "parts", result, [("length", got)])
        return oracles.passed, oracles.missed, len(oracles.not_covered)

    def test_bent_answers_are_misses(self):
        from physics_algebra import Missing
        self.assertEqual(self.judged([1, [2, 3]], [1, 2, 3]), (1, 0, 0))
        self.assertEqual(self.judged(1.0, 1.0 + 2e-6), (0, 1, 0))
        self.assertEqual(self.judged(1.0, float("nan")), (0, 1, 0))
        self.assertEqual(self.judged([1, 2], [1]), (0, 1, 0))
        self.assertEqual(self.judged([1, 2], [1, Missing("no")]), (1, 0, 1))
        self.assertEqual(self.judged([1, 2], [3, Missing("no")]), (0, 1, 1))
        self.assertEqual(self.judged(1, Missing("no")), (0, 0, 1))
        self.assertEqual(self.judged(True, False, 0), (0, 1, 0))
        self.assertEqual(self.judged([[0], [0, 1]], [[0], [0, 2]], 0), (0, 1, 0))

    def test_other_numbers_in_the_same_form_have_other_answers(self):
        import json
        import tempfile
        file = json.loads((run.SOURCE / "tests" / "data" / "physics" / "free_fall_backward_euler.json").read_text())
        file["setup"].update(z0_m=7, gravity_m_s2=3.7, steps=31)
        n, dt, g = 31, file["setup"]["dt_s"], 3.7
        want = {"vz after": -n * dt * g, "z after": 7 - g * dt * dt * n * (n + 1) / 2}
        for result in file["results"]:
            result["value"] = next((v for k, v in want.items() if result["quantity"].startswith(k)), None)
        file["results"] = [r for r in file["results"] if r["value"] is not None]
        for bent in (0, 1e-3):
            with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()):
                path = pathlib.Path(name) / "fall.json"
                file["results"][0]["value"] += bent
                path.write_text(json.dumps(file))
                oracles = run.Run(BUILD.resolve(), True)
                oracles.scenario(path)
            self.assertEqual((oracles.passed, oracles.missed), (2, 0) if bent == 0 else (1, 1))


for file in sorted((run.SOURCE / "tests" / "data" / "physics").glob("*.json")):
    add(file)

if __name__ == "__main__":
    unittest.main()
