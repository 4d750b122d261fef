"""Physics oracles of particles, cables and cloth that a scene can pose: through a qpcollided of their own.

Every function takes the setup of a scenario and a Stage and gives a list of (beginning of a quantity, value), as in
physics_algebra.py. Blocks and balls without spin are particles (cables of one node), ropes and pendulums are cables.
Gravity is along -z, or tilted instead of a slope.
"""

import math

import numpy as np

import daemon
import wire
from physics_algebra import Missing

NOT_COVERED = {
    "tet_cut": "no cuts yet",
}


class World:
    def __init__(self, client, scene):
        self.client = client
        made = client.call("world.create", scene=scene)
        self.id, self.dt = made["world"], made["dt"]
        self.bodies = {body["name"]: body for body in made["bodies"]}
        self.last = None

    def step(self, n=1, contacts=False, **control):
        reply = self.client.call("world.step", world=self.id, n=n, positions=True, velocities=True, contacts=contacts,
                                 precision="float64", **({"control": control} if control else {}))
        if reply["status"] != "ok":
            raise RuntimeError(f"step: {reply['status']}, {reply['error']}")
        self.x, self.v, self.time = reply["positions"], reply["velocities"], reply["time"]
        self.last = reply["summary"]["last"]
        if reply["summary"]["not_proven"]:
            raise RuntimeError("a step was not proven to be free of contact")
        if contacts:
            self.contacts = reply["contacts"]
        return self

    def state(self, field):
        return self.client.call("world.state", world=self.id, fields=[field], precision="float64")[field]

    def settle(self, dts=(0.01, 0.1, 1.0, 10.0, 100.0), steps=60, speed=1e-12, contacts=False):
        """To rest: backward Euler damps, the more the longer the step."""
        for dt in dts:
            self.client.call("world.control", world=self.id, control={"parameters": {"dt": dt}})
            self.dt = dt
            for _ in range(steps):
                self.step(contacts=contacts)
                if np.abs(self.v).max() * dt < speed:
                    break
        return self

    def end(self):
        self.client.call("world.destroy", world=self.id)


class Stage:
    """A daemon for one scenario."""

    def __enter__(self):
        self.daemon = daemon.Daemon("--workers", "1").__enter__()
        self.client = wire.Client(self.daemon.address, timeout=600)
        return self

    def __exit__(self, *error):
        self.client.close()
        self.daemon.__exit__(*error)

    def world(self, bodies, dt, gravity=(0, 0, 0), **scene):
        return World(self.client, {"dt": dt, "gravity": list(map(float, gravity)), "bodies": bodies,
                                   "record": {"enabled": False}, **scene})

    def mesh(self, vertices, elements):
        sent = self.client.call("mesh.upload", vertices=wire.pack_array(np.asarray(vertices, "<f8")),
                                elements=wire.pack_array(np.asarray(elements, "<i4")))
        return {"sha256": sent["sha256"]}

    def floor(self, half=100.0):
        corners = [[-half, -half, 0], [half, -half, 0], [half, half, 0], [-half, half, 0]]
        return {"kind": "static", "name": "floor", "mesh": self.mesh(corners, [[0, 1, 2], [0, 2, 3]])}

    def cylinder(self, radius, segments=720, half=0.5):
        """Side of a fixed cylinder about the axis y, its edges on the circle from outside: the mean radius is right."""
        angle = 2 * math.pi * (np.arange(segments) + 0.5) / segments
        r = radius * 2 / (1 + math.cos(math.pi / segments))
        ring = np.stack([r * np.cos(angle), np.zeros(segments), r * np.sin(angle)], 1)
        vertices = np.concatenate([ring - [0, half, 0], ring + [0, half, 0]])
        i = np.arange(segments)
        j = (i + 1) % segments
        triangles = np.concatenate([np.stack([i, j + segments, j], 1), np.stack([i, i + segments, j + segments], 1)])
        return {"kind": "static", "name": "cylinder", "mesh": self.mesh(vertices, triangles)}


def particle(mass, x, v=(0, 0, 0), radius=1e-3, name="particle"):
    return {"kind": "cable", "name": name, "nodes": [list(map(float, x))], "mass": mass, "radius": radius,
            "velocity": list(map(float, v))}


def cable(nodes, mass, radius, name="cable", **more):
    return {"kind": "cable", "name": name, "nodes": np.asarray(nodes, float).tolist(), "mass": mass, "radius": radius, **more}


def fixed(nodes, body="cable"):
    return {"kind": "fixed", "body": body, "nodes": [int(n) for n in nodes]}


# ---- particles and springs ----

def free_fall(s, stage):
    world = stage.world([particle(s["mass_kg"], (0, 0, s["z0_m"]), (0, 0, s["vz0_m_s"]))], s["dt_s"], (0, 0, -s["gravity_m_s2"]))
    world.step(s["steps"])
    return [("vz after", world.v[0, 2]), ("z after", world.x[0, 2]), ("z in the continuum", world.x[0, 2])]


def projectile(s, stage):
    world = stage.world([particle(s["mass_kg"], s["x0_m"], s["v0_m_s"])], s["dt_s"], (0, 0, -s["gravity_m_s2"]))
    heights = [world.step().x[0, 2] for _ in range(s["steps"])]
    return [("position after", world.x[0]), ("greatest z", max(heights)), ("apex height", max(heights))]


def on_a_spring(s, stage, dt):
    """A particle whose spring is slack at x = 0."""
    length = 1.0
    return stage.world([cable([[-length, 0, 0], [s["x0_m"], 0, 0]], s["mass_kg"], 1e-3, stiffness=s["stiffness_N_m"],
                              rest_length=length, velocity=[[0, 0, 0], [s["v0_m_s"], 0, 0]])], dt,
                       constraints=[fixed([0])])


