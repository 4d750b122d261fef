"""The same motion in any frame and in any units.

Three example scenes (a cable on a cylinder, one that slides off a pulley, a stack of rigid boxes) are turned by arbitrary angles, set
down a kilometre away, and posed in millimetres and in kilometres with masses and stiffness to match; after 100 steps, turned back, every
node is where it is in the scene as it stands, to 1e-6 of how far the scene has moved or, where it stands still, of its size."""

import copy
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))

import numpy as np  # noqa: E402

import qpcollide  # noqa: E402

from daemon import SOURCE, TIME_SCALE, Daemon  # noqa: E402

PRIORITY = 60

STEPS, TOLERANCE = 100, 1e-6


def turn(axis, angle):
    """Rotation matrix (Rodrigues)."""
    x, y, z = np.array(axis) / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def quaternion(R):
    w = np.sqrt(1 + np.trace(R)) / 2
    return np.array([w, *(np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / (4 * w))])


def product(a, b):
    return np.array([a[0] * b[0] - a[1:] @ b[1:], *(a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:]))])


def posed(scene, R=np.eye(3), offset=(0, 0, 0), length=1.0, mass=1.0):
    """The scene turned by R, lengths and masses multiplied (times are as they were), and put down at the offset."""
    scene, offset = copy.deepcopy(scene), np.array(offset, float)
    scene["solver"] = {**scene.get("solver", {}), "recovery_speed": 0.2 * length}  # the one length among the parameters
    scene["gravity"] = (length * R @ scene.get("gravity", [0, -9.81, 0])).tolist()
    for body in scene["bodies"]:
        if "nodes" in body:
            body["nodes"] = (length * np.array(body["nodes"]) @ R.T + offset).tolist()
        if "mesh" in body:
            body["position"] = (length * R @ body.get("position", [0, 0, 0]) + offset).tolist()
            body["rotation"] = product(quaternion(R), np.array(body.get("rotation", [1, 0, 0, 0]), float)).tolist()
            body["scale"] = length * body.get("scale", 1)
        for key, factor in (("radius", length), ("mass", mass), ("density", mass / length**3), ("stiffness", mass)):
            if key in body:
                body[key] = (factor * np.array(body[key])).tolist()
        assert not {"velocity", "angular_velocity", "axial_stiffness"} & set(body), "such a scene needs more factors"
    return scene


class Invariance(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--workers", "1").__enter__()
        cls.client = qpcollide.connect(cls.daemon.server, timeout=200 * TIME_SCALE)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.daemon.__exit__(None, None, None)

    def load(self, name):
        scene = qpcollide.load_scene(SOURCE / "examples" / "scenes" / f"{name}.json", self.client)
        return {**scene, "record": {"enabled": False}}

    def run_scene(self, scene):
        """Positions of what moves, at the start and after the steps."""
        world = self.client.create_world(scene)
        ends = []
        for _ in range(2):
            ends.append(np.array(world.state("positions", precision="float64")["positions"]))
            world.step(STEPS)
        world.destroy()
        return ends[0], ends[1]

    def compare(self, name):
        scene = self.load(name)
        start, end = self.run_scene(posed(scene))
        size = np.abs(end - start).max()
        size = size if size > 1e-3 else np.ptp(end, axis=0).max()
        poses = {"turned": {"R": turn([1, 2, 3], 1.1)}, "turned far": {"R": turn([-1, 0.2, 0.3], 2.7)},
                 "a kilometre away": {"offset": [1000, 0, 0]},
                 "turned and a kilometre away": {"R": turn([1, -2, 0.5], 0.7), "offset": [300, -700, 600]},
                 "in millimetres": {"length": 1e-3, "mass": 1e-9}, "in kilometres": {"length": 1e3, "mass": 1e9}}
        for label, pose in poses.items():
            with self.subTest(scene=name, pose=label):
                x = self.run_scene(posed(scene, **pose))[1]
                back = (x - np.array(pose.get("offset", [0, 0, 0]))) @ pose.get("R", np.eye(3)) / pose.get("length", 1)
                self.assertLess(np.abs(back - end).max(), TOLERANCE * size)
        # A thousandth more of gravity, which would be a miss, is seen where something moves.
        if np.abs(end - start).max() > 1e-3:
            heavier = {**scene, "gravity": [1.001 * g for g in scene.get("gravity", [0, -9.81, 0])]}
            self.assertGreater(np.abs(self.run_scene(posed(heavier))[1] - end).max(), TOLERANCE * size)

    def test_a_cable_on_a_cylinder(self):
        self.compare("cylinder")

    def test_a_cable_that_slides_off_a_pulley(self):
        self.compare("pulley-2")

    def test_a_stack_of_boxes(self):
        self.compare("stack-5")


if __name__ == "__main__":
    unittest.main()
