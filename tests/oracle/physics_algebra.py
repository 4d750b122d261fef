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
    return [("rows found pass by pass", passes), ("velocities after the first pass", velocities[0])]


# ---- impacts ----

def box_four_corners(s, engine):
    (a, b, c), m = s["size_xyz_m"], s["mass_kg"]
    W = engine.ask("delassus", mass=m, moment=[m * (b * b + c * c) / 12, m * (a * a + c * c) / 12, m * (a * a + b * b) / 12], n=UP,
                   points=[[i * a / 2, j * b / 2, -c / 2] for j in (-1, 1) for i in (-1, 1)])["W"].reshape(4, 4)
    return [("rank of the 4x4", float(np.linalg.matrix_rank(W)))]


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
    pulled = bar.solve(engine)["linear_stress"].reshape(-1, 6)[:, 0]
    return [("stress along x", farthest(pulled[:, None])[0])]


def cantilever(s, engine, across=16):
    tip = []
    for own in (False, True):
        bar = Bar(s, s["length_m"], (10 * across, across, across))
        if own:
            bar.weigh(engine, s["density_kg_m3"], (0, 0, -s["gravity_m_s2"]))
        else:
            bar.pull_end(engine, (0, 0, -s["tip_load_N"]))
        bar.held[bar.start] = 1
        bar.solve(engine)
        tip.append(-bar.moved[bar.end, 2].mean())
    return [("tip deflection under the end load, 3D", tip[0]), ("tip deflection under own weight", tip[1])]


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
    "dependent_rows": dependent_rows, "two_pass": two_pass, "box_four_corners": box_four_corners, "capstan_polygon": capstan_polygon,
    "single_tet": single_tet, "patch_test": patch_test, "bar_stretch": bar_stretch, "cantilever": cantilever, "twisted_bar": twisted_bar,
    "ccd_vertex_triangle": ccd("vertex_triangle"), "ccd_edge_edge": ccd("edge_edge"),
}