def spring(s, stage):
    world = on_a_spring(s, stage, s["dt_s"]).step(s["steps"])
    k, m = s["stiffness_N_m"], s["mass_kg"]
    x, v = world.x[1, 0], world.v[1, 0]
    energy = (k * x * x + m * v * v) / (k * s["x0_m"] ** 2 + m * s["v0_m_s"] ** 2)
    return [("x after n steps", x), ("v after n steps", v), ("energy after", energy),
            ("determinant of the step map", Missing("it is of a wrong scheme; energy and x tell it apart"))]


def spring_continuum(s, stage):
    world = on_a_spring(s, stage, s["dt_s"]).step(int(round(s["end_time_s"] / s["dt_s"])))
    return [("x at the end", world.x[1, 0])]


def two_particle_spring(s, stage):
    m = [s["mass1_kg"], s["mass2_kg"]]
    world = stage.world([cable([[s["x1_m"], 0, 0], [s["x2_m"], 0, 0]], m, 1e-3, stiffness=s["stiffness_N_m"],
                               rest_length=s["rest_length_m"], velocity=[[s["v1_m_s"], 0, 0], [s["v2_m_s"], 0, 0]])], s["dt_s"])
    world.step(s["steps"])
    return [("x1, x2", world.x[:, 0]), ("total momentum", np.dot(m, world.v[:, 0]))]


def chain_modes(s, stage):
    n, m, k, dt, length = s["masses"], s["mass_kg"], s["stiffness_N_m"], s["dt_s"], 0.1
    rest = length * np.arange(n + 2)

    def run(mode, amplitude, steps):
        start = np.zeros((n + 2, 3))
        start[:, 0] = rest + amplitude * np.sin(mode * math.pi * np.arange(n + 2) / (n + 1))
        world = stage.world([cable(start, m, 1e-3, stiffness=k, rest_length=length)], dt, constraints=[fixed([0, n + 1])])
        moved = [start[1:-1, 0] - rest[1:-1]] + [world.step().x[1:-1, 0] - rest[1:-1] for _ in range(steps)]
        world.end()
        return np.array(moved)

    rates, factors = [], []
    for mode in range(1, n + 1):
        shape = np.sin(mode * math.pi * np.arange(1, n + 1) / (n + 1))
        q = run(mode, 1e-3, 3) @ shape
        # backward Euler of an oscillator: (1 + w^2 dt^2) q(n+1) = 2 q(n) - q(n-1)
        square = (2 * q[2] - q[1]) / q[3] - 1
        rates.append(math.sqrt(square) / dt)
        factors.append(1 / math.sqrt(1 + square))
    return [("angular frequencies", rates), ("amplitude factor", factors), ("displacements after 50", run(1, 1e-3, 50)[-1])]


# ---- pendulums: stiff springs ----

def hung(stage, angles, masses, lengths, g, dt, stiffness):
    """Point masses on rods from the origin, angles from the vertical below towards +x."""
    nodes = [np.zeros(3)]
    for angle, length in zip(angles, lengths):
        nodes.append(nodes[-1] + length * np.array([math.sin(angle), 0, -math.cos(angle)]))
    return stage.world([cable(nodes, [masses[0]] + list(masses), 1e-4, stiffness=stiffness, rest_length=list(lengths))], dt,
                       (0, 0, -g), constraints=[fixed([0])])


def damped_spring(s, stage):
    """A spring of 1 m whose other end is at the origin: along itself it is linear."""
    body = cable([[1 + s["x0_m"], 0, 0]], s["mass_kg"], 0.01, velocity=[s["v0_m_s"], 0, 0])
    world = stage.world([body], s["dt_s"], gravity=[0, 0, 0], loads=[
        {"kind": "spring", "points": [{"body": 0, "node": 0}, {"at": [0, 0, 0]}], "stiffness": s["stiffness_N_m"],
         "damping": s["damping_N_s_m"], "rest_length": 1}])
    world.step(s["steps"])
    return [("x after", world.x[0, 0] - 1), ("v after", world.v[0, 0])]


def linear_drag(s, stage):
    def fall(steps, dt):
        body = cable([[0, 0, 0]], s["mass_kg"], 0.01, velocity=[0, 0, s["vz0_m_s"]])
        world = stage.world([body], dt, gravity=[0, 0, -s["gravity_m_s2"]],
                            loads=[{"kind": "drag", "body": 0, "coefficient": s["drag_N_s_m"]}])
        return world.step(steps)
    world, last = fall(s["steps"], s["dt_s"]), fall(400, 1.0)
    return [("vz after", world.v[0, 2]), ("z after", world.x[0, 2]), ("vz in the continuum", world.v[0, 2]),
            ("terminal velocity", last.v[0, 2])]


def atwood(s, stage):
    """Two particles on a tendon over two points of the world 1 m apart, high above."""
    places = [[0.0, 0, 0], [1.0, 0, 0]]
    points = [{"body": "m1", "node": 0}, {"at": [0, 0, 10]}, {"at": [1, 0, 10]}, {"body": "m2", "node": 0}]
    world = stage.world([cable([x], m, 0.01, name) for x, m, name in zip(places, [s["m1_kg"], s["m2_kg"]], ["m1", "m2"])],
                        s["dt_s"], (0, 0, -s["gravity_m_s2"]), constraints=[{"kind": "tendon", "points": points}])
    tension, speed = [], [0.0]
    for _ in range(s["steps"]):
        world.step()
        speed.append(-world.v[0, 2])
        tension.append(world.state("joints")["tension"][0])
    acceleration = np.diff(speed) / s["dt_s"]
    worst = int(np.abs(np.array(tension) - tension[0]).argmax())
    return [("acceleration of m1", acceleration[worst]), ("cable tension", tension[worst]), ("force on the pulley axle", 2 * tension[worst]),
            ("drop of m1 after n steps", -world.x[0, 2]), ("drop of m1 in the continuum", -world.x[0, 2])]


