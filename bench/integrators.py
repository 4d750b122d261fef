#!/usr/bin/env python3
"""Integrators through the real engine: order in dt, energy, and the orders that tests/data/physics states.

    bench/integrators.py [--build build-rel] [--csv FILE] [--svg FILE] [order] [energy] [oracles]

order: errors of every integrator at dt, dt/2, dt/4, dt/8 against closed forms, and their ratios (2^order).
energy: (E - E0 - W) / scale over time of an oscillator, a pendulum and a swinging cable, as an SVG.
oracles: the results of tests/data/physics whose error is said to be of first order in dt.
Standard library and numpy; starts a qpcollided of its own.
"""

import argparse
import contextlib
import csv
import json
import math
import os
import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(SOURCE / part) for part in ("client/python", "tests/support", "tests/oracle")]

import numpy as np  # noqa: E402

import wire  # noqa: E402

INTEGRATORS = ["implicit-euler", "symplectic-euler", "implicit-midpoint", "rk4"]
COLOURS = ["#b2182b", "#2166ac", "#1b7837", "#762a83"]
GRAVITY = 9.81
OWN_DT = {"bouncing": 1e-3, "billiard": 1e-3, "physical_pendulum": 1e-3, "torque_free_symmetric": 1e-3, "top_steady": 1e-4}  # of scenarios that state none, s


def scene(integrator, dt, bodies, fixed=(), gravity=(0, 0, -GRAVITY), **more):
    constraints = [{"kind": "fixed", "body": 0, "nodes": list(fixed)}] if fixed else []
    return {"dt": dt, "gravity": list(gravity), "integrator": integrator, "bodies": bodies, "constraints": constraints,
            "solver": {"newton": 50}, **more}


def cable(nodes, **keys):
    return {"kind": "cable", "nodes": nodes, "mass": 1, "stiffness": 100, "radius": 0.01, **keys}


@contextlib.contextmanager
def world_of(client, description):
    world = client.create_world(description)
    try:
        yield world
    finally:
        world.destroy()


def run(client, description, seconds):
    """Positions and velocities at the end."""
    with world_of(client, description) as world:
        steps = round(seconds / description["dt"])
        reply = world.step(steps)
        assert reply["status"] == "ok", reply
        return world.state("positions", "velocities", precision="float64")


# ---- order in dt ----

def oscillator(integrator, dt):
    """x0 = 0.1, at rest, k = 100, m = 1, fixed at -1 with rest length 1."""
    body = cable([[-1, 0, 0], [0.1, 0, 0]], rest_length=1)
    return scene(integrator, dt, [body], [0], (0, 0, 0))


def elastic_pendulum(integrator, dt):
    """A unit mass on a spring of 1 m and 100 N/m, from the horizontal."""
    return scene(integrator, dt, [cable([[0, 0, 0], [1, 0, 0]])], [0])


def chain(integrator, dt):
    """Four masses of 0.2 kg on springs of 0.25 m and 400 N/m, from the horizontal."""
    return scene(integrator, dt, [cable([[0.25 * i, 0, 0] for i in range(5)], mass=0.2, stiffness=400)], [0])


def swing(count, length, mass, stiffness, seconds):
    """Springs in a row from the horizontal, the first node fixed: the reference, by RK4 at 1e-4 s in numpy."""
    x, v, h = np.array([[length * i, 0.0] for i in range(count + 1)]), np.zeros((count + 1, 2)), 1e-4

    def acceleration(x):
        d = np.diff(x, axis=0)
        l = np.linalg.norm(d, axis=1)[:, None]
        pull = stiffness * (l - length) * d / l
        a = np.zeros_like(x)
        a[:-1] += pull / mass
        a[1:] -= pull / mass
        a[:, 1] -= GRAVITY
        a[0] = 0
        return a

    for _ in range(round(seconds / h)):
        a1 = acceleration(x)
        a2 = acceleration(x + h / 2 * v)
        a3 = acceleration(x + h / 2 * v + h * h / 4 * a1)
        a4 = acceleration(x + h * v + h * h / 2 * a2)
        x, v = x + h * v + h * h / 6 * (a1 + a2 + a3), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
    return x[-1]


