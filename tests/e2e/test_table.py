"""What the server answers is what the method table says: no result without a line in it, at any depth.

The table is what rpc.describe gives (and docs/protocol.md is made from). A key of a result must be a result of its
method; a key of a map inside must be named in the text of that result.
"""

import re
import time
import unittest

import numpy

from support import Client, Daemon, RpcError, cable, encode_array, sheet

# Maps whose keys are not the table's: what a client sent, or names of another list.
FREE = {("world.describe", "scene"), ("run.describe", "scene"), ("run.describe", "versions"),
        ("run.diagnostics", "columns"), ("hello", "limits")}
SAME_AS = {"contacts": ("world.step", "contacts")}


class Table(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon().start()
        cls.client = Client(cls.daemon)
        cls.table = cls.client.call("rpc.describe")
        cls.results = {m["name"]: {r["name"]: r for r in m["results"]} for m in cls.table["methods"]}
        cls.fields = {f["name"] for f in cls.table["step_fields"]}
        cls.seen = {name: set() for name in cls.results}

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.daemon.remove()

    def named(self, method, key):
        doc = self.results[method][key]["doc"]
        if re.search(r"[Aa]s in world\.step", doc):
            doc = self.results["world.step"][key]["doc"]
        return set(re.findall(r"\w+", doc))

    def inside(self, method, key, value):
        """Keys of maps inside a result that its text does not name."""
        if isinstance(value, list):
            for item in value:
                self.inside(method, key, item)
        elif isinstance(value, dict):
            names = self.named(method, key) | {k for k in value if k in self.fields}
            self.assertEqual(set(value) - names, set(), f"{method}: inside {key}")
            for item in value.values():
                self.inside(method, key, item)

    def check(self, method, result):
        known = self.results[method]
        self.assertEqual(set(result) - set(known), set(), f"{method} answers what its table lacks")
        missing = {k for k, r in known.items() if r["required"]} - set(result)
        self.assertEqual(missing, set(), f"{method} lacks what its table promises")
        for key, value in result.items():
            self.seen[method].add(key)
            if (method, key) not in FREE and method != "rpc.describe":
                self.inside(method, key, value)
        return result

    def call(self, method, **params):
        return self.check(method, self.client.call(method, **params))

    def test_every_result_is_in_the_table(self):
        self.call("hello", client="test")
        self.call("rpc.describe")
        vertices, elements = sheet(y=-0.05)
        mesh = self.call("mesh.upload", vertices=encode_array(vertices),
                         elements=encode_array(elements), name="floor")["sha256"]
        data = b"QPM1" + bytes(8)
        self.call("mesh.upload", sha256="ab" * 32, size=1000, offset=0, data=data)
        self.call("mesh.list")
        self.call("mesh.get", sha256=mesh)
        self.assertTrue(self.call("mesh.check", sha256=mesh, use="rigid")["errors"])
        self.assertTrue(self.call("mesh.check", sha256=mesh)["warnings"])
        scene = cable(count=6, name="all", start="push-out")
        scene["bodies"][0]["nodes"] = [[0.1 * i - 0.25, -0.045, 0.05] for i in range(6)]
        scene["bodies"].append({"kind": "static", "name": "floor", "mesh": {"sha256": mesh}})
        scene["constraints"] = [{"kind": "fixed", "body": "c", "nodes": [0]},
                                {"kind": "strain-limit", "body": "c", "max": 1.05}]
        scene["constraints"][0]["nodes"] = []
        scene["bodies"].append({"kind": "cable", "name": "d", "nodes": [[0, 1, 0], [0.1, 1, 0]],
                                "mass": 1.0, "stiffness": 100.0, "radius": 0.01})
        scene["constraints"][0] = {"kind": "fixed", "body": "d", "nodes": [0]}
        scene["constraints"].append({"kind": "attach", "points": [{"body": "d", "node": 1}, {"at": [0.1, 1, 0]}]})
        self.call("world.create", scene=scene, dry_run=True)
        self.assertTrue(self.call("scene.check", scene=scene)["bodies"])
        self.assertTrue(self.call("scene.check", scene={**scene, "dt": -1})["errors"])
        made = self.call("world.create", scene=scene, exclusive=True)
        world, run = made["world"], made["run"]
        self.assertGreater(made["moved_nodes"], 0)
        self.call("world.list")
        self.call("world.describe", world=world)
        self.call("world.control", world=world,
                  control={"forces": [{"body": "c", "force": [0, -1, 0]}]})
        reply = self.call("world.step", world=world, n=30, positions=True, velocities=True,
                          contacts=True)
        self.assertTrue(len(reply["contacts"]["key"]))
        fields = ["positions", "velocities", "tensions", "contacts", "reactions", "limit_forces",
                  "conflicts", "joints", "diagnostics"]
        self.call("world.state", world=world, fields=fields)
        self.call("world.cancel", world=world)
        subscription = self.call("world.subscribe", world=world, fields=fields, credit=1,
                                 max_queue=1, policy="drop-oldest")["subscription"]
        self.client.call("world.step", world=world, n=5)
        frame = self.client.notification("frame")
        known = self.results["world.state"]
        extra = {"subscription", "world", "dropped"}
        self.assertEqual(set(frame) - set(known) - extra, set(), "a frame")
        self.call("world.credit", subscription=subscription, add=1)
        deadline = time.monotonic() + 10
        while self.call("server.stats")["frames_dropped"] == 0:  # while the subscription lives
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        dropped = self.call("world.unsubscribe", subscription=subscription)["dropped"]
        self.assertEqual(self.call("server.stats")["frames_dropped"], dropped)  # counted once
        for method in ("run.describe", "run.frames", "run.diagnostics"):
            self.call(method, run=run)
        self.call("run.details", run=run, step=30)
        self.call("run.events", run=run)
        self.call("run.list")
        with self.assertRaises(RpcError):
            self.client.call("mesh.delete", sha256=mesh)
        self.call("world.destroy", world=world)
        self.call("mesh.delete", sha256=mesh)
        self.call("server.drain")
        allowed_missing = {("world.destroy", "recording")}
        unseen = {(m, k) for m, rs in self.results.items() for k in rs if k not in self.seen[m]}
        self.assertEqual(unseen - allowed_missing, set(), "results that the table has and nobody gives")


if __name__ == "__main__":
    unittest.main()
