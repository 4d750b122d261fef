"""Worlds over the wire: create, step, state, control, cancel, destroy, and what goes wrong."""

import threading
import time
import unittest

import numpy

from support import Client, Daemon, RpcError, cable, encode_array, particle, sheet


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--workers", "2").start()

    @classmethod
    def tearDownClass(cls):
        try:
            cls.daemon.stop()
        finally:
            cls.daemon.remove()

    def setUp(self):
        self.client = Client(self.daemon)
        self.addCleanup(self.client.close)

    def make(self, scene=None, **more):
        return self.client.call("world.create", scene=scene or particle(), **more)["world"]

    def fails(self, name, method, **params):
        with self.assertRaises(RpcError) as caught:
            self.client.call(method, **params)
        self.assertEqual(caught.exception.name, name, caught.exception.message)
        return caught.exception


class Basics(Case):
    def test_hello_tells_version_limits_and_session(self):
        hello = self.client.call("hello", client="test 1.0", role="bulk", version=1)
        self.assertEqual((hello["server"], hello["protocol"]), ("qpcollided", 1))
        self.assertEqual(hello["limits"]["max_message_bytes"], 64 << 20)
        self.assertGreater(hello["session"], 0)

    def test_an_unknown_version_is_unsupported(self):
        self.fails("UNSUPPORTED", "hello", version=2)

    def test_describe_names_every_method_and_step_field(self):
        table = self.client.call("rpc.describe")
        names = {method["name"] for method in table["methods"]}
        self.assertIn("world.step", names)
        self.assertEqual(len(names), len(table["methods"]))
        fields = {field["name"] for field in table["step_fields"]}
        world = self.make()
        last = self.client.call("world.step", world=world)["summary"]["last"]
        self.assertEqual(fields, set(last))

    def test_a_misspelt_method_names_the_nearest(self):
        self.assertIn("world.step", self.fails("UNKNOWN_METHOD", "world.stepp").message)

    def test_a_misspelt_parameter_names_the_nearest(self):
        error = self.fails("INVALID", "world.step", wrld=1)
        self.assertIn("world", error.message)

    def test_free_fall_is_implicit_euler(self):
        world = self.make(particle(dt=0.01, gravity=[0, -10, 0]))
        reply = self.client.call("world.step", world=world, n=10, positions=True, velocities=True,
                                 precision="float64")
        self.assertEqual((reply["reached"], reply["status"], reply["error"]), (10, "ok", None))
        self.assertAlmostEqual(reply["positions"][0, 1], -10 * 1e-4 * 55, delta=1e-12)
        self.assertAlmostEqual(reply["velocities"][0, 1], -1.0, delta=1e-12)
        self.assertAlmostEqual(reply["time"], 0.1, delta=1e-12)

    def test_arrays_are_float32_unless_asked_otherwise(self):
        world = self.make(cable())
        reply = self.client.call("world.step", world=world, positions=True, contacts=True)
        self.assertEqual(reply["positions"].dtype, numpy.dtype("<f4"))
        self.assertEqual(reply["positions"].shape, (20, 3))
        self.assertEqual(reply["contacts"]["bodies"].shape, (0, 2))

    def test_bin_keys_are_what_msgpack_numpy_reads(self):
        self.client.call("hello", array_keys="bin")
        world = self.make(cable())
        self.client.unpacker = __import__("msgpack").Unpacker(raw=False, strict_map_key=False)
        reply = self.client.call("world.state", world=world)
        self.assertEqual(set(reply["positions"]), {b"nd", b"type", b"kind", b"shape", b"data"})

    def test_the_summary_adds_up(self):
        world = self.make(cable())
        reply = self.client.call("world.step", world=world, n=25)
        summary = reply["summary"]
        self.assertEqual(summary["steps"], 25)
        self.assertEqual(summary["last"]["step"], 25)
        self.assertEqual(summary["last"]["hash"] % 2**64, reply["hash"])
        self.assertGreaterEqual(summary["wall_s"], summary["last"]["ns_wall"] * 1e-9)
        self.assertEqual(set(summary["worst"]), {"stat", "prim", "dual", "comp", "natural_ratio",
                                                 "penetration", "friction_natural"})

    def test_state_has_the_fields_asked_for(self):
        world = self.make(cable())
        self.client.call("world.step", world=world, n=3)
        state = self.client.call("world.state", world=world, precision="float64", fields=[
            "positions", "velocities", "tensions", "contacts", "reactions", "diagnostics"])
        self.assertEqual(state["step"], 3)
        self.assertEqual(state["tensions"].shape, (19,))
        self.assertEqual(state["reactions"]["node"].tolist(), [0])
        self.assertEqual(state["diagnostics"]["step"], 3)
        one = self.client.call("world.state", world=world, body="c")
        self.assertEqual(one["positions"].shape, (20, 3))
        self.fails("NOT_FOUND", "world.state", world=world, body="d")
        self.fails("INVALID", "world.state", world=world, fields=["position"])

    def test_describe_and_list_show_the_world(self):
        world = self.make(cable(name="hanging"), name="label")
        described = self.client.call("world.describe", world=world)
        self.assertEqual(described["name"], "label")
        self.assertEqual(described["bodies"][0]["node_count"], 20)
        self.assertEqual(described["scene"]["name"], "hanging")
        self.assertGreater(described["memory_bytes"], 1000)
        listed = {entry["world"]: entry for entry in self.client.call("world.list")["worlds"]}
        self.assertEqual(listed[world]["name"], "label")
        self.assertEqual(listed[world]["run"], described["run"])


