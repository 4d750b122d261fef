"""The example scenes through daemon and disk: `qpc run` records it with sub-steps in float64, and
qpc-run-check asks of the run file whether anything crossed."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from daemon import BUILD, QPC, SOURCE, TIME_SCALE, Daemon  # noqa: E402

PRIORITY = 130

STEPS = 100 if os.environ.get("QPC_SUITE") == "quick" or os.environ.get("QPC_SANITIZE") else 400


class RecordedScenes(unittest.TestCase):
    def record_and_check(self, name, steps=STEPS, edit=None, **changes):
        scene = json.loads((SOURCE / "examples" / "scenes" / f"{name}.json").read_text())
        if edit:
            edit(scene)
        scene["record"] = {"frames": 1, "precision": "float64", "substeps": True}
        scene.update(changes)
        with Daemon("--workers", "1") as daemon:
            path = daemon.folder / f"{name}.json"
            path.write_text(json.dumps(scene))
            run = subprocess.run([str(QPC), "run", str(path), "--steps", str(steps), "--server",
                                  daemon.server], capture_output=True, text=True,
                                 timeout=100 * TIME_SCALE)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            (file,) = (daemon.data / "runs").glob("*.qpc")
            daemon.stop()  # the writer closes the run behind the last reply
            check = subprocess.run([str(BUILD / "tools" / "qpc-run-check"), str(file)],
                                   capture_output=True, text=True, timeout=100 * TIME_SCALE)
            self.assertEqual(check.returncode, 0, check.stdout + check.stderr)
            self.assertIn(f"  {steps + 1} frames and ", check.stdout)

    def test_pulley_1(self):
        self.record_and_check("pulley-1")

    def test_pulley_1_at_10_ms(self):
        self.record_and_check("pulley-1", dt=0.01)

    def test_pulley_1_ea(self):
        self.record_and_check("pulley-1-ea")

    def test_pulley_2(self):
        self.record_and_check("pulley-2")

    def test_pulley_funnel(self):
        self.record_and_check("pulley-funnel")

    def test_cylinder(self):
        self.record_and_check("cylinder")

    def test_drum(self):
        self.record_and_check("drum", steps=STEPS // 10)  # a thousand particles

    def test_drum_turning(self):
        self.record_and_check("drum-turning", steps=STEPS // 10, dt=0.01)

    def test_cloth_sphere_of_14_by_14(self):
        def coarser(scene):
            scene["bodies"][0]["mesh"]["generate"]["columns"] = 14
        self.record_and_check("cloth-sphere", steps=STEPS // 4, edit=coarser)

    def test_boxes(self):
        self.record_and_check("boxes")

    def test_stack_of_20(self):
        self.record_and_check("stack-20", steps=STEPS // 4)


if __name__ == "__main__":
    unittest.main()
