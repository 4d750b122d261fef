"""The same motion in any frame and in any units.

Three example scenes (a cable on a cylinder, one that slides off a pulley, a stack of rigid boxes) are turned by arbitrary angles, set
down a kilometre away, and posed in millimetres and in kilometres with masses and stiffness to match; after 100 steps, turned back, every
node is where it is in the scene as it stands, to 1e-6 of how far the scene has moved or, where it stands still, of its size. So
are, turned and far away, a rope that falls across a round obstacle and boxes that tumble without friction. Boxes that tumble with
friction tell least differences apart: turned they differ as much as shaken in place by 1e-14, and no more."""

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
        assert "shape" not in body or length == 1.0
        if "mesh" in body or "shape" in body:
            body["position"] = (length * R @ body.get("position", [0, 0, 0]) + offset).tolist()
            body["rotation"] = product(quaternion(R), np.array(body.get("rotation", [1, 0, 0, 0]), float)).tolist()
            if "mesh" in body:
                body["scale"] = length * body.get("scale", 1)
        for key, factor in (("radius", length), ("mass", mass), ("density", mass / length**3), ("stiffness", mass)):
            if key in body:
                body[key] = (factor * np.array(body[key])).tolist()
        for key in {"velocity", "angular_velocity"} & set(body):
            body[key] = ((length if key == "velocity" else 1) * R @ body[key]).tolist()
        assert "axial_stiffness" not in body, "such a scene needs more factors"
    return scene


def tumbling(friction):
    """Four boxes that fall on each other and on a slab."""
    rng = np.random.default_rng(2)
    bodies = [{"kind": "static", "mesh": {"generate": {"kind": "box", "width": 4, "height": 0.2, "depth": 4}}, "radius": 0.005,
               "position": [0, -0.1, 0]}]
    for i in range(4):
        q = rng.normal(size=4)
        bodies.append({"kind": "rigid", "mesh": {"generate": {"kind": "box", "width": 0.3, "height": 0.2, "depth": 0.25}},
                       "radius": 0.005, "density": 500, "position": [0.05 * rng.normal(), 0.4 + 0.45 * i, 0.05 * rng.normal()],
                       "rotation": (q / np.linalg.norm(q)).tolist(), "velocity": [0, -1, 0],
                       "angular_velocity": (3 * rng.normal(size=3)).tolist()})
    return {"dt": 0.01, "gravity": [0, -9.81, 0], "contacts": {"friction": friction}, "bodies": bodies, "record": {"enabled": False}}


ROPE = {"dt": 0.005, "gravity": [0, -9.81, 0], "contacts": {"friction": 0.2}, "record": {"enabled": False}, "bodies": [
    {"kind": "obstacle", "shape": {"kind": "cylinder", "radius": 0.2, "length": 1.0}},
    {"kind": "cable", "nodes": [[-0.6 + 0.03 * i, 0.25, 0.0005 * i] for i in range(41)], "mass": 0.02, "stiffness": 4000,
     "radius": 0.01}]}
FRAMES = {"turned": {"R": turn([1, 2, 3], 1.1)}, "turned far": {"R": turn([-1, 0.2, 0.3], 2.7)},
          "a kilometre away": {"offset": [1000, 0, 0]},
          "turned and a kilometre away": {"R": turn([1, -2, 0.5], 0.7), "offset": [300, -700, 600]}}
UNITS = {"in millimetres": {"length": 1e-3, "mass": 1e-9}, "in kilometres": {"length": 1e3, "mass": 1e9}}


def back(x, R=np.eye(3), offset=(0, 0, 0), length=1.0, mass=1.0):
    return (x - np.array(offset)) @ R / length


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

    def run_scene(self, scene, stops=(0, STEPS)):
        """Positions of what moves after so many steps: at the start and at the end."""
        world = self.client.create_world(qpcollide.resolve_scene(scene, self.client))
        ends, done = [], 0
        for stop in stops:
            if stop > done:
                world.step(stop - done)
            ends.append(np.array(world.state("positions", precision="float64")["positions"]))
            done = stop
        world.destroy()
        return ends

    def compare(self, name, scene=None, poses=FRAMES | UNITS):
        scene = scene or self.load(name)
        start, end = self.run_scene(posed(scene))
        size = np.abs(end - start).max()
        size = size if size > 1e-3 else np.ptp(end, axis=0).max()
        for label, pose in poses.items():
            with self.subTest(scene=name, pose=label):
                x = self.run_scene(posed(scene, **pose))[1]
                self.assertLess(np.abs(back(x, **pose) - end).max(), TOLERANCE * size)
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

    def test_a_rope_that_falls_across_a_round_obstacle(self):
        self.compare("rope", ROPE, FRAMES)

    def test_boxes_that_tumble_without_friction(self):
        self.compare("boxes", tumbling(0), FRAMES)

    def test_boxes_that_tumble_with_friction_differ_no_more_turned_than_shaken(self):
        scene, stops, rng = tumbling(0.4), (10, 60), np.random.default_rng(1)
        plain = self.run_scene(posed(scene), stops)
        turned, shaken = [], []
        for _ in range(3):
            R, other = turn(rng.normal(size=3), rng.uniform(0.3, 2.8)), copy.deepcopy(scene)
            for body in other["bodies"][1:]:
                body["position"] = (body["position"] + 1e-14 * rng.normal(size=3)).tolist()
            turned.append([np.abs(back(x, R) - y).max() for x, y in zip(self.run_scene(posed(scene, R), stops), plain)])
            shaken.append([np.abs(x - y).max() for x, y in zip(self.run_scene(posed(other), stops), plain)])
        self.assertLess(np.max(turned, axis=0)[0], 1e-13)  # nothing has touched yet
        self.assertLess(np.median(turned, axis=0)[1], 100 * np.median(shaken, axis=0)[1])


if __name__ == "__main__":
    unittest.main()
