"""The physics oracles of tests/data/physics under unittest: one test a scenario. See run.py."""

import contextlib
import io
import json
import math
import os
import pathlib
import sys
import tempfile
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

    def judge(self, name, setup, want):
        """(passed, missed) of a file in the form of that one with other numbers. want: by beginning of a quantity; tolerances stay in proportion."""
        def size(value):
            return max(map(abs, run.flat(value)))

        file = json.loads((run.SOURCE / "tests" / "data" / "physics" / f"{name}.json").read_text())
        file["setup"].update(setup)
        results = []
        for result in file["results"]:
            for beginning, value in want.items():
                if result["quantity"].startswith(beginning):
                    results.append({**result, "value": value, "tolerance": result["tolerance"] * size(value) / (size(result["value"]) or 1)})
        self.assertEqual(len(results), len(want))
        file["results"] = results
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
            path = pathlib.Path(folder) / f"{name}.json"
            path.write_text(json.dumps(file))
            oracles = run.Run(BUILD.resolve(), True)
            oracles.scenario(path)
        return oracles.passed, oracles.missed, said.getvalue()

    def right(self, name, setup, want):
        passed, missed, said = self.judge(name, setup, want)
        self.assertEqual((passed, missed), (len(want), 0), said)

    def test_other_numbers_in_the_same_form_have_other_answers(self):
        n, dt, g = 31, 0.01, 3.7
        fall = {"z0_m": 7, "gravity_m_s2": g, "steps": n, "dt_s": dt}
        want = {"vz after": -n * dt * g, "z after": 7 - g * dt * dt * n * (n + 1) / 2}
        self.right("free_fall_backward_euler", fall, want)
        want["z after"] += 1e-3
        self.assertEqual(self.judge("free_fall_backward_euler", fall, want)[:2], (1, 1))

    def test_a_strip_far_softer_or_wider_comes_to_rest(self):
        for L, EA, p in ((1.0, 50.0, 100.0), (2.5, 3000.0, 80.0)):
            low, high = 1e-6, 3.0  # half the angle of the arc: p L / (2 sin q) = EA (q / sin q - 1)
            for _ in range(100):
                q = (low + high) / 2
                low, high = (q, high) if p * L / 2 > EA * (q - math.sin(q)) else (low, q)
            T = p * L / 2 / math.sin(q)
            self.right("pressurised_strip", {"span_m": L, "EA_N": EA, "pressure_N_m": p},
                       {"tension": T, "rise of the middle": T / p * (1 - math.cos(q)),
                        "force on each end": [abs(T * math.cos(q)), T * math.sin(q)]})

    def test_a_rod_let_go_from_above_the_horizontal_swings_slower(self):
        m, L, a, g = 2.5, 0.3, math.radians(110), 9.81
        x, y = 1.0, math.cos(a / 2)  # K = pi / 2 over the arithmetic-geometric mean
        for _ in range(10):
            x, y = (x + y) / 2, math.sqrt(x * y)
        side, up = -0.75 * g * math.sin(a) * math.cos(a), -0.75 * g * math.sin(a) ** 2
        self.right("physical_pendulum_rod", {"mass_kg": m, "length_m": L, "angle0_deg": 110, "gravity_m_s2": g},
                   {"period": 2 * math.pi * math.sqrt(2 * L / 3 / g) / x, "hinge force at the bottom": m * g * (1 + 1.5 * (1 - math.cos(a))),
                    "hinge force at release": [m * side, m * (g + up)]})

    def test_a_slender_bar_of_other_stiffness_has_its_stress(self):
        L, b, E, nu, F = 3.0, 0.1, 1e7, 0.45, 300.0
        e = F / E / b / b
        self.right("bar_stretch_tets", {"length_m": L, "side_m": b, "young_Pa": E, "poisson": nu, "pull_N": F},
                   {"displacement of the corner": [e * L, -nu * e * b / 2, -nu * e * b / 2], "strain energy": F * e * L / 2, "stress along x": F / b / b})

    def test_a_fast_ball_on_a_smoother_table_rolls_later(self):
        v, mu, g = 3.0, 0.1, 5.0
        self.right("billiard_slip_to_roll", {"radius_m": 0.02, "mass_kg": 2.0, "v0_m_s": v, "mu": mu, "gravity_m_s2": g},
                   {"time at which": 2 * v / (7 * mu * g), "speed when": 5 * v / 7, "distance until": 12 * v * v / (49 * mu * g), "energy lost": 2 / 7})

    def test_a_plank_bounces_off_supports_on_both_sides_without_turning(self):
        m, v, e, x = 4.0, 1.5, 0.4, (-0.3, 0.5)
        push = m * v * (1 + e) / (x[1] - x[0])
        self.right("plank_two_supports", {"mass_kg": m, "v_down_m_s": v, "restitution": e, "supports_x_m": x},
                   {"impulses": [push * x[1], -push * x[0]], "centre velocity": e * v, "velocity of the two": [e * v, e * v]})

    def test_a_hoist_slips_by_its_angle(self):
        if os.environ.get("QPC_SUITE") == "quick":
            self.skipTest("slow")
        for mu, angle, m1, m2, g, T in ((0.15, 4.0, 3.0, 1.2, 9.81, 0.6), (0.5, 2.0, 9.0, 2.0, 5.0, 0.4)):
            e = math.exp(mu * angle)
            a = (m1 - m2 * e) * g / (m1 + m2 * e)
            self.right("capstan_slipping", {"mu": mu, "wrap_angle_rad": angle, "m1_kg": m1, "m2_kg": m2, "gravity_m_s2": g, "end_time_s": T},
                       {"tension ratio": e, "acceleration of m1": a, "drop of m1": a * T * T / 2, "greatest m1": m2 * e})


for file in sorted((run.SOURCE / "tests" / "data" / "physics").glob("*.json")):
    add(file)

if __name__ == "__main__":
    unittest.main()
