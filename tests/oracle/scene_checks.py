"""Checks of scene/1 case files (tests/data/cases/FORMAT.md) on the states of a world.

Only what the cases need; a check that is not here makes the case fail, not pass.
"""

import numpy

AXES = {"x": 0, "y": 1, "z": 2}
KINDS = {"cable", "cloth", "rigid", "soft", "static", "kinematic"}  # of bodies that scene_of (run_cases.py) can pose
LAWS = {"friction", "restitution"}


def reason_to_skip(case):
    """Why this version cannot run the scene, or None."""
    kinds = {body["kind"] for body in case["bodies"]} - KINDS
    if kinds:
        return "needs bodies of kind " + ", ".join(sorted(kinds))
    needs = set(case.get("needs", [])) - LAWS
    if needs:
        return "needs " + ", ".join(sorted(needs))
    actions = {event["action"] for event in case.get("events", [])} - {"remove_body"}
    if actions:
        return "needs events " + ", ".join(sorted(actions))
    return None


def may_be_refused(case):
    """Whether the case allows that the scene is refused; what it expects of one that is not."""
    refused, wanted = False, []
    for check in case["expect"]:
        if check["check"] != "any_of":
            wanted.append(check)
            continue
        refused = refused or any(a["check"] == "refused" for a in check["alternatives"])
        other = next(a for a in check["alternatives"] if a["check"] not in ("refused", "vertex_absent"))
        wanted += other["checks"] if other["check"] == "all_of" else [other]
    return refused, wanted


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


def angular_velocity(x, v):
    """w of v = V + w x r, by least squares."""
    r, u = x - x.mean(axis=0), v - v.mean(axis=0)
    rows = numpy.array([[[0, z, -y], [-z, 0, x_], [y, -x_, 0]] for x_, y, z in r]).reshape(-1, 3)
    return numpy.linalg.lstsq(rows, u.reshape(-1), rcond=None)[0]


def contact_force(contacts, body):
    """On a body, N (3); contacts: those of a step, with the names of their bodies."""
    total = numpy.zeros(3)
    for sides, normal, force, friction in contacts:
        for name, sign in zip(sides, (1, -1)):
            if name == body and sides[0] != sides[1]:
                total += sign * (force * normal + friction)
    return total