class Hashes(Case):
    def test_batches_and_single_steps_give_the_same_chain(self):
        one, two = self.make(cable()), self.make(cable())
        batch = self.client.call("world.step", world=one, n=40)["hash"]
        for _ in range(40):
            single = self.client.call("world.step", world=two)["hash"]
        self.assertEqual(batch, single)

    def test_recording_changes_no_bit(self):
        plain = self.make(cable(record={"enabled": False}))
        recorded = self.make(cable(record={"precision": "float64", "substeps": True}))
        self.assertEqual(self.client.call("world.step", world=plain, n=40)["hash"],
                         self.client.call("world.step", world=recorded, n=40)["hash"])

    def test_worker_counts_change_no_bit(self):
        hashes = []
        for workers in ("1", "2", "4"):
            with Daemon("--workers", workers) as daemon, Client(daemon) as client:
                worlds = [client.call("world.create", scene=cable())["world"] for _ in range(4)]
                asked = [client.request("world.step", {"world": w, "n": 100}) for w in worlds]
                hashes.append({client.result(ident)["hash"] for ident in asked})
        self.assertEqual(len(hashes[0]), 1)
        self.assertEqual(hashes[0], hashes[1])
        self.assertEqual(hashes[0], hashes[2])


class Order(Case):
    def test_requests_of_one_world_run_in_order(self):
        world = self.make()
        asked = [self.client.request("world.step", {"world": world, "n": n}) for n in (5, 1, 7, 2)]
        self.assertEqual([self.client.result(ident)["reached"] for ident in asked], [5, 6, 13, 15])

    def test_expect_step_protects(self):
        world = self.make()
        self.client.call("world.step", world=world, n=2, expect_step=0)
        error = self.fails("STATE", "world.step", world=world, expect_step=0)
        self.assertEqual(error.data, {"step": 2})
        self.assertEqual(self.client.call("world.state", world=world)["step"], 2)

    def test_a_key_never_steps_twice(self):
        world = self.make()
        first = self.client.call("world.step", world=world, n=3, key="a", positions=True,
                                 expect_step=0)
        again = self.client.call("world.step", world=world, n=3, key="a", positions=True,
                                 expect_step=0)
        numpy.testing.assert_equal(first, again)
        self.assertEqual(self.client.call("world.state", world=world)["step"], 3)
        self.fails("INVALID", "world.step", world=world, n=4, key="a")

    def test_the_last_256_keys_are_kept(self):
        world = self.make()
        for i in range(300):
            self.client.call("world.step", world=world, key=f"k{i}")
        self.assertEqual(self.client.call("world.step", world=world, key="k44")["reached"], 45)
        self.assertEqual(self.client.call("world.step", world=world, key="k43")["reached"], 301)

    def test_a_retry_while_the_batch_runs_waits_for_its_reply(self):
        world = self.make(cable(count=100))
        with Client(self.daemon) as other:
            first = self.client.request("world.step", {"world": world, "n": 2000, "key": "x"})
            second = other.request("world.step", {"world": world, "n": 2000, "key": "x"})
            a, b = self.client.result(first), other.result(second)
        self.assertEqual(a["reached"], 2000)
        self.assertEqual(a["hash"], b["hash"])

    def test_cancel_stops_between_steps(self):
        world = self.make()
        batch = self.client.request("world.step", {"world": world, "n": 1000000000})
        waiting = self.client.request("world.step", {"world": world, "n": 1000})
        time.sleep(0.1)
        self.assertTrue(self.client.call("world.cancel", world=world)["cancelled"])
        reply = self.client.result(batch)
        self.assertEqual(reply["status"], "cancelled")
        self.assertGreater(reply["reached"], 0)
        after = self.client.result(waiting)
        self.assertEqual((after["status"], after["reached"]), ("cancelled", reply["reached"]))
        self.assertFalse(self.client.call("world.cancel", world=world)["cancelled"])
        self.assertEqual(self.client.call("world.step", world=world)["status"], "ok")

    def test_a_deadline_stops_between_steps(self):
        world = self.make()
        begin = time.monotonic()
        reply = self.client.call("world.step", world=world, n=1000000000, deadline_ms=100)
        self.assertEqual(reply["status"], "deadline")
        self.assertLess(time.monotonic() - begin, 5)

    def test_state_never_waits_for_a_batch(self):
        world = self.make()
        batch = self.client.request("world.step", {"world": world, "n": 1000000000})
        steps = set()
        for _ in range(20):
            begin = time.monotonic()
            steps.add(self.client.call("world.state", world=world)["step"])
            self.assertLess(time.monotonic() - begin, 2)
            time.sleep(0.02)
        self.assertGreater(len(steps), 2)
        self.client.call("world.cancel", world=world)
        self.client.result(batch)

    def test_long_batches_share_the_workers(self):
        long = [self.make() for _ in range(4)]
        asked = [self.client.request("world.step", {"world": w, "n": 1000000000}) for w in long]
        world = self.make()
        begin = time.monotonic()
        self.assertEqual(self.client.call("world.step", world=world, n=10)["status"], "ok")
        self.assertLess(time.monotonic() - begin, 5)
        states = [self.client.call("world.state", world=w)["step"] for w in long]
        self.assertTrue(all(step > 0 for step in states), states)
        for w in long:
            self.client.call("world.cancel", world=w)
        for ident in asked:
            self.client.result(ident)

    def test_a_full_queue_answers_busy(self):
        world = self.make()
        batch = self.client.request("world.step", {"world": world, "n": 1000000000})
        asked = [self.client.request("world.step", {"world": world}) for _ in range(300)]
        self.client.call("world.cancel", world=world)
        self.client.result(batch)
        names = []
        for ident in asked:
            try:
                names.append(self.client.result(ident)["status"])
            except RpcError as error:
                names.append(error.name)
                self.assertIn("--max-requests-queued", error.message)
        self.assertIn("BUSY", names)
        self.assertEqual(set(names), {"BUSY", "cancelled"})