def orders(client, out):
    cases = [("oscillator", oscillator, lambda s: s["positions"][1][0] - 0.1 * math.cos(10.0), 1.0, 0.01),
             ("elastic pendulum", elastic_pendulum,
              lambda s, e=swing(1, 1.0, 1.0, 100.0, 1.0): np.linalg.norm(s["positions"][1][[0, 2]] - e), 1.0, 0.01),
             ("chain of four", chain,
              lambda s, e=swing(4, 0.25, 0.2, 400.0, 0.4): np.linalg.norm(s["positions"][4][[0, 2]] - e), 0.4, 0.004)]
    for name, make, error, seconds, dt in cases:
        for integrator in INTEGRATORS:
            errors = [abs(error(run(client, make(integrator, dt / 2**k), seconds))) for k in range(4)]
            report(out, "order", name, integrator, dt, errors)


def report(out, kind, name, what, dt, errors, stated=""):
    ratios = [a / b if b > 0 else math.nan for a, b in zip(errors, errors[1:])]
    print(f"{kind:8} {name:34} {what:18} dt {dt:<8g} errors {' '.join(f'{e:9.2e}' for e in errors)}"
          f"  ratios {' '.join(f'{r:6.2f}' for r in ratios)} {stated}")
    out.append({"kind": kind, "case": name, "what": what, "dt": dt, "stated": stated,
                **{f"error_{k}": f"{e:.4g}" for k, e in enumerate(errors)},
                **{f"ratio_{k}": f"{r:.4g}" for k, r in enumerate(ratios)}})


# ---- energy ----

def swinging_cable(integrator, dt):
    return scene(integrator, dt, [cable([[0.035 * i, 0, -0.035 * i] for i in range(21)], mass=0.05, stiffness=2000, radius=0.002)], [0])


def energies(client, out, svg):
    panels = []
    for name, make, dt, seconds in [("oscillator, k = 100 N/m, m = 1 kg, dt = 10 ms", oscillator, 0.01, 10.0),
                                    ("elastic pendulum, dt = 10 ms", elastic_pendulum, 0.01, 10.0),
                                    ("cable of 20 springs from 45 degrees, dt = 2 ms", swinging_cable, 0.002, 4.0)]:
        curves = []
        for integrator in INTEGRATORS:
            with world_of(client, make(integrator, dt)) as world:
                rows = []
                for _ in range(200):
                    world.step(round(seconds / dt / 200))
                    d = world.state("diagnostics")["diagnostics"]
                    rows.append((d["time"], d["energy_drift"]))
            curves.append(rows)
            drift = [r[1] for r in rows]
            print(f"energy   {name:52} {integrator:18} end {drift[-1]:10.2e}  least {min(drift):10.2e}  most {max(drift):10.2e}")
            out.append({"kind": "energy", "case": name, "what": integrator, "dt": dt, "error_0": f"{drift[-1]:.4g}",
                        "error_1": f"{min(drift):.4g}", "error_2": f"{max(drift):.4g}"})
        panels.append((name, curves))
    if svg:
        pathlib.Path(svg).write_text(plot(panels))


def plot(panels):
    """Drift over time, a panel a case; the range of a panel is that of its curves, cut to [-1, 0.5]."""
    width, height, left, top = 720, 190, 70, 30
    text = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{len(panels) * (height + 60) + 30}" '
            'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>']
    for i, (name, curves) in enumerate(panels):
        y0 = top + i * (height + 60)
        values = [min(max(e, -1.0), 0.5) for rows in curves for _, e in rows]
        low, high, end = min(values + [-0.01]), max(values + [0.01]), curves[0][-1][0]
        low, high = low - 0.05 * (high - low), high + 0.05 * (high - low)

        def place(t, e):
            return (left + t / end * (width - left - 20), y0 + (high - min(max(e, low), high)) / (high - low) * height)

        text.append(f'<text x="{left}" y="{y0 - 8}">{name}: (E - E0 - W) / scale over time, s</text>')
        text.append(f'<rect x="{left}" y="{y0}" width="{width - left - 20}" height="{height}" fill="none" stroke="#888"/>')
        for e in (low, 0.0, high):
            x, y = place(0, e)
            text.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{width - 20}" y2="{y:.1f}" stroke="#ccc"/>'
                        f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{e:.3f}</text>')
        text.append(f'<text x="{width - 20}" y="{y0 + height + 16}" text-anchor="end">{end:g}</text>')
        for rows, colour in zip(curves, COLOURS):
            points = " ".join("%.1f,%.1f" % place(t, e) for t, e in rows)
            text.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    for k, (integrator, colour) in enumerate(zip(INTEGRATORS, COLOURS)):
        text.append(f'<text x="{left + 160 * k}" y="{len(panels) * (height + 60) + 20}" fill="{colour}">{integrator}</text>')
    return "\n".join(text + ["</svg>", ""])