class Checker:
    """Judges one case; fails are collected as texts. no_intersection is left to qpc-run-check."""

    def __init__(self, case, expect=None, other=None):
        """other: name of a case -> positions of its bodies by step, for same_as."""
        self.case = case
        self.expect = case["expect"] if expect is None else expect
        self.other = other
        self.rest = {body["name"]: numpy.linalg.norm(numpy.diff(numpy.array(body["vertices"]), axis=0),
                                                     axis=1)
                     for body in case["bodies"] if body["kind"] == "cable"}
        self.start = {body["name"]: numpy.array(body["vertices"], float) for body in case["bodies"]}
        self.energy = None  # of the first step
        self.seen = {}      # positions that later ones are measured against
        self.failures = []
        self.run_check_wanted = False
        self.worst = {}

    def _judge(self, check, step, ok, value):
        name = check["check"]
        self.worst.setdefault(name, value)
        if not ok and len(self.failures) < 10:
            self.failures.append(f"{name} at step {step}: {value}")

    def step(self, number, last, bodies, velocities, diagnostics, parts, contacts=None):
        """bodies: name -> positions (n, 3) after the step; parts: their rows of the velocities."""
        for check in self.expect:
            when = check.get("when", "end")
            if isinstance(when, dict) and set(when) == {"at"}:
                if number != round(when["at"] / self.case["dt"]):
                    continue
            elif isinstance(when, dict) and set(when) == {"after"}:
                if number * self.case["dt"] < when["after"]:
                    continue
            elif isinstance(when, dict) and set(when) == {"from", "to"}:
                if not when["from"] <= number * self.case["dt"] <= when["to"]:
                    continue
            elif when not in ("every_step", "end"):
                raise ValueError(f"when {when} is not known here")
            elif when == "end" and not last and check["check"] not in ("wall_clock_per_step", "alive", "energy_never_above"):
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
                if any(body["kind"] != "cable" for body in self.case["bodies"] if body["name"] in (check["a"], check["b"])):
                    # along an axis they are no nearer than this: enough to say that they are far
                    apart = float(numpy.maximum(a.min(0) - b.max(0), b.min(0) - a.max(0)).max())
                    self._judge(check, number, apart >= check["at_least"], apart)
                    continue
                i, j = numpy.meshgrid(numpy.arange(len(a) - 1), numpy.arange(len(b) - 1))
                i, j = i.ravel(), j.ravel()
                least = float(segment_distance(a[i], a[i + 1], b[j], b[j + 1]).min())
                self._judge(check, number, least >= check["at_least"], least)
            elif kind == "above_plane":
                low = float(bodies[check["body"]][:, AXES[check["axis"]]].min())
                self._judge(check, number, low >= check["value"] - check["tolerance"], low)
            elif kind == "centroid_between":
                mean = float(bodies[check["body"]][:, AXES[check["axis"]]].mean())
                self._judge(check, number, check["low"] <= mean <= check["high"], mean)
            elif kind == "max_speed":
                mine = velocities[parts[check["body"]]] if "body" in check else velocities
                fastest = float(numpy.linalg.norm(mine, axis=1).max())
                self._judge(check, number, fastest <= check["at_most"], fastest)
            elif kind == "below_plane":
                top = float(bodies[check["body"]][:, AXES[check["axis"]]].max())
                self._judge(check, number, top <= check["value"] + check["tolerance"], top)
            elif kind == "contact_force":
                sum_of = contact_force(contacts, check["body"])
                force = float(abs(sum_of[AXES[check["axis"]]]) if "axis" in check else numpy.linalg.norm(sum_of))
                ok = force == check["exactly"] if "exactly" in check else force >= check["at_least"]
                self._judge(check, number, ok, force)
            elif kind == "contact_force_ripple":
                size = float(numpy.linalg.norm(contact_force(contacts, check["body"])))
                sizes = self.seen.setdefault(kind, [])
                sizes.append(size)
                ripple = (max(sizes) - min(sizes)) / max(numpy.mean(sizes), 1e-300)
                self._judge(check, number, ripple <= check["at_most"], ripple)
            elif kind == "below_body":
                axis = AXES[check["axis"]]
                over = float(bodies[check["body"]][:, axis].max() - bodies[check["of"]][:, axis].min())
                self._judge(check, number, over <= check["tolerance"], over)
            elif kind == "extent_between":
                extent = float(numpy.ptp(bodies[check["body"]][:, AXES[check["axis"]]]))
                self._judge(check, number, check["low"] <= extent <= check["high"], extent)
            elif kind == "no_inverted_elements":
                x = bodies[check["body"]]
                tets = numpy.array(next(body["tetrahedra"] for body in self.case["bodies"] if body["name"] == check["body"]))
                least = float(numpy.linalg.det(x[tets[:, 1:]] - x[tets[:, :1]]).min() / 6)
                self._judge(check, number, least > 0, least)
            elif kind == "displacement_between":
                axis = AXES[check["axis"]]
                way = float(bodies[check["body"]][:, axis].mean() - self.start[check["body"]][:, axis].mean())
                self._judge(check, number, check["low"] <= way <= check["high"], way)
            elif kind == "moved_at_most":
                x = bodies[check["body"]]
                then = self.seen.setdefault(check["body"], x.copy())
                far = float(numpy.linalg.norm(x - then, axis=1).max())
                self._judge(check, number, far <= check["distance"], far)
            elif kind == "energy_never_above":
                energy = diagnostics["kinetic"] + diagnostics["potential"] + diagnostics["elastic"]
                self.energy = energy if self.energy is None else self.energy
                self._judge(check, number, energy <= check["factor"] * self.energy, energy / self.energy)
            elif kind == "max_angular_speed":
                spin = float(numpy.linalg.norm(angular_velocity(bodies[check["body"]], velocities[parts[check["body"]]])))
                self._judge(check, number, spin <= check["at_most"], spin)
            elif kind == "wall_clock_per_step":
                self._judge(check, number, diagnostics["ns_wall"] <= 1e9 * check["at_most_s"], diagnostics["ns_wall"])
            elif kind == "same_as":
                theirs = self.other(check["case"], number)
                far = max(float(numpy.abs(bodies[name] - theirs[name] - check["translate"]).max()) for name in theirs
                          if name in bodies)
                self._judge(check, number, far <= check["within"], far)
            elif kind == "alive":
                pass  # asked for after the last step
            elif kind == "no_intersection":
                self.run_check_wanted = True
            else:
                raise ValueError(f"check {kind} is not known here")