class Controls(Case):
    def test_forces_act_and_stay(self):
        world = self.make(particle(dt=0.01, gravity=[0, 0, 0]))
        self.client.call("world.control", world=world, control={
            "forces": [{"body": "p", "force": [2.0, 0, 0]}]})
        reply = self.client.call("world.step", world=world, n=2, velocities=True,
                                 precision="float64")
        self.assertAlmostEqual(reply["velocities"][0, 0], 0.04, delta=1e-12)

    def test_a_control_of_the_step_comes_first(self):
        world = self.make(particle(dt=0.01, gravity=[0, 0, 0]))
        reply = self.client.call("world.step", world=world, velocities=True, precision="float64",
                                 control={"forces": [{"body": "p", "force": [1.0, 0, 0]}]})
        self.assertAlmostEqual(reply["velocities"][0, 0], 0.01, delta=1e-12)

    def test_a_bad_control_changes_nothing(self):
        world = self.make()
        before = self.client.call("world.state", world=world)["hash"]
        error = self.fails("INVALID", "world.control", world=world, control={"forcs": []})
        self.assertIn("forces", error.message)
        self.fails("INVALID", "world.step", world=world, control={
            "forces": [{"body": "p", "force": [float("nan"), 0, 0]}]})
        self.assertEqual(self.client.call("world.state", world=world)["hash"], before)

    def test_a_control_may_be_a_notification(self):
        world = self.make(particle(dt=0.01, gravity=[0, 0, 0]))
        self.client.notify("world.control", {"world": world, "control": {
            "forces": [{"body": "p", "force": [1.0, 0, 0]}]}})
        self.client.notify("world.control", {"world": world, "control": {"nonsense": 1}})
        reply = self.client.call("world.step", world=world, velocities=True, precision="float64")
        self.assertAlmostEqual(reply["velocities"][0, 0], 0.01, delta=1e-12)
        self.assertEqual(self.client.replies, {})
        self.assertEqual(self.client.notifications, [])


