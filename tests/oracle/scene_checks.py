"""Checks of scene/1 case files (tests/data/cases/FORMAT.md) on the states of a world.

Only what cables and meshes need; a check that is not here makes the case fail, not pass.
"""

import numpy

AXES = {"x": 0, "y": 1, "z": 2}
NEEDS = {"cable", "static", "kinematic"}


def reason_to_skip(case):
    """Why this version cannot run the scene, or None."""
    kinds = {body["kind"] for body in case["bodies"]} - NEEDS
    if kinds:
        return "needs bodies of kind " + ", ".join(sorted(kinds))
    if case.get("needs"):
        return "needs " + ", ".join(case["needs"])
    if case.get("events"):
        return "needs events"
    return None


def segment_distance(p, q, r, s):
    """Distances of segments p-q and r-s, arrays (n, 3)."""
    def dot(a, b):
        return numpy.einsum("ij,ij->i", a, b)

    def to_segment(point, a, b):
        d = b - a
        dd = dot(d, d)
        t = numpy.where(dd > 0, dot(point - a, d) / numpy.where(dd > 0, dd, 1), 0)
        return numpy.linalg.norm(point - a - numpy.clip(t, 0, 1)[:, None] * d, axis=1)

    best = numpy.minimum.reduce([to_segment(p, r, s), to_segment(q, r, s), to_segment(r, p, q),
                                 to_segment(s, p, q)])
    u, v, w = q - p, s - r, r - p
    uu, vv, uv = dot(u, u), dot(v, v), dot(u, v)
    det = uu * vv - uv * uv
    safe = numpy.where(det > 0, det, 1)
    a = (dot(w, u) * vv - dot(w, v) * uv) / safe
    b = (dot(w, u) * uv - dot(w, v) * uu) / safe
    inside = (det > 0) & (a >= 0) & (a <= 1) & (b >= 0) & (b <= 1)
    across = numpy.linalg.norm(w + b[:, None] * v - a[:, None] * u, axis=1)
    return numpy.where(inside, numpy.minimum(best, across), best)


class Checker:
    """Judges one case; fails are collected as texts. no_intersection is left to qpc-run-check."""

    def __init__(self, case):
        self.case = case
        self.rest = {body["name"]: numpy.linalg.norm(numpy.diff(numpy.array(body["vertices"]), axis=0),
                                                     axis=1)
                     for body in case["bodies"] if body["kind"] == "cable"}
        self.failures = []
        self.run_check_wanted = False
        self.worst = {}

    def _judge(self, check, step, ok, value):
        name = check["check"]
        self.worst.setdefault(name, value)
        if not ok and len(self.failures) < 10:
            self.failures.append(f"{name} at step {step}: {value}")

    def step(self, number, last, bodies, velocities, diagnostics):
        """bodies: name -> positions (n, 3) after the step."""
        for check in self.case["expect"]:
            when = check.get("when", "end")
            if when not in ("every_step", "end"):
                raise ValueError(f"when {when} is not known here")
            if when == "end" and not last:
                continue
            kind = check["check"]
            if kind == "finite":
                numbers = [value for value in diagnostics.values() if isinstance(value, float)]
                ok = all(numpy.isfinite(x).all() for x in bodies.values())
                ok = ok and numpy.isfinite(velocities).all() and numpy.isfinite(numbers).all()
                ok = ok and None not in diagnostics.values()
                self._judge(check, number, ok, "a number is not finite")
            elif kind == "edge_stretch":
                x = bodies[check["body"]]
                length = numpy.linalg.norm(numpy.diff(x, axis=0), axis=1)
                worst = float((length / self.rest[check["body"]]).max())
                self._judge(check, number, worst <= check["at_most"], worst)
            elif kind == "vertex_near":
                far = float(numpy.linalg.norm(bodies[check["body"]][check["vertex"]] - check["point"]))
                self._judge(check, number, far <= check["within"], far)
            elif kind == "some_vertex_above":
                top = float(bodies[check["body"]][:, AXES[check["axis"]]].max())
                self._judge(check, number, top >= check["value"], top)
            elif kind == "vertex_height_difference":
                i, j = check["vertices"]
                axis = AXES[check["axis"]]
                x = bodies[check["body"]]
                apart = abs(float(x[i, axis] - x[j, axis]))
                self._judge(check, number, apart <= check["at_most"], apart)
            elif kind == "min_distance":
                a, b = bodies[check["a"]], bodies[check["b"]]
                i, j = numpy.meshgrid(numpy.arange(len(a) - 1), numpy.arange(len(b) - 1))
                i, j = i.ravel(), j.ravel()
                least = float(segment_distance(a[i], a[i + 1], b[j], b[j + 1]).min())
                self._judge(check, number, least >= check["at_least"], least)
            elif kind == "no_intersection":
                self.run_check_wanted = True
            else:
                raise ValueError(f"check {kind} is not known here")