def double_pendulum(s, stage):
    g, dt = s["gravity_m_s2"], s["dt_s"]
    world = hung(stage, [math.radians(a) for a in s["angles0_deg"]], s["masses_kg"], s["lengths_m"], g, dt,
                 1e6 * sum(s["masses_kg"]) * g / min(s["lengths_m"]))
    out, done = [], 0
    for time in s["sample_times_s"]:
        steps = int(round(time / dt))
        world.step(steps - done)
        done = steps
        out.append((f"x1, z1, x2, z2 at t = {time:g} s", world.x[1:][:, [0, 2]].ravel()))
    return out


# ---- hanging cables ----

def two_legs(left, right, length, links):
    """Nodes at even distances down from one end and up to the other."""
    left, right = np.array(left, float), np.array(right, float)
    chord = right - left
    down = np.cross(chord, [0, 1, 0]) / np.linalg.norm(chord)
    down *= -np.sign(down[2]) or 1.0
    low = (left + right) / 2 + down * math.sqrt(length ** 2 - chord @ chord) / 2
    t = np.linspace(0, 2, links + 1)[:, None]
    return np.where(t <= 1, left + t * (low - left), low + (t - 1) * (right - low))


def reactions(world):
    """Force on the fixed nodes by what holds them, by node."""
    got = world.state("reactions")
    return dict(zip(got["node"].tolist(), got["force"]))


def hang(stage, nodes, masses, g, **springs):
    world = stage.world([cable(nodes, list(masses), 1e-4, **springs)], 0.01, (0, 0, -g),
                        constraints=[fixed([0, len(nodes) - 1])])
    return world.settle()


def heavy_cable(stage, left, right, length, density, ea, g, links=200):
    nodes = two_legs(left, right, max(length, 1.0001 * math.dist(left, right)), links)
    masses = np.full(links + 1, density * length / links)
    masses[[0, -1]] /= 2
    return hang(stage, nodes, masses, g, axial_stiffness=ea, rest_length=length / links)


def catenary(s, stage):
    w = s["cable_kg_m"] * s["gravity_m_s2"] * s["length_m"]
    world = heavy_cable(stage, (0, 0, 0), (s["span_m"], 0, s["rise_m"]), s["length_m"], s["cable_kg_m"], 1e5 * w,
                        s["gravity_m_s2"])
    force = reactions(world)
    left, right = force[0], force[len(world.x) - 1]
    return [("horizontal tension", abs(left[0])), ("sag of the lowest", -world.x[:, 2].min()),
            ("tension at the left", np.linalg.norm(left)), ("tension at the right", np.linalg.norm(right)),
            ("sum of the vertical", left[2] + right[2])]