class Life(Case):
    def test_destroy_ends_a_running_batch(self):
        world = self.make()
        batch = self.client.request("world.step", {"world": world, "n": 1000000000})
        waiting = self.client.request("world.step", {"world": world})
        time.sleep(0.05)
        gone = self.client.call("world.destroy", world=world)
        self.assertTrue(gone["destroyed"])
        reply = self.client.result(batch)
        self.assertEqual(reply["status"], "cancelled")
        self.assertEqual(reply["reached"], gone["steps"])
        with self.assertRaises(RpcError) as caught:
            self.client.result(waiting)
        self.assertEqual(caught.exception.name, "CANCELLED")
        self.fails("NOT_FOUND", "world.step", world=world)

    def test_ids_are_never_used_again(self):
        first = self.make()
        self.client.call("world.destroy", world=first)
        self.assertGreater(self.make(), first)

    def test_dry_run_makes_no_world(self):
        before = len(self.client.call("world.list")["worlds"])
        report = self.client.call("world.create", scene=cable(), dry_run=True)
        self.assertNotIn("world", report)
        self.assertEqual(report["bodies"][0]["kind"], "cable")
        self.assertEqual(len(self.client.call("world.list")["worlds"]), before)

    def test_exclusive_worlds_refuse_others_until_their_session_ends(self):
        owner = Client(self.daemon)
        world = owner.call("world.create", scene=particle(), exclusive=True)["world"]
        self.fails("STATE", "world.step", world=world)
        self.fails("STATE", "world.destroy", world=world)
        self.assertEqual(self.client.call("world.state", world=world)["step"], 0)
        self.assertEqual(owner.call("world.step", world=world)["reached"], 1)
        owner.close()
        deadline = time.monotonic() + 5
        while True:
            try:
                self.assertEqual(self.client.call("world.step", world=world)["reached"], 2)
                break
            except RpcError:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)

    def test_idle_worlds_go(self):
        world = self.make(idle_limit_s=0.5)
        deadline = time.monotonic() + 20
        while world in {w["world"] for w in self.client.call("world.list")["worlds"]}:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        self.fails("NOT_FOUND", "world.state", world=world)

    def test_a_world_outlives_its_connection(self):
        with Client(self.daemon) as other:
            world = other.call("world.create", scene=particle())["world"]
            other.call("world.step", world=world, n=4)
        self.assertEqual(self.client.call("world.step", world=world)["reached"], 5)


class BadScenes(Case):
    def refused(self, scene, *words, name="INVALID"):
        before = len(self.client.call("world.list")["worlds"])
        error = self.fails(name, "world.create", scene=scene)
        for word in words:
            self.assertIn(word, error.message)
        self.assertEqual(len(self.client.call("world.list")["worlds"]), before)
        return error

    def test_unknown_keys_name_the_nearest(self):
        self.refused({**particle(), "gravty": [0, 0, 0]}, "gravty", "gravity")
        scene = particle()
        scene["bodies"][0]["radus"] = 1
        self.refused(scene, "radus", "radius")

    def test_numbers_that_make_no_sense(self):
        for key, value in (("mass", 0.0), ("mass", -1.0), ("radius", 0.0), ("mass", float("nan")),
                           ("radius", float("inf")), ("stiffness", -1.0)):
            scene = cable()
            scene["bodies"][0][key] = value
            self.refused(scene, key)
        for dt in (0.0, -0.1, float("nan")):
            self.refused(particle(dt=dt), "dt")

    def test_indices_out_of_range(self):
        scene = cable()
        scene["constraints"][0]["nodes"] = [20]
        self.refused(scene, "20")
        scene["constraints"][0]["body"] = "nobody"
        self.refused(scene, "nobody", name="INVALID")

    def test_a_mesh_that_nobody_uploaded(self):
        scene = {"bodies": [{"kind": "static", "mesh": {"sha256": "0" * 64}}]}
        self.refused(scene, "0" * 64, name="NOT_FOUND")

    def test_bodies_that_intersect_name_the_pairs(self):
        vertices, elements = sheet(y=-0.5)
        mesh = self.client.call("mesh.upload", vertices=encode_array(vertices),
                                elements=encode_array(elements))["sha256"]
        scene = cable(count=10)
        scene["bodies"].append({"kind": "static", "name": "floor", "mesh": {"sha256": mesh}})
        error = self.refused(scene)
        self.assertGreater(error.data["overlap_count"], 0)
        self.assertEqual(sorted(error.data["close_pairs"][0]["bodies"]), [0, 1])

    def test_record_settings_are_checked(self):
        self.refused(particle(record={"full": "maybe"}), "record")
        self.refused(particle(record={"precision": "float16"}), "record")


class Parallel(Case):
    def test_many_clients_and_worlds(self):
        errors = []

        def work(seed):
            try:
                with Client(self.daemon) as client:
                    world = client.call("world.create", scene=cable(count=5 + seed))["world"]
                    for i in range(30):
                        reply = client.call("world.step", world=world, n=3, expect_step=3 * i,
                                            positions=True)
                        assert reply["reached"] == 3 * i + 3
                        assert reply["positions"].shape == (5 + seed, 3)
                    client.call("world.destroy", world=world)
            except Exception as error:  # pylint: disable=broad-except
                errors.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])


if __name__ == "__main__":
    unittest.main()
