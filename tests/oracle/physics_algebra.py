"""Physics oracles that are algebra: posed to parts of the engine through oracle_tool (tests/support).

Every function takes the setup of a scenario and an Engine and gives a list of (beginning of a quantity, value);
a value may be Missing(reason). What is computed here is what poses the problem or reads its answer, never the answer.
"""

import json
import math
import subprocess

import numpy as np


class Missing:
    """A value that the engine has no counterpart of."""

    def __init__(self, reason):
        self.reason = reason


class Engine:
    """oracle_tool, one question a line."""

    def __init__(self, program):
        self.process = subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def ask(self, op, **problem):
        try:
            self.process.stdin.write(json.dumps({"op": op, **problem}, default=lambda a: np.asarray(a).tolist()) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(self.process.stderr.read().strip() or "oracle_tool ended")
        return {key: np.array(v) if isinstance(v, list) else v for key, v in json.loads(line).items()}

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def contact(node, weight, n, separation, **more):
    """Four nodes and signed weights; unused places repeat the last node with weight 0."""
    node, weight = list(node), list(weight)
    while len(node) < 4:
        node.append(node[-1])
        weight.append(0)
    return {"kind": "contact", "node": node, "weight": weight, "n": list(n), "separation": separation, **more}


UP = (0, 0, 1)


# ---- one step over rows ----

def vertex_triangle(s, engine):
    x = np.array(s["triangle_m"] + [s["vertex_m"]], float)
    v, m, dt = np.array(s["velocities_m_s"], float), np.array(s["masses_kg"], float), s["dt_s"]
    n, w = np.array(s["normal"]), s["barycentric"]
    row = contact([3, 0, 1, 2], [1] + [-a for a in w], n, s["thickness_sum_m"])
    got = engine.ask("rows", mass=m, x=x, v=v, dt=dt, force=np.outer(m, s["gravity_m_s2"]), rows=[row])
    dv = got["dv"].reshape(-1, 3)
    after = v + dv
    end = x + dt * after
    return [("row c", got["c"]), ("velocity changes", dv), ("multiplier", -got["lambda"]),
            ("gap along the old normal", n @ (end[3] - np.array(w) @ end[:3])),
            ("total momentum", m @ after), ("angular momentum", sum(np.cross(p, a * u) for p, a, u in zip(x, m, after)))]


def edge_edge(s, engine):
    x = np.array(s["edge_i_m"] + s["edge_j_m"], float)
    v, m, dt = np.array(s["velocities_m_s"], float), np.array(s["masses_kg"], float), s["dt_s"]
    n, a, b = np.array(s["normal"]), s["a"], s["b"]
    weight = np.array([1 - a, a, b - 1, -b])
    got = engine.ask("rows", mass=m, x=x, v=v, dt=dt, force=np.outer(m, s["gravity_m_s2"]),
                     rows=[contact([0, 1, 2, 3], weight, n, s["thickness_sum_m"])])
    dv = got["dv"].reshape(-1, 3)
    end = x + dt * (v + dv)
    return [("row c", got["c"]), ("velocity changes", dv), ("multiplier", -got["lambda"]),
            ("gap along the old normal", n @ (weight @ end)), ("total momentum", m @ (v + dv))]


def internal_momentum(s, engine):
    x, v, m = (np.array(s[k], float) for k in ("positions_m", "velocities_m_s", "masses_kg"))
    rows = []
    for i, j, limit in s["rows_i_j_limit"]:
        d = x[int(i)] - x[int(j)]
        length = np.linalg.norm(d)
        rows.append(contact([int(i), int(j)], [1, -1], d / length, length - limit * length * s["dt_s"]))
    got = engine.ask("rows", mass=m, x=x, v=v, dt=s["dt_s"], rows=rows)
    dv = got["dv"].reshape(-1, 3)
    return [("active rows", [i for i, a in enumerate(got["lambda"]) if a > 1e-9]), ("multipliers", -got["lambda"]),
            ("velocity changes", dv), ("total momentum after", m @ (v + dv)),
            ("angular momentum", sum(np.cross(p, a * u) for p, a, u in zip(x, m, v + dv)))]


def dependent_rows(s, engine):
    a, m, dt = s["a2"], s["masses_kg"], s["dt_s"]
    x = [[0, 0, g] for g in s["gaps_m"]] + [[0, 0, 0]]
    v = [[0, 0, u] for u in s["vz_m_s"]] + [[0, 0, 0]]
    r = s["thickness_sum_m"]
    rows = [contact([0, 2], [1, -1], UP, r), contact([1, 2], [1, -1], UP, r),
            contact([0, 1, 2], [1 - a, a, -1], UP, r)]
    force = [[0, 0, -s["gravity_m_s2"] * k] for k in m] + [[0, 0, 0]]
    problem = {"mass": m + [0], "x": x, "v": v, "dt": dt, "force": force, "rows": rows}
    got = engine.ask("rows", **problem)
    dv, lam = got["dv"].reshape(-1, 3)[:2, 2], got["lambda"]
    ends = engine.ask("rows", **{**problem, "rows": rows[:2]})
    soft = engine.ask("rows", **problem, solver="augmented-cg", perturbation=s["regularisation_L"])
    dv_soft = soft["dv"].reshape(-1, 3)[:2, 2]
    after = np.array(s["gaps_m"]) + dt * (np.array(s["vz_m_s"]) + dv_soft)
    return [("velocity changes", dv), ("total constraint impulse", [lam[0] + (1 - a) * lam[2], lam[1] + a * lam[2]]),
            ("one choice of multipliers: ends only", np.append(-ends["lambda"], 0)),
            ("with the perturbation L", dv_soft), ("with the perturbation: multipliers", -soft["lambda"]),
            ("with the perturbation: gaps", after)]


def two_pass(s, engine):
    m, v, gap, dt = s["masses_kg"], np.array(s["velocities_m_s"], float), np.array(s["gaps_m"], float), s["dt_s"]
    at = np.concatenate([[0], np.cumsum(gap)])
    x = np.outer(at, [1, 0, 0])
    found, passes, velocities = [], [], []
    after = v
    for _ in range(len(m)):
        new = [i for i in range(len(gap)) if i not in found and gap[i] + dt * (after[i + 1] - after[i]) < -1e-15]
        if not new:
            break
        found = sorted(found + new)
        passes.append(list(found))
        rows = [contact([i + 1, i], [1, -1], [1, 0, 0], 0) for i in found]
        got = engine.ask("rows", mass=m, x=x, v=np.outer(v, [1, 0, 0]), dt=dt, rows=rows)
        after = v + got["dv"].reshape(-1, 3)[:, 0]
        velocities.append(after)
    return [("rows found pass by pass", passes), ("velocities after the first pass", velocities[0]),
            ("velocities after the last pass", velocities[-1]),
            ("gaps after the step", gap + dt * np.diff(after)), ("momentum after", np.dot(m, after))]


def strain_limit_step(s, engine):
    m, k, dt, g = s["mass_kg"], s["stiffness_N_m"], s["dt_s"], s["gravity_m_s2"]
    # The fixed end is heavy and held by rows, since springs want both ends to be unknown.
    fixed = {"kind": "fixed", "node": 0, "velocity": [0, 0, 0]}
    problem = {"mass": [1, m], "x": [[0, 0, 0], [0, 0, -s["length_m"]]], "v": [[0, 0, 0], [0, 0, -s["speed_down_m_s"]]],
               "dt": dt, "force": [[0, 0, 0], [0, 0, -m * g]],
               "springs": [{"node": 0, "stiffness": k, "rest_length": s["rest_length_m"]}]}
    free = engine.ask("rows", **problem, rows=[fixed])
    limit = {"kind": "strain", "node": 0, "other": 1, "n": UP, "maximum": 1, "limit": s["max_length_m"]}
    held = engine.ask("rows", **problem, rows=[fixed, limit])
    dv, lam = -held["dv"][5], held["lambda"][3]
    return [("velocity change without", -free["dv"][5]), ("velocity change with", dv),
            ("length after", s["length_m"] + dt * (s["speed_down_m_s"] + dv)), ("multiplier", -lam),
            ("force of the limit", lam / dt)]


def fixed_velocity_step(s, engine):
    got = engine.ask("rows", mass=[s["mass1_kg"], s["mass2_kg"]], x=[[s["x1_m"], 0, 0], [s["x2_m"], 0, 0]],
                     v=[[s["v1_m_s"], 0, 0], [s["v2_m_s"], 0, 0]], dt=s["dt_s"],
                     springs=[{"node": 0, "stiffness": s["stiffness_N_m"], "rest_length": s["rest_length_m"]}],
                     rows=[{"kind": "fixed", "node": 0, "velocity": [s["prescribed_m_s"], 0, 0]}])
    impulse = -got["lambda"][0]  # K dv - b = -J'lambda
    return [("velocity changes", got["dv"][[0, 3]]), ("multiplier", impulse), ("force of the constraint", impulse / s["dt_s"])]


def stack(s, engine):
    m, dt, g = s["masses_kg"], 0.01, s["gravity_m_s2"]
    x = [[0, 0, 0]] + [[0, 0, i + 1] for i in range(len(m))]
    rows = [contact([i + 1, i], [1, -1], UP, 1) for i in range(len(m))]
    got = engine.ask("rows", mass=[0] + m, x=x, v=np.zeros((len(x), 3)), dt=dt,
                     force=[[0, 0, 0]] + [[0, 0, -g * k] for k in m], rows=rows)
    return [("total normal force", got["lambda"] / dt), ("sum of the multipliers", got["lambda"][0])]


# ---- impacts ----

def sphere(mass, x, v):
    return {"mass": mass, "moment": [mass, mass, mass], "x": x, "v": v}


def cradle(s, engine):
    m, v, eps = s["masses_kg"], s["v_m_s"], s["restitution"]
    bodies = [sphere(k, [i, 0, 0], [v if i == 0 else 0, 0, 0]) for i, k in enumerate(m)]

    def hits(restitution):
        return [{"body": i + 1, "other": i, "n": [1, 0, 0], "point": [i + 0.5, 0, 0], "restitution": restitution}
                for i in range(len(m) - 1)]

    got = engine.ask("rigid", bodies=bodies, contacts=hits(eps), mode="simultaneous")
    turns = engine.ask("rigid", bodies=bodies, contacts=hits(1), mode="sequential")
    after = got["v"][::6]
    return [("impulses, simultaneous", got["impulse"]), ("velocities after, simultaneous", after),
            ("momentum after", np.dot(m, after)), ("kinetic energy after / before", got["energy"][1] / got["energy"][0]),
            ("velocities after, sequential", turns["v"][::6])]


def turned_about_y(degrees):
    half = math.radians(degrees) / 2
    return [math.cos(half), 0, math.sin(half), 0]


def rod_of(s):
    moment = s["mass_kg"] * s["length_m"] ** 2 / 12
    return {"mass": s["mass_kg"], "moment": [1e-6 * moment, moment, moment], "v": [0, 0, -s["v_down_m_s"]],
            "w": [0, s["omega_y_rad_s"], 0], "q": turned_about_y(s.get("tilt_deg", 0))}


def on_floor(points, restitution):
    return [{"body": 0, "n": UP, "point": list(p), "restitution": e} for p, e in zip(points, restitution)]


def rod_flat(s, engine):
    half = s["length_m"] / 2
    got = engine.ask("rigid", bodies=[rod_of(s)], contacts=on_floor([(-half, 0, 0), (half, 0, 0)], s["restitution"]))
    return [("impulses at end 1", got["impulse"]), ("centre velocity", got["v"][2]), ("angular velocity", got["v"][4]),
            ("end velocities", got["point_velocity"])]


def rod_tilted(s, engine):
    tilt, half = math.radians(s["tilt_deg"]), s["length_m"] / 2
    got = engine.ask("rigid", bodies=[rod_of(s)],
                     contacts=on_floor([(half * math.cos(tilt), 0, -half * math.sin(tilt))], [s["restitution"]]))
    return [("impulse at the lower end", got["impulse"]), ("centre velocity", got["v"][2]),
            ("angular velocity", got["v"][4]), ("kinetic energy after / before", got["energy"][1] / got["energy"][0])]


def plank(s, engine):
    got = engine.ask("rigid", bodies=[rod_of(s)],
                     contacts=on_floor([(x, 0, 0) for x in s["supports_x_m"]], [s["restitution"]] * len(s["supports_x_m"])))
    return [("impulses at the supports", got["impulse"]), ("centre velocity", got["v"][2]),
            ("angular velocity", got["v"][4]), ("velocity of the two points", got["point_velocity"])]


def box_of(s, tilt=0):
    a, b, c = s["size_xyz_m"]
    m = s["mass_kg"]
    return {"mass": m, "moment": [m * (b * b + c * c) / 12, m * (a * a + c * c) / 12, m * (a * a + b * b) / 12],
            "v": [0, 0, -s["v_down_m_s"]], "q": turned_about_y(tilt)}


def box_corners(s, tilt=0):
    t = math.radians(tilt)
    turn = np.array([[math.cos(t), 0, math.sin(t)], [0, 1, 0], [-math.sin(t), 0, math.cos(t)]])
    half = np.array(s["size_xyz_m"]) / 2
    return [turn @ (half * [i, j, k]) for k in (-1, 1) for j in (-1, 1) for i in (-1, 1)]


def lowest(points):
    least = min(p[2] for p in points)
    return [p for p in points if p[2] < least + 1e-12]


def box_four_corners(s, engine):
    corners = lowest(box_corners(s))
    got = engine.ask("rigid", bodies=[box_of(s)], contacts=on_floor(corners, [s["restitution"]] * 4))
    f = got["impulse"]
    least = f if np.ptp(f) < 1e-12 else Missing(
        "impulses of dependent contacts are not unique: the engine's differ, with the same sum and moments")
    return [("sum of the four", f.sum()), ("moments of the impulses", [sum(p[1] * k for p, k in zip(corners, f)),
                                                                       -sum(p[0] * k for p, k in zip(corners, f))]),
            ("velocity after", [got["v"][2], np.abs(got["v"][3:]).max()]), ("impulses of least norm", least),
            ("rank of the 4x4", float(np.linalg.matrix_rank(got["W"].reshape(4, 4))))]


def box_edge(s, engine):
    corners = lowest(box_corners(s, s["tilt_deg"]))
    got = engine.ask("rigid", bodies=[box_of(s, s["tilt_deg"])], contacts=on_floor(corners, [s["restitution"]] * len(corners)))
    return [("impulse of each corner", got["impulse"]), ("centre velocity", got["v"][2]), ("angular velocity", got["v"][3:6])]


# ---- balls that slip and roll ----

class Ball:
    """A solid sphere on the plane z = 0, gravity tilted towards +x."""

    def __init__(self, engine, s, mu, tilt, dt):
        self.engine, self.mu, self.dt, self.m, self.r = engine, mu, dt, s["mass_kg"], s["radius_m"]
        g = s["gravity_m_s2"]
        self.force = [self.m * g * math.sin(tilt), 0, -self.m * g * math.cos(tilt), 0, 0, 0]
        self.v, self.x = np.zeros(6), 0.0

    def step(self):
        moment = 0.4 * self.m * self.r ** 2
        got = self.engine.ask("rigid", mode="step", dt=self.dt, force=self.force,
                              bodies=[{"mass": self.m, "moment": [moment] * 3, "v": self.v[:3], "w": self.v[3:]}],
                              contacts=[{"body": 0, "n": UP, "point": [0, 0, -self.r], "mu": self.mu}])
        self.acceleration, self.v = (got["v"] - self.v) / self.dt, got["v"]
        self.x += self.dt * self.v[0]
        self.friction = np.linalg.norm(got["beta"]) / self.dt

    def slip(self):
        return self.v[0] - self.r * self.v[4]


def rolling(s, engine):
    tilt = math.radians(s["tilt_deg"])
    ball = Ball(engine, s, s["mu"], tilt, s["dt_s"])
    for _ in range(s["steps"]):
        ball.step()
    low, high = 0.0, 1.0
    while high - low > 1e-5:
        trial = Ball(engine, s, (low + high) / 2, tilt, s["dt_s"])
        trial.step()
        low, high = (low, trial.mu) if abs(trial.slip()) < 1e-9 else (trial.mu, high)
    return [("least mu", high), ("acceleration down", [ball.acceleration[0], ball.acceleration[4], ball.friction]),
            ("distance after n steps", ball.x)]


def billiard(s, engine):
    ball = Ball(engine, s, s["mu"], 0, 0.001)
    ball.v[0] = s["v0_m_s"]
    energy = 0.5 * ball.m * s["v0_m_s"] ** 2
    time = 0.0
    while abs(ball.slip()) > 1e-9 and time < 1e3 * s["v0_m_s"]:
        ball.step()
        time += ball.dt
    left = 0.5 * ball.m * ball.v[0] ** 2 + 0.2 * ball.m * ball.r ** 2 * ball.v[4] ** 2
    return [("time at which", time), ("speed when", ball.v[0]), ("distance until", ball.x),
            ("energy lost", (energy - left) / energy)]


# ---- a capstan of straight links ----

def capstan_polygon(s, engine):
    """Links of fixed length as equalities, nodes on an arc; the greatest T1 that does not slip, by bisection."""
    nodes, mu, T2 = s["contact_nodes"], s["mu"], s["T2_N"]
    turn, n = s["wrap_angle_rad"] / nodes, 3 * nodes
    J, T = [], []
    for i in range(nodes):
        a = (i + 0.5) * turn
        row, along, across = np.zeros(n), np.zeros(n), np.zeros(n)
        row[3 * i:3 * i + 2] = -math.cos(a), -math.sin(a)  # the outward normal is (cos, sin)
        along[3 * i:3 * i + 2] = -math.sin(a), math.cos(a)
        across[3 * i + 2] = 1
        J.append(row)
        T += [along, across]
    for i in range(nodes - 1):
        a, row = (i + 1) * turn, np.zeros(n)
        row[3 * i:3 * i + 2] = math.sin(a), -math.cos(a)
        row[3 * i + 3:3 * i + 5] = -math.sin(a), math.cos(a)
        J.append(row)

    def slips(T1):
        b, end = np.zeros(n), s["wrap_angle_rad"]
        b[1] -= T2  # at the angle 0 the cable goes off downwards, at the end along its tangent
        b[n - 3:n - 1] += -T1 * math.sin(end), T1 * math.cos(end)
        got = engine.ask("qp", K=np.full(n, 0.01), b=b, J=J, c=np.zeros(len(J)), row=range(nodes), mu=[mu] * nodes, T=T,
                         equality=[0] * nodes + [1] * (nodes - 1))
        return np.abs(np.array(T) @ got["dv"]).max() > 1e-11 * T1 / 0.01, got["lambda"][:nodes].sum()

    low, high = T2, T2 * 1e3
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if slips(middle)[0] else (middle, high)
    return [("T1/T2", low / T2), ("sum of the normal forces", slips(low)[1])]


# ---- rigid motion ----

def rotate(q, p):
    w, u = q[..., :1], q[..., 1:]
    t = 2 * np.cross(u, p)
    return p + w * t + np.cross(u, t)


def unrotate(q, p):
    return rotate(q * [1, -1, -1, -1], p)


def motion(engine, **problem):
    states = engine.ask("motion", **problem)["states"]
    return states[:, :4], states[:, 4:]


def crossings(t, y, falling):
    """Times at which y passes 0, linear between samples."""
    sign = -1 if falling else 1
    at = np.flatnonzero((sign * y[:-1] < 0) & (sign * y[1:] >= 0))
    return t[at] + (t[at + 1] - t[at]) * y[at] / (y[at] - y[at + 1])


def torque_free(s, engine):
    inertia, dt = np.array(s["inertia_kg_m2"], float), s["dt_s"]
    steps = int(round(4 / dt))
    for _ in range(12):  # until there is a whole period
        q, w = motion(engine, mass=1, moment=inertia, w=s["omega0_rad_s"], dt=dt, steps=steps)
        body = unrotate(q, w)
        t = dt * np.arange(len(w))
        falls = crossings(t, body[:, 1], True)
        if len(falls) >= 2:
            break
        steps *= 2
    zeros = np.sort(np.concatenate([falls, crossings(t, body[:, 1], False)]))
    return [("period", falls[1] - falls[0]), ("time of the first flip", zeros[0]),
            ("twice the kinetic", worst((inertia * body ** 2).sum(1))), ("square of the angular", worst(((inertia * body) ** 2).sum(1)))]


def worst(series):
    """The value farthest from the first one."""
    return series[np.argmax(np.abs(series - series[0]))]


def torque_free_symmetric(s, engine):
    inertia = [s["I1_kg_m2"], s["I1_kg_m2"], s["I3_kg_m2"]]
    steps = 2000
    dt = s["end_time_s"] / steps
    q, w = motion(engine, mass=1, moment=inertia, w=s["omega0_rad_s"], dt=dt, steps=steps)
    body = unrotate(q, w)
    angle = np.unwrap(np.arctan2(body[:, 1], body[:, 0]))
    L = rotate(q[0], np.array(inertia) * body[0])
    axis = rotate(q, np.array([0.0, 0, 1]))
    L = L / np.linalg.norm(L)
    e1 = axis[0] - L * (axis[0] @ L)
    e1 /= np.linalg.norm(e1)
    turn = np.unwrap(np.arctan2(axis @ np.cross(L, e1), axis @ e1))
    return [("rate at which", (angle[-1] - angle[0]) / s["end_time_s"]), ("angular velocity in the body", body[-1]),
            ("precession rate", (turn[-1] - turn[0]) / s["end_time_s"])]


def top_steady(s, engine):
    m, l, r = s["mass_kg"], s["pivot_to_centre_m"], s["disc_radius_m"]
    i3, i1 = m * r * r / 2, m * r * r / 4 + m * l * l
    tilt = math.radians(s["tilt_deg"])

    def spin(precession, tilt, w3, time, dt=1e-4, every=10):
        axis = np.array([math.sin(tilt), 0, math.cos(tilt)])
        w = np.array([0, 0, precession]) + (w3 - precession * math.cos(tilt)) * axis
        q, _ = motion(engine, mass=m, moment=[i1, i1, i3], q=turned_about_y(math.degrees(tilt)), w=w, pivot=1, arm=[0, 0, l],
                      weight=[0, 0, -m * s["gravity_m_s2"]], dt=dt, steps=int(round(time / dt)), every=every)
        return rotate(q, np.array([0.0, 0, 1]))

    # The rates that start a steady precession are the file's own; what is asked is that they stay.
    b, c = i3 * s["omega3_rad_s"], m * s["gravity_m_s2"] * l
    a = i1 * math.cos(tilt)
    root = math.sqrt(b * b - 4 * a * c)
    rates = []
    for rate in (2 * c / (b + root), (b + root) / (2 * a)):
        axis = spin(rate, tilt, s["omega3_rad_s"], 1.0)
        angle = np.unwrap(np.arctan2(axis[:, 1], axis[:, 0]))
        rates.append(angle[-1])
        if len(rates) == 1:
            end = math.degrees(math.acos(axis[-1, 2]))
    low, high = 0.0, s["omega3_rad_s"]
    while high - low > 0.1:  # an upright top falls if a small tilt grows
        w3 = (low + high) / 2
        axis = spin(0, 1e-4, w3, 3.0, dt=1e-3, every=1)
        low, high = (w3, high) if np.arccos(np.minimum(axis[:, 2], 1)).max() > 1e-2 else (low, w3)
    return [("slow steady", rates[0]), ("fast steady", rates[1]), ("tilt after 1 s", end), ("least spin", high)]


def physical_pendulum(s, engine):
    m, length, g = s["mass_kg"], s["length_m"], s["gravity_m_s2"]
    moment, dt = m * length ** 2 / 3, 1e-4
    start = math.radians(s["angle0_deg"])
    steps = int(4 * math.sqrt(length / g) / dt) * 2
    while True:
        # The rod lies along -z of the body, turned about y so that its end is at +x.
        q, _ = motion(engine, mass=m, moment=[moment, moment, 1e-6 * moment], q=turned_about_y(-s["angle0_deg"]), pivot=1,
                      arm=[0, 0, -length / 2], weight=[0, 0, -m * g], dt=dt, steps=steps)
        rod = rotate(q, np.array([0.0, 0, -1]))
        angle = np.arctan2(rod[:, 0], -rod[:, 2])
        falls = crossings(dt * np.arange(len(angle)), angle, True)
        if len(falls) >= 2 or steps * dt > 1000 * math.sqrt(length / g):
            break
        steps *= 2  # the wider it swings the longer it takes
    centre = rod * length / 2
    acceleration = (centre[2:] - 2 * centre[1:-1] + centre[:-2]) / dt ** 2
    bottom = int(round(falls[0] / dt)) - 1
    first = 2 * (centre[1] - centre[0]) / dt ** 2
    force = m * (first + [0, 0, g])
    assert abs(angle[0] - start) < 1e-12
    return [("period", falls[1] - falls[0]), ("hinge force at the bottom", m * (acceleration[bottom, 2] + g)),
            ("hinge force at release", [force[0], force[2]])]


def pendulum(s, engine):
    """A point mass on a rigid rod: a body about its pivot, with next to no moment along the rod."""
    m, length, g, dt = s["mass_kg"], s["length_m"], s["gravity_m_s2"], s["dt_s"]
    steps = int(10 * math.sqrt(length / g) / dt)
    for _ in range(10):
        q, w = motion(engine, mass=m, moment=[m * length ** 2, m * length ** 2, 1e-6 * m * length ** 2], pivot=1,
                      q=turned_about_y(-s["angle0_deg"]), arm=[0, 0, -length], weight=[0, 0, -m * g], dt=dt, steps=steps)
        rod = rotate(q, np.array([0.0, 0, -1])) * length
        angle = np.arctan2(rod[:, 0], -rod[:, 2])
        falls = crossings(dt * np.arange(len(angle)), angle, True)
        if len(falls) >= 2:
            break
        steps *= 2
    bottom = int(round(falls[0] / dt))
    lift = (rod[bottom + 1, 2] - 2 * rod[bottom, 2] + rod[bottom - 1, 2]) / dt ** 2
    return [("period", falls[1] - falls[0]), ("speed at the bottom", length * np.linalg.norm(w[bottom])),
            ("tension at the bottom", m * (g + lift)), ("angle at the sample", angle[int(round(s["sample_time_s"] / dt))])]


# ---- tetrahedra ----

def single_tet(s, engine):
    h = s["h_m"]
    x = np.array([[0, 0, 0], [h, 0, 0], [0, h, 0], [0, 0, h]], float)
    u, R = np.array(s["displacement_m"], float), np.array(s["rotation_matrix"], float)
    body = {"x": x, "tets": [0, 1, 2, 3], "young": s["young_Pa"], "poisson": s["poisson"]}
    bent = engine.ask("tets", **body, linear=u, at=x + u)
    turned = engine.ask("tets", **body, linear=x @ R.T - x, at=x @ R.T)
    K = bent["K"].reshape(12, 12)
    other = Missing("the engine has no St. Venant-Kirchhoff material")
    largest = np.abs(turned["force"]).max()
    return [("stiffness matrix", K), ("eigenvalues", np.linalg.eigvalsh(K)),
            ("linear strain energy", u.ravel() @ bent["Hu"] / 2), ("linear elastic forces", -bent["Hu"].reshape(4, 3)),
            ("St. Venant-Kirchhoff energy", other), ("St. Venant-Kirchhoff forces", other),
            ("corotational forces", bent["force"].reshape(4, 3)),
            ("largest force after a pure rotation", [largest, Missing("the engine has no St. Venant-Kirchhoff material")]),
            ("largest force after the same rotation by the linear", np.abs(turned["Hu"]).max())]


def patch_test(s, engine):
    x, A = np.array(s["vertices_m"], float), np.array(s["A"], float)
    corners = len(x) - 1
    u = x @ A.T
    u[corners:] = 0
    held = np.zeros((len(x), 3))
    held[:corners] = 1
    got = engine.ask("tets", x=x, tets=s["tets"], young=s["young_Pa"], poisson=s["poisson"], held=held, u=u)
    stress = got["linear_stress"].reshape(-1, 6)
    return [("displacement of the inner", got["u"].reshape(-1, 3)[corners]),
            ("stress", farthest(stress)),
            ("strain energy", got["u"] @ got["support"] / 2), ("support forces", got["support"].reshape(-1, 3)[:corners])]


def farthest(stress):
    """The row that is farthest from the mean."""
    return stress[np.argmax(np.abs(stress - stress.mean(0)).max(1))]


class Bar:
    """A box of tetrahedra along x and a linear problem on it."""

    def __init__(self, s, length, cells):
        self.cells, side = cells, s["side_m"]
        self.size = (length, side, side)
        axes = [np.linspace(0, d, n + 1) for d, n in zip(self.size, cells)]
        self.x = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
        self.held = np.zeros_like(self.x)
        self.u = np.zeros_like(self.x)
        self.load = np.zeros_like(self.x)
        self.problem = {"cells": cells, "size": self.size, "young": s["young_Pa"], "poisson": s["poisson"]}
        self.start, self.end = self.x[:, 0] == 0, self.x[:, 0] == length

    def node(self, i, j, k):
        return (i * (self.cells[1] + 1) + j) * (self.cells[2] + 1) + k

    def pull_end(self, engine, force):
        """Spread evenly over the face: a third of each triangle's share to each corner."""
        tets = engine.ask("box", **self.problem, mesh=1)["tets"].reshape(-1, 4).astype(int)
        for tet in tets[self.end[tets].sum(1) == 3]:
            face = tet[self.end[tet]]
            p = self.x[face]
            area = np.linalg.norm(np.cross(p[1] - p[0], p[2] - p[0])) / 2
            self.load[face] += np.array(force) * area / (self.size[1] * self.size[2]) / 3

    def weigh(self, engine, density, gravity):
        self.load += np.outer(density * engine.ask("box", **self.problem)["volume_of_node"], gravity)

    def solve(self, engine):
        got = engine.ask("box", **self.problem, held=self.held, u=self.u, load=self.load)
        self.moved, self.support = got["u"].reshape(-1, 3), got["support"].reshape(-1, 3)
        self.energy = (self.moved * self.support).sum() / 2
        return got


def bar_stretch(s, engine):
    bar = Bar(s, s["length_m"], (8, 3, 2))
    bar.pull_end(engine, (s["pull_N"], 0, 0))
    bar.held = (bar.x == 0).astype(float)  # rollers at x = 0; one edge keeps y, one z
    got = bar.solve(engine)
    corner = bar.moved[bar.node(8, 3, 2)]
    pulled = got["linear_stress"].reshape(-1, 6)[:, 0]
    return [("displacement of the corner", [corner[0], corner[1] / 2, corner[2] / 2]), ("strain energy", bar.energy),
            ("stress along x", farthest(pulled[:, None])[0])]


def column_weight(s, engine):
    drops = []
    for walls in (False, True):
        bar = Bar(s, s["height_m"], (16, 2, 2))
        bar.weigh(engine, s["density_kg_m3"], (-s["gravity_m_s2"], 0, 0))
        bar.held[:, 0] = bar.start
        bar.held[bar.node(0, 0, 0)] = 1
        bar.held[bar.node(0, 0, 2), 1:] = (1, 0)
        if walls:
            bar.held[:, 1:] = 1
        bar.solve(engine)
        drops.append(-bar.moved[bar.node(16, 1, 1)][0])
        force = bar.support[bar.start, 0].sum() - bar.load[bar.start, 0].sum()
    return [("(a)", drops[0]), ("(b)", drops[1]), ("force on the base", force)]


def cantilever(s, engine, across=16):
    tip, support = [], None
    for own in (False, True):
        bar = Bar(s, s["length_m"], (10 * across, across, across))
        if own:
            bar.weigh(engine, s["density_kg_m3"], (0, 0, -s["gravity_m_s2"]))
        else:
            bar.pull_end(engine, (0, 0, -s["tip_load_N"]))
        bar.held[bar.start] = 1
        bar.solve(engine)
        tip.append(-bar.moved[bar.end, 2].mean())
        if not own:
            at = bar.support[bar.start]
            support = [at[:, 2].sum(), abs((at[:, 0] * bar.x[bar.start, 2]).sum())]
    return [("tip deflection under the end load", tip[0]), ("tip deflection under own weight", tip[1]),
            ("support force and moment", support)]


def twisted_bar(s, engine, across=16):
    bar = Bar(s, s["length_m"], (10 * across, across, across))
    y, z = bar.x[:, 1] - s["side_m"] / 2, bar.x[:, 2] - s["side_m"] / 2
    half = math.radians(s["twist_deg"]) / 2
    for face, turn in ((bar.start, -half), (bar.end, half)):
        bar.held[face, 1:] = 1
        bar.u[face, 1], bar.u[face, 2] = -turn * z[face], turn * y[face]
    bar.held[bar.node(5 * across, across // 2, across // 2)] = 1  # the axis does not slide
    bar.solve(engine)
    torque = (y[bar.end] * bar.support[bar.end, 2] - z[bar.end] * bar.support[bar.end, 1]).sum()
    return [("torque", torque), ("strain energy", bar.energy)]


# ---- continuous tests ----

def ccd(pair):
    def run(s, engine):
        out = []
        none = Missing("the engine solves no cubic: it advances conservatively")
        for case in s["cases"]:
            got = engine.ask("ccd", pair=pair, start=case["start"], end=case["end"], separation=0, tolerance=1e-12)
            label = case["label"]
            out += [(f"{label}: cubic", none), (f"{label}: real roots", none), (f"{label}: hit", got["hit"]),
                    (f"{label}: time of the first touch", got["toi"])]
            if got["hit"]:
                w = got["weight"]
                out += [(f"{label}: weights of", -w[1:]), (f"{label}: parameters on both", [w[1], -w[3]])]
        return out
    return run


KINDS = {
    "vertex_triangle": vertex_triangle, "edge_edge": edge_edge, "internal_momentum": internal_momentum,
    "dependent_rows": dependent_rows, "two_pass": two_pass, "strain_limit_step": strain_limit_step,
    "fixed_velocity_step": fixed_velocity_step, "stack": stack, "cradle": cradle,
    "rod_impact_flat": rod_flat, "rod_impact_tilted": rod_tilted, "plank": plank, "box_four_corners": box_four_corners,
    "box_edge": box_edge, "capstan_polygon": capstan_polygon, "rolling": rolling, "billiard": billiard, "torque_free": torque_free,
    "torque_free_symmetric": torque_free_symmetric, "top_steady": top_steady, "physical_pendulum": physical_pendulum, "pendulum": pendulum,
    "single_tet": single_tet, "patch_test": patch_test, "bar_stretch": bar_stretch, "column_weight": column_weight,
    "cantilever": cantilever, "twisted_bar": twisted_bar, "ccd_vertex_triangle": ccd("vertex_triangle"),
    "ccd_edge_edge": ccd("edge_edge"),
}