def elastic_catenary(s, stage):
    world = heavy_cable(stage, (0, 0, 0), (s["span_m"], 0, 0), s["unstretched_length_m"], s["cable_kg_m"], s["EA_N"],
                        s["gravity_m_s2"])
    left = reactions(world)[0]
    return [("horizontal tension", abs(left[0])), ("sag at the middle", -world.x[len(world.x) // 2, 2]),
            ("tension at the ends", np.linalg.norm(left))]


def catenary_chain(s, stage):
    n, l0 = s["particles"], s["link_rest_length_m"]
    nodes = two_legs((0, 0, 0), (s["span_m"], 0, 0), l0 * (n - 1), n - 1)
    world = hang(stage, nodes, [s["particle_mass_kg"]] * n, s["gravity_m_s2"], stiffness=s["link_stiffness_N_m"], rest_length=l0)
    tension, force = world.state("tensions"), reactions(world)[0]
    return [("greatest depth", -world.x[:, 2].min()), ("tension of the first", [tension[0], tension[(n - 2) // 2]]),
            ("horizontal force", abs(force[0])), ("vertical support", force[2])]


def hanging_cable(s, stage):
    n, l0, m = s["particles"], 0.1, s["particle_mass_kg"]
    nodes = np.outer(np.arange(n + 1), [0, 0, -l0])
    world = stage.world([cable(nodes, m, 1e-4, stiffness=s["link_stiffness_N_m"], rest_length=l0)], 0.01,
                        (0, 0, -s["gravity_m_s2"]), constraints=[fixed([0])]).settle()
    drop = nodes[:, 2] - world.x[:, 2]
    return [("drop of the lowest particle", drop[n]), ("tension of the top", world.state("tensions")[0]),
            ("drop of the middle", drop[n // 2]), ("drop of the lowest point", drop[n])]


def strain_limit_static(s, stage):
    m, l0, g = s["mass_kg"], s["rest_length_m"], s["gravity_m_s2"]
    world = stage.world([cable([[0, 0, 0], [0, 0, -l0]], m, 1e-4, stiffness=s["stiffness_N_m"], rest_length=l0)], 0.01,
                        (0, 0, -g),
                        constraints=[fixed([0]), {"kind": "strain-limit", "body": "cable", "max": s["max_length_m"] / l0}])
    world.settle()
    # The file's fixed end has no weight of its own; here its particle has.
    return [("length", -world.x[1, 2]), ("force of the limit", world.state("limit_forces")[0]),
            ("force on the fixed end", reactions(world)[0][2] - m * g)]


# ---- friction and restitution ----

class Block:
    """A particle on the floor, gravity tilted towards +x."""

    def __init__(self, stage, s, tilt, dt, v0=0.0):
        g, r = s["gravity_m_s2"], 1e-3
        self.dt = dt
        self.world = stage.world([stage.floor(), particle(s["mass_kg"], (0.3, 0.1, r), (v0, 0, 0), r)], dt,
                                 (g * math.sin(tilt), 0, -g * math.cos(tilt)), contacts={"friction": s["mu"]})

    def step(self, n=1):
        self.world.step(n, contacts=True)
        return self

    @property
    def speed(self):
        return self.world.v[0, 0]

    @property
    def distance(self):
        return self.world.x[0, 0] - 0.3


def incline_stick(s, stage):
    block = Block(stage, s, math.radians(s["tilt_deg"]), 0.01).step(200)
    contacts = block.world.contacts
    forces = [contacts["force"].sum(), np.linalg.norm(contacts["friction"].sum(0))]
    low, high = 0.0, 90.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        trial = Block(stage, s, math.radians(middle), 0.01).step(20)
        low, high = (low, middle) if abs(trial.speed) > 1e-6 else (middle, high)
        trial.world.end()
    return [("speed after", abs(block.speed)), ("normal and friction", forces), ("tilt at which", high)]


def incline_slip(s, stage):
    block = Block(stage, s, math.radians(s["tilt_deg"]), s["dt_s"], s["v0_m_s"]).step()
    a = (block.speed - s["v0_m_s"]) / s["dt_s"]
    block.step(s["steps"] - 1)
    return [("acceleration", a), ("distance after n", block.distance), ("distance in the continuum", block.distance)]


def stopping(s, stage):
    block = Block(stage, s, 0, s["dt_s"], s["v0_m_s"])
    steps = 0
    while True:
        block.step()
        steps += 1
        if abs(block.speed) < 1e-9 or steps > 100000:
            break
    return [("distance until rest", block.distance), ("steps until rest", steps), ("distance in the continuum", block.distance)]


def bouncing(s, stage):
    r, g, n = 1e-3, s["gravity_m_s2"], s["bounces"]

    def drop(dt):
        return stage.world([stage.floor(), particle(1.0, (0.3, 0.1, s["h0_m"] + r), radius=r)], dt, (0, 0, -g),
                           contacts={"restitution": s["restitution"]})

    dt = 2.5e-4
    world, before, heights, times, apex = drop(dt), 0.0, [], [], 0.0
    while len(heights) < n:
        world.step()
        v = world.v[0, 2]
        if before < -2 * g * dt and v >= 0:
            if times:
                heights.append(apex)
            else:
                impulse = v - before + g * dt
            times.append(world.time)
            apex = 0.0
        apex = max(apex, world.x[0, 2] - r)
        before = v
    world.end()
    world, rest = drop(1e-4), 0.0  # the tail of small bounces wants short steps
    while world.last is None or world.time < rest + 0.5:
        world.step(20)
        if np.abs(world.v).max() > 1e-6:
            rest = world.time
    return [("apex heights", heights), ("times of the impacts", times[:n]), ("time at which it has come", rest),
            ("impulse of the first", impulse)]


def tow(s, stage):
    """The driver is a node of its own ahead, on a stiff spring; drag at the steady velocity is a steady force."""
    n, m, g, v, r, gap = s["blocks"], s["block_mass_kg"], s["gravity_m_s2"], s["velocity_m_s"], 1e-3, 1.0
    pull = n * (s["mu"] * m * g + s["drag_N_s_m"] * v)
    x = [[100 + gap - gap * i, 0.1, r] for i in range(n + 1)]
    world = stage.world([stage.floor(1000), cable(x, m, r, stiffness=1e5 * pull, rest_length=gap, velocity=[v, 0, 0])], 0.01,
                        (0, 0, -g), contacts={"friction": s["mu"]}, constraints=[fixed([0])])
    drag = {"body": "cable", "nodes": list(range(1, n + 1)), "force": [-s["drag_N_s_m"] * v, 0, 0]}
    world.step(targets=[{"body": "cable", "node": 0, "velocity": [v, 0, 0]}], forces=[drag])
    world.step(500)
    tension = np.array(world.state("tensions"))
    force = reactions(world)[0][0]
    return [("force of the constraint", force), ("tension between", tension[1:]), ("power of the constraint", force * world.v[0, 0])]


# ---- cables over a cylinder ----

def arc(radius, start, end, count):
    a = np.linspace(start, end, count)
    return np.stack([radius * np.sin(a), np.zeros(count), radius * np.cos(a)], 1)


def capstan_slips(stage, s, T1, T2, nodes=60):
    """A cable of little mass on the arc, pulled along its tangents: T2 on both ends, then the last one comes to T1."""
    R, r, wrap, ramp = 0.25, 1e-3, s["wrap_angle_rad"], 20
    x = arc(R * 1.0002, -wrap / 2, wrap / 2, nodes)
    world = stage.world([stage.cylinder(R - r), cable(x, 1e-4 * T2, r, axial_stiffness=1e3 * max(T1, T2))], 0.01,
                        contacts={"friction": s["mu"]})
    along = np.array([math.cos(wrap / 2), 0, -math.sin(wrap / 2)])

    def pull(last):
        return [{"body": "cable", "nodes": [0], "force": (T2 * along * [-1, 1, 1]).tolist()},
                {"body": "cable", "nodes": [nodes - 1], "force": (last * along).tolist()}]

    world.step(ramp, forces=pull(T2))
    for k in range(ramp):
        world.step(forces=pull(T2 + (T1 - T2) * (k + 1) / ramp))
    world.step(40)
    before = world.x[nodes // 2].copy()
    world.step(20)
    moved = np.linalg.norm(world.x[nodes // 2] - before)
    world.end()
    return moved > 1e-4  # what slips gains speed, what holds settles


def capstan_holding(s, stage):
    T2 = s["load_N"]

    def threshold(low, high, slips_at_high):
        while high / low > 1.004:
            middle = math.sqrt(low * high)
            slips = capstan_slips(stage, s, middle, T2)
            low, high = (low, middle) if slips == slips_at_high else (middle, high)
        return math.sqrt(low * high)

    return [("least T1", threshold(T2 / 100, T2, False)), ("greatest T1", threshold(T2, 100 * T2, True))]


class Hoist:
    """Two masses on a cable of next to no mass over a fixed cylinder. Its legs leave along the tangents of the arc; there, and not down,
    their weights pull, so that any angle can be had; past half a turn the cable is a helix, as its legs would meet. At first both pull alike, until it lies on the cylinder."""

    def __init__(self, stage, s, m1, dt=1e-3, spacing=0.02):
        R, r = 0.25, 1e-3
        wrap = s["wrap_angle_rad"]
        on = max(int(round(R * wrap / spacing)), 8)
        x = arc(R * 1.0002, wrap / 2, -wrap / 2, on + 1)
        if wrap > 1.0001 * math.pi:
            x[:, 1] = np.linspace(3 * r, -3 * r, on + 1) * max(1.0, wrap / (2 * math.pi))
        legs = [15, 45]
        self.along = np.array([math.cos(wrap / 2), 0, -math.sin(wrap / 2)])
        away = self.along * [-1, 1, 1]
        first = [x[0] + self.along * spacing * i for i in range(legs[0], 0, -1)]
        last = [x[-1] + away * spacing * i for i in range(1, legs[1] + 1)]
        x = np.array([*first, *x, *last])
        masses = np.full(len(x), 1e-5)
        masses[0], masses[-1] = m1, s["m2_kg"]
        self.world = stage.world([stage.cylinder(R - r), cable(x, masses.tolist(), r, axial_stiffness=2e5)], dt,
                                 contacts={"friction": s["mu"]})
        def pulls(m1):
            return [{"body": "cable", "nodes": [node], "force": (mass * s["gravity_m_s2"] * t).tolist()}
                    for node, mass, t in ((0, m1, self.along), (-1, s["m2_kg"], away))]

        self.world.step(60, forces=pulls(s["m2_kg"]))
        self.pulls, self.start, self.since = pulls(m1), self.world.x[0], self.world.time

    def step(self, n):
        self.world.step(n, forces=self.pulls)
        return self

    def drop(self):
        return (self.world.x[0] - self.start) @ self.along

    def speed(self):
        return self.world.v[0] @ self.along


def capstan_slipping(s, stage):
    hoist = Hoist(stage, s, s["m1_kg"])
    hoist.step(int(round(s["end_time_s"] / hoist.world.dt)))
    tension = hoist.world.state("tensions")
    a = hoist.speed() / (hoist.world.time - hoist.since)
    drop = hoist.drop()
    low, high = s["m2_kg"], 100 * s["m2_kg"]
    while high / low > 1.005:
        middle = math.sqrt(low * high)
        trial = Hoist(stage, s, middle, 2e-3)  # at 5 ms the heaviest ones slide over many facets a step
        half = trial.step(75).speed()
        low, high = (low, middle) if trial.step(75).speed() > half + 1e-4 else (middle, high)  # what slips gains speed
        trial.world.end()
    return [("tension ratio", tension[0] / tension[-1]), ("acceleration of m1", a), ("drop of m1", drop),
            ("greatest m1", math.sqrt(low * high))]


def over_cylinder(stage, R, a, b, length, ea, density, g, links):
    """Fixed at (+-a, -b), let down onto the cylinder from an arch above it. Links, their tensions, contacts."""
    r = 1e-3 * R
    # An arch of two straight legs and an arc around a wider circle with the same centre, of the right length or more.
    d = math.hypot(a, b)

    def arch(radius):
        half = math.pi / 2 + math.atan2(b, a) - math.acos(radius / d)
        return half, 2 * math.sqrt(d * d - radius * radius) + 2 * radius * half

    radius = R * 1.002
    while arch(radius)[1] < length and radius < 0.98 * d:
        radius += 0.001 * R
    half, total = arch(radius)
    t = np.linspace(0, total, links + 1)
    straight, x = math.sqrt(d * d - radius * radius), []
    for at in t:
        u = at if at <= total / 2 else total - at
        if u < straight:
            touch = np.array([-radius * math.sin(half), 0, radius * math.cos(half)])
            p = np.array([-a, 0, -b]) + (touch - [-a, 0, -b]) * u / straight
        else:
            angle = half - (u - straight) / radius
            p = np.array([-radius * math.sin(angle), 0, radius * math.cos(angle)])
        x.append(p if at <= total / 2 else p * [-1, 1, 1])
    masses = np.full(links + 1, max(density * length / links, 1e-3))
    world = stage.world([stage.cylinder(R - r), cable(x, masses.tolist(), r, axial_stiffness=ea, rest_length=length / links)],
                        0.005, (0, 0, -g), constraints=[fixed([0, links])])
    world.settle(dts=(0.005, 0.02, 0.1, 1.0, 10.0), steps=200, contacts=True)
    c = world.contacts
    angle = np.arctan2(c["position"][:, 0], c["position"][:, 2])
    push = c["force"][:, None] * c["normal"]
    side = np.array([1.0 if world.bodies["cable"]["first_node"] >= 0 and n[2] > 0 else -1.0 for n in c["normal"]])
    on = c["force"] > 1e-6 * c["force"].max()
    order = np.argsort(angle[on])
    return world, angle[on][order], c["force"][on][order], (push * side[:, None])[on][order]


def density(angle, force, radius, shapes, at):
    """Force per length, a sum of shapes of the angle, fitted by what has come together up to each contact: neither the
    places of nodes nor those of facets show in it. shapes: integrals over the angle; at: (angles, shapes there)."""
    inside = np.abs(angle) < 0.85 * angle.max()
    sums = (np.cumsum(force) - force / 2)[inside]
    matrix = np.stack([np.ones(inside.sum())] + [f(angle[inside]) for f in shapes], 1)
    part = np.linalg.lstsq(matrix, sums, rcond=None)[0][1:]
    return np.array(at) @ part / radius


def taut_over_cylinder(s, stage):
    links = 2 * s["suggested_particles"]
    world, angle, force, push = over_cylinder(stage, s["radius_m"], s["a_m"], s["b_m"], s["unstretched_length_m"], s["EA_N"], 0,
                                              0, links)
    tension = world.state("tensions")
    half = (angle.max() - angle.min()) / 2
    return [("half angle", half), ("tension", tension[links // 2]),
            ("normal force per length", density(angle, force, s["radius_m"], [lambda a: a], [1.0])),
            ("total upward", push[:, 2].sum())]


def heavy_over_cylinder(s, stage):
    links = 2 * s["suggested_particles"]
    w = s["cable_kg_m"] * s["gravity_m_s2"]
    world, angle, force, push = over_cylinder(stage, s["radius_m"], s["a_m"], s["b_m"], s["length_m"], 1e4 * w * s["length_m"],
                                              s["cable_kg_m"], s["gravity_m_s2"], links)
    tension = np.array(world.state("tensions"))
    half = (angle.max() - angle.min()) / 2
    # N = T/R + w cos with T falling by w times the drop: a constant and a cosine
    push_at = density(angle, force, s["radius_m"], [lambda a: a, np.sin], [[1, 1], [1, math.cos(half)]])
    at_end = tension[0] + w * (world.x[0, 2] - world.x[1, 2]) / 2  # from the middle of the last link
    return [("end point", world.x[-1][[0, 2]]), ("half angle", half), ("tension at the top", [tension[links // 2], at_end]),
            ("normal force per length", push_at), ("total upward", push[:, 2].sum())]


def atwood_heavy_cable(s, stage, on_arc=60):
    """The cable lies on a smooth cylinder; its links are stiff, not rigid."""
    y = (s["y1_m"], s["y2_m"])
    R, r, g = s["arc_on_pulley_m"] / math.pi, 1e-3, s["gravity_m_s2"]
    spacing = s["arc_on_pulley_m"] / on_arc  # corners of links catch on facets: the finer the less
    arch = arc(R, math.pi / 2, -math.pi / 2, on_arc + 1)
    count = [int(round(k / spacing)) for k in y]
    legs = [np.arange(1, n + 1) * k / n for n, k in zip(count, y)]
    x = np.array([*(arch[0] - [0, 0, d] for d in legs[0][::-1]), *arch, *(arch[-1] - [0, 0, d] for d in legs[1])])
    x[:, 2] += 1e-5 * R
    rest = np.linalg.norm(np.diff(x, axis=0), axis=1)
    masses = np.zeros(len(x))
    masses[:-1] += s["cable_kg_m"] * rest / 2
    masses[1:] += s["cable_kg_m"] * rest / 2
    masses[0] += s["m1_kg"]
    masses[-1] += s["m2_kg"]
    ea = 1e5 * g * masses.sum()
    # Links start as long as they will be while it moves, so that nothing rings.
    start = (s["m1_kg"] - s["m2_kg"] + s["cable_kg_m"] * (y[0] - y[1])) * g / masses.sum()
    hung = np.cumsum(masses)[:-1] * (g - start)
    back = np.cumsum(masses[::-1])[:-1][::-1] * (g + start)
    on = np.arange(len(rest))
    tension = np.where(on < count[0], hung, np.where(on >= len(rest) - count[1], back, hung[count[0] - 1]))
    world = stage.world([stage.cylinder(R - r), cable(x, masses.tolist(), r, axial_stiffness=ea,
                                                      rest_length=(rest / (1 + tension / ea)).tolist())], s["dt_s"], (0, 0, -g))
    world.step(int(round(s["end_time_s"] / s["dt_s"])))
    ring = Missing("links of a cable are springs: the first instant is that of a wave in them, not of a rigid motion")
    return [("initial acceleration", ring), ("drop of m1", x[0, 2] - world.x[0, 2]), ("speed at the end", -world.v[0, 2])]


def pressurised_strip(s, stage):
    """The pressure is a load of the script's own: after every step the forces follow the shape. Steps grow until it moves in none of
    those that would bring it to rest from anywhere."""
    links, L = 200, s["span_m"]
    x = np.outer(np.linspace(0, L, links + 1), [1, 0, 0])
    mass = s["pressure_N_m"] * L / links
    slow = math.sqrt(mass * links * L / s["EA_N"])  # of the order of its slowest swing
    world = stage.world([cable(x, mass, 1e-4, axial_stiffness=s["EA_N"], rest_length=L / links)], 0.05, constraints=[fixed([0, links])])
    now, moved = x, math.inf
    for dt in (0.05, 0.2 * slow, slow, 5 * slow):
        for _ in range(200):
            side = np.cross(np.diff(now, axis=0), [0, 1, 0]) * s["pressure_N_m"]
            load = np.zeros_like(now)
            load[:-1] += side / 2
            load[1:] += side / 2
            world.step(forces=[{"body": "cable", "nodes": [i], "force": load[i].tolist()} for i in range(links + 1)], parameters={"dt": dt})
            now, moved = world.x, np.abs(world.x - now).max()
            if moved < 1e-10 * L:
                break
    if not moved < 1e-7 * L:
        raise RuntimeError(f"not at rest: it moved by {moved:.2g} m in a step of {dt:.2g} s")
    force = reactions(world)[0]
    # What holds the end also takes the half link's pressure that falls to its node.
    return [("tension", world.state("tensions")[links // 2]), ("rise of the middle", world.x[links // 2, 2]),
            ("force on each end", [abs(force[0]), abs(force[2])])]


# ---- cloth ----

def ball_of_triangles(radius, splits):
    """An icosahedron, each triangle split in four so many times, its corners on the sphere."""
    g = (1 + math.sqrt(5)) / 2
    x = [np.array(p) / math.sqrt(1 + g * g) for p in
         [(-1, g, 0), (1, g, 0), (-1, -g, 0), (1, -g, 0), (0, -1, g), (0, 1, g), (0, -1, -g), (0, 1, -g), (g, 0, -1), (g, 0, 1), (-g, 0, -1), (-g, 0, 1)]]
    triangles = [(0, 11, 5), (0, 5, 1), (0, 1, 7), (0, 7, 10), (0, 10, 11), (1, 5, 9), (5, 11, 4), (11, 10, 2), (10, 7, 6), (7, 1, 8),
                 (3, 9, 4), (3, 4, 2), (3, 2, 6), (3, 6, 8), (3, 8, 9), (4, 9, 5), (2, 4, 11), (6, 2, 10), (8, 6, 7), (9, 8, 1)]
    for _ in range(splits):
        between, finer = {}, []

        def middle(i, j):
            key = (min(i, j), max(i, j))
            if key not in between:
                p = x[i] + x[j]
                x.append(p / np.linalg.norm(p))
                between[key] = len(x) - 1
            return between[key]

        for a, b, c in triangles:
            ab, bc, ca = middle(a, b), middle(b, c), middle(c, a)
            finer += [(a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca)]
        triangles = finer
    return radius * np.array(x), np.array(triangles)


def inflated_sphere(s, stage):
    """A thin sheet round a ball, pressure as a load of the scene, brought to rest. Nothing holds it, so the momentum of the first step is
    the sum of the forces; the tension is that of how much its triangles grew."""
    R, t, E, nu, p = s["radius_m"], s["thickness_m"], s["young_Pa"], s["poisson"], s["pressure_Pa"]
    x, triangles = ball_of_triangles(R, 3)
    mass = 0.1 * 4 * math.pi * R * R / len(x)
    dt = 100 * R * math.sqrt(0.1 * (1 - nu) / (2 * E * t))  # far above its breathing: a step or two damps all
    sheet = {"kind": "cloth", "name": "sheet", "mesh": stage.mesh(x, triangles), "mass": [mass] * len(x), "radius": R / 200, "young": E,
             "poisson": nu, "thickness": t, "bending_rigidity": 0}
    world = stage.world([sheet], dt, loads=[{"kind": "pressure", "body": "sheet", "pressure": p}]).step()
    force = mass * world.v.sum(0) / world.dt
    world.step(10)
    rise = np.linalg.norm(world.x - world.x.mean(0), axis=1).mean() - np.linalg.norm(x, axis=1).mean()
    def area(of):
        return np.linalg.norm(np.cross(of[triangles[:, 1]] - of[triangles[:, 0]], of[triangles[:, 2]] - of[triangles[:, 0]]), axis=1) / 2

    before = area(x)
    tension = np.average(E * t / (1 - nu) * (np.sqrt(area(world.x) / before) - 1), weights=before)
    return [("rise of the radius", rise), ("membrane tension", tension), ("sum of the pressure forces", force)]


def grid(columns, rows):
    """Triangles of a grid of vertices, number j columns + i, and its edges in the engine's order."""
    triangles = []
    for j in range(rows - 1):
        for i in range(columns - 1):
            v = j * columns + i
            triangles += [[v, v + 1, v + columns + 1], [v, v + columns + 1, v + columns]]
    edges = sorted({tuple(sorted(e)) for t in triangles for e in ((t[0], t[1]), (t[1], t[2]), (t[2], t[0]))})
    return np.array(triangles), np.array(edges)


def hanging_sheet(s, stage):
    columns, rows, m, k, g = s["columns"], s["links_per_column"] + 1, s["particle_mass_kg"], s["stiffness_N_m"], s["gravity_m_s2"]
    triangles, edges = grid(columns, rows)
    x = np.array([[s["spacing_m"] * i, 0, -s["spacing_m"] * j] for j in range(rows) for i in range(columns)])
    straight = np.isin(edges[:, 1] - edges[:, 0], (1, columns))
    sheet = {"kind": "cloth", "name": "sheet", "mesh": stage.mesh(x, triangles), "mass": [m] * len(x), "radius": 1e-3,
             "stiffness": np.where(straight, k, 1e-12 * k).tolist()}
    world = stage.world([sheet], 0.01, (0, 0, -g), constraints=[fixed(range(columns), "sheet")]).settle()
    tension = np.array(world.state("tensions"))[:len(edges)]
    top = tension[np.flatnonzero((edges[:, 0] == columns // 2) & (edges[:, 1] == columns // 2 + columns))]
    return [("drop of the lowest row", worst_of(x[-columns:, 2] - world.x[-columns:, 2])),
            ("force on the fixed row", sum(f[2] for f in reactions(world).values())), ("tension of the top", top)]


def worst_of(values):
    return values[np.argmax(np.abs(values - np.median(values)))]


def cloth_strip(s, stage):
    links, across = 60, 13
    L, W, span = s["length_m"], s["width_m"], s["span_m"]
    triangles, edges = grid(links + 1, across)
    flat = np.array([[L * i / links, W * j / (across - 1), 0] for j in range(across) for i in range(links + 1)])
    line = two_legs((0, 0, 0), (span, 0, 0), L, links)
    start = np.array([[line[i, 0], W * j / (across - 1), line[i, 2]] for j in range(across) for i in range(links + 1)])
    weight = s["area_density_kg_m2"] * L * W * s["gravity_m_s2"]
    strip = {"kind": "cloth", "name": "strip", "mesh": stage.mesh(flat, triangles), "nodes": start.tolist(),
             "area_density": s["area_density_kg_m2"], "membrane_stiffness": 3e3 * weight / W, "radius": 1e-4}
    ends = [j * (links + 1) + i for i in (0, links) for j in range(across)]
    world = stage.world([strip], 0.01, (0, 0, -s["gravity_m_s2"]), constraints=[fixed(ends, "strip")])
    world.settle(dts=(0.01, 0.05, 0.2, 1.0), steps=40, speed=1e-9)
    force = reactions(world)
    bar = sum(force[node] for node in ends[:across])
    middle = world.x.reshape(across, links + 1, 3)[across // 2, links // 2, 2]
    return [("sag of the middle", -middle), ("force on each bar", [abs(bar[0]), bar[2]])]


def cloth_on_cylinder(s, stage):
    """Let down from just above, with some bending, so that its ends do not flap, and friction enough to stay. Where its
    contacts go on changing by turns (nodes at mm/s) the forces are means over the last second."""
    n, side, R, r, g = 9, s["cloth_side_m"], s["cylinder_radius_m"], 1e-3, s["gravity_m_s2"]
    triangles, _ = grid(n, n)
    at = np.linspace(-side / 2, side / 2, n)
    x = np.array([[a, b, R + 2 * r] for b in at for a in at])
    weight = s["area_density_kg_m2"] * side ** 2 * g
    cloth = {"kind": "cloth", "name": "cloth", "mesh": stage.mesh(x, triangles), "radius": r,
             "area_density": s["area_density_kg_m2"], "membrane_stiffness": 100 * weight / side,
             "bending_stiffness": 4 * weight / side}
    world = stage.world([stage.cylinder(R, 60), cloth], 0.01, (0, 0, -g), contacts={"friction": 0.3})
    world.step(60)
    forces = []
    for _ in range(200):
        world.step(contacts=True)
        forces.append(support_forces(world, "cylinder"))
        if np.abs(world.v).max() < 1e-9:
            return forces[-1]
    if np.abs(world.v).max() > 0.01:
        raise RuntimeError(f"not at rest: {np.abs(world.v).max():.2g} m/s")
    return [(name, np.mean([f[i][1] for f in forces[-100:]], axis=0)) for i, (name, _) in enumerate(forces[0])]


def pile(s, stage):
    """Balls without spin (particles with a radius) in an open box of static triangles."""
    r, masses, g, dt = 0.05, s["masses_kg"], s["gravity_m_s2"], 0.005
    half, high = 0.2, 1.5
    v = np.array([[sx * half, sy * half, z] for z in (0, high) for sx, sy in ((-1, -1), (1, -1), (1, 1), (-1, 1))])
    t = [[0, 1, 2], [0, 2, 3]]
    for i in range(4):
        j = (i + 1) % 4
        t += [[i, j, j + 4], [i, j + 4, i + 4]]
    rng = np.random.default_rng(1)
    bodies = [{"kind": "static", "name": "pan", "mesh": stage.mesh(v, t)}]
    for i, m in enumerate(masses):
        place = np.array([i % 3 - 1, i // 3 % 3 - 1, 0]) * 0.13 + [0, 0, 0.1 + 0.13 * (i // 9)]
        bodies.append(particle(m, place + 0.025 * (rng.random(3) - 0.5), radius=r, name=f"ball{i}"))
    world = stage.world(bodies, dt, (0, 0, -g), contacts={"friction": 0.5})
    impulse, steps = 0.0, 0
    while steps < 4000:
        world.step(contacts=True)
        steps += 1
        impulse += dt * support_forces(world, "pan")[0][1]
        if steps % 20 == 0 and np.abs(world.v).max() < 1e-7:
            break
    forces = support_forces(world, "pan")
    return [*forces, ("mean vertical", impulse / (steps * dt))]


def support_forces(world, name):
    """Force of contacts on a static body: vertical, and horizontal."""
    c, number = world.contacts, list(world.bodies).index(name)
    total = np.zeros(3)
    for bodies, push, normal, rub in zip(c["bodies"], c["force"], c["normal"], c["friction"]):
        if number in bodies:
            total += (push * normal + rub) * (1 if bodies[0] == number else -1)
    return [("total vertical", -total[2]), ("total horizontal", total[:2])]


KINDS = {
    "pile": pile, "cloth_on_cylinder": cloth_on_cylinder, "atwood_heavy_cable": atwood_heavy_cable, "pressurised_strip": pressurised_strip,
    "inflated_sphere": inflated_sphere,
    "tow": tow, "capstan_holding": capstan_holding, "capstan_slipping": capstan_slipping,
    "taut_over_cylinder": taut_over_cylinder, "heavy_over_cylinder": heavy_over_cylinder, "hanging_sheet": hanging_sheet,
    "cloth_strip": cloth_strip,
    "free_fall": free_fall, "projectile": projectile, "spring": spring, "spring_continuum": spring_continuum,
    "two_particle_spring": two_particle_spring, "chain_modes": chain_modes,
    "atwood": atwood, "damped_spring": damped_spring, "linear_drag": linear_drag,
    "double_pendulum": double_pendulum, "catenary": catenary, "elastic_catenary": elastic_catenary,
    "catenary_chain": catenary_chain, "hanging_cable": hanging_cable, "strain_limit_static": strain_limit_static,
    "incline_stick": incline_stick, "incline_slip": incline_slip, "stopping": stopping, "bouncing": bouncing,
}