# ---- what the oracles say of their order ----

def shortened(setup, part):
    """The same to the same time in steps shorter by that."""
    scaled = dict(setup, dt_s=setup["dt_s"] / part)
    if "steps" in setup:
        scaled["steps"] = setup["steps"] * part
    return scaled


def bouncing(s, stage):
    """The times of the impacts and the first impulse, a step resolving none of them."""
    r, g, dt = 1e-3, s["gravity_m_s2"], s["dt_s"]
    ball = {"kind": "cable", "name": "ball", "nodes": [[0.3, 0.1, s["h0_m"] + r]], "mass": 1.0, "radius": r}
    world = stage.world([stage.floor(), ball], dt, (0, 0, -g), contacts={"restitution": s["restitution"]})
    times, before, impulse = [], 0.0, None
    while len(times) < s["bounces"]:
        world.step()
        v = world.v[0, 2]
        if before < -2 * g * dt and v >= 0:
            impulse = impulse or v - before + g * dt
            times.append(world.time)
        before = v
    return [("times of the impacts", times), ("impulse of the first", impulse)]


def oracles(out):
    """Every scenario with results of first order in dt whose scene takes its dt from the file: errors at dt to dt/8."""
    import physics_bodies  # which daemon it starts is known by now
    import physics_scenes

    class Stage(physics_scenes.Stage):
        integrator = INTEGRATORS[0]

        def world(self, bodies, dt, gravity=(0, 0, 0), **more):
            return super().world(bodies, dt, gravity, **{**more, "integrator": self.integrator})

    for path in sorted((SOURCE / "tests" / "data" / "physics").glob("*.json")):
        data = json.loads(path.read_text())
        stated = [r for r in data["results"] if "first order in dt" in r["convergence"]]
        setup = {**({"dt_s": OWN_DT[data["kind"]]} if data["kind"] in OWN_DT else {}), **data["setup"]}
        run_scene = {**physics_scenes.KINDS, **physics_bodies.KINDS, "bouncing": bouncing}.get(data["kind"])
        if not stated or run_scene is None or "dt_s" not in setup:
            if stated:
                print(f"oracle   {path.stem}: left out, {'no scene poses it' if run_scene is None else 'its scene sets dt itself'}")
            continue
        for integrator in ("implicit-euler", "implicit-midpoint"):
            got = []
            for k in range(4):
                with Stage() as stage:
                    stage.integrator = integrator
                    try:
                        got.append(run_scene(shortened(setup, 2**k), stage))
                    except wire.RpcError as refused:  # a scene that this integrator has no answer to
                        print(f"oracle   {path.stem}: left out with {integrator}, {refused}")
                        break
            for r in stated if len(got) == 4 else ():
                errors = [distance(values, r) for values in got]
                if None not in errors:
                    report(out, "oracle", f"{path.stem}: {r['quantity']}", integrator, setup["dt_s"], errors, "stated: first order in dt")


def distance(values, result):
    value = next((v for start, v in values if result["quantity"].startswith(start)), None)
    if value is None:
        return None  # not got
    try:
        return float(np.abs(np.asarray(value, float).ravel() - np.asarray(result["value"], float).ravel()).max())
    except (TypeError, ValueError):
        return None  # of another form


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build-rel")
    parser.add_argument("--csv")
    parser.add_argument("--svg")
    parser.add_argument("what", nargs="*", default=[])
    args = parser.parse_args()
    os.environ["QPC_BUILD"] = str(pathlib.Path(args.build).resolve())
    from daemon import Daemon
    import qpcollide
    out = []
    with Daemon() as daemon, qpcollide.connect(daemon.server) as client:
        if not args.what or "order" in args.what: orders(client, out)
        if not args.what or "energy" in args.what: energies(client, out, args.svg)
    if not args.what or "oracles" in args.what: oracles(out)
    if args.csv:
        with open(args.csv, "w", newline="") as file:
            keys = ["kind", "case", "what", "dt", *(f"error_{k}" for k in range(4)), *(f"ratio_{k}" for k in range(3)), "stated"]
            writer = csv.DictWriter(file, keys, lineterminator="\n")
            writer.writeheader()
            writer.writerows(out)


if __name__ == "__main__":
    main()
