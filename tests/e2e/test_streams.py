"""Subscriptions: frames as notifications, credit, slow readers and their policies."""

import time
import unittest

import numpy

from support import TIME_SCALE, Client, Daemon, RpcError, cable, particle

PRIORITY = 45


class Streams(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("--workers", "1").start()
        self.addCleanup(self.daemon.remove)
        self.client = Client(self.daemon)
        self.addCleanup(self.client.close)

    def tearDown(self):
        self.daemon.stop()

    def frames(self, client=None):
        return [m[2][0] for m in (client or self.client).notifications if m[1] == "frame"]

    def test_every_step_sends_its_frame(self):
        world = self.client.call("world.create", scene=cable())["world"]
        sub = self.client.call("world.subscribe", world=world, fields=["positions", "velocities"],
                               precision="float64")
        self.assertEqual(sub["node_count"], 20)
        last = None
        for _ in range(30):
            last = self.client.call("world.step", world=world, positions=True,
                                    precision="float64")
        while len(self.frames()) < 30:
            self.client.receive(5)
        frames = self.frames()
        self.assertEqual([f["step"] for f in frames], list(range(1, 31)))
        self.assertEqual({f["dropped"] for f in frames}, {0})
        self.assertEqual(frames[-1]["hash"], last["hash"])
        numpy.testing.assert_array_equal(frames[-1]["positions"], last["positions"])
        self.assertEqual(frames[0]["velocities"].shape, (20, 3))

    def test_every_and_other_subscriptions_do_not_disturb_each_other(self):
        world = self.client.call("world.create", scene=particle())["world"]
        a = self.client.call("world.subscribe", world=world, every=4)["subscription"]
        b = self.client.call("world.subscribe", world=world, every=6,
                             fields=["diagnostics"])["subscription"]
        for _ in range(24):
            self.client.call("world.step", world=world)
        while len(self.frames()) < 10:
            self.client.receive(5)
        self.assertEqual([f["step"] for f in self.frames() if f["subscription"] == a],
                         [4, 8, 12, 16, 20, 24])
        others = [f for f in self.frames() if f["subscription"] == b]
        self.assertEqual([f["step"] for f in others], [6, 12, 18, 24])
        self.assertNotIn("positions", others[0])
        self.assertEqual(others[0]["diagnostics"]["step"], 6)

    def test_credit_bounds_the_frames(self):
        world = self.client.call("world.create", scene=particle())["world"]
        sub = self.client.call("world.subscribe", world=world, credit=3, policy="drop-oldest",
                               max_queue=4)["subscription"]
        for _ in range(10):
            self.client.call("world.step", world=world)
        self.assertEqual([f["step"] for f in self.frames()], [1, 2, 3])
        self.assertEqual(self.client.call("world.credit", subscription=sub, add=2)["credit"], 0)
        self.assertEqual([(f["step"], f["dropped"]) for f in self.frames()[3:]], [(7, 3), (8, 0)])
        self.client.notify("world.credit", {"subscription": sub, "add": 10})
        while len(self.frames()) < 7:
            self.client.receive(5)
        self.assertEqual([f["step"] for f in self.frames()[5:]], [9, 10])
        ended = self.client.call("world.unsubscribe", subscription=sub)
        self.assertEqual(ended, {"sent": 7, "dropped": 3})
        self.client.call("world.step", world=world)
        self.assertEqual(len(self.frames()), 7)

    def test_policies_without_credit(self):
        for policy, kept, dropped in (("drop-newest", [2, 3, 4], 5), ("latest", [9], 7),
                                      ("drop-oldest", [7, 8, 9], 5)):
            with self.subTest(policy=policy):
                world = self.client.call("world.create", scene=particle())["world"]
                sub = self.client.call("world.subscribe", world=world, credit=1, policy=policy,
                                       max_queue=3)["subscription"]
                for _ in range(9):
                    self.client.call("world.step", world=world)
                self.client.call("world.credit", subscription=sub, add=10)
                mine = [f for f in self.frames() if f["subscription"] == sub]
                self.assertEqual([f["step"] for f in mine], [1] + kept)
                self.assertEqual(mine[1]["dropped"], dropped)

    def test_policy_close_ends_the_subscription(self):
        world = self.client.call("world.create", scene=particle())["world"]
        sub = self.client.call("world.subscribe", world=world, credit=1, policy="close",
                               max_queue=2)["subscription"]
        for _ in range(6):
            self.client.call("world.step", world=world)
        end = self.client.notification("end")
        self.assertEqual((end["subscription"], end["sent"]), (sub, 1))
        with self.assertRaises(RpcError) as caught:
            self.client.call("world.credit", subscription=sub, add=1)
        self.assertEqual(caught.exception.name, "NOT_FOUND")

    def test_destroying_the_world_ends_its_subscriptions(self):
        world = self.client.call("world.create", scene=particle())["world"]
        with Client(self.daemon) as other:
            sub = other.call("world.subscribe", world=world)["subscription"]
            self.client.call("world.destroy", world=world)
            end = other.notification("end")
            self.assertEqual((end["subscription"], end["world"]), (sub, world))

    def test_a_reader_that_sleeps_loses_frames_and_is_told(self):
        # 2 MB of queued output at most, 2,000 nodes of float64 a frame: 48 kB.
        self.client.close()
        self.daemon.stop()
        self.daemon.command += ["--max-queued-bytes", "2M"]
        self.daemon.restart()
        self.client = Client(self.daemon)
        world = self.client.call("world.create", scene=cable(
            count=2000, record={"enabled": False}, constraints=[]))["world"]
        with Client(self.daemon) as lazy:
            lazy.call("world.subscribe", world=world, precision="float64", policy="latest")
            steps = 400
            begin = time.monotonic()
            reply = self.client.call("world.step", world=world, n=steps, timeout=60)
            self.assertEqual(reply["status"], "ok")
            self.assertLess(time.monotonic() - begin, 15 * TIME_SCALE)
            stats = self.client.call("server.stats")
            self.assertLess(stats["memory"]["queued"], 2 << 20)
            while not self.frames(lazy) or self.frames(lazy)[-1]["step"] < steps:
                lazy.receive(10)
            frames = self.frames(lazy)
            self.assertEqual(sum(f["dropped"] for f in frames) + len(frames), steps)
            self.assertLess(len(frames), steps)
            numbers = [f["step"] for f in frames]
            self.assertEqual(numbers, sorted(set(numbers)))

    def test_a_session_that_goes_takes_its_subscriptions_along(self):
        world = self.client.call("world.create", scene=particle())["world"]
        for _ in range(3):
            with Client(self.daemon) as other:
                for _ in range(5):
                    other.call("world.subscribe", world=world)
        for _ in range(5):
            self.client.call("world.step", world=world)
        self.assertEqual(self.frames(), [])

    def test_bad_subscriptions(self):
        world = self.client.call("world.create", scene=particle())["world"]
        for params in ({"world": world + 1000}, {"world": world, "policy": "most"},
                       {"world": world, "every": 0}, {"world": world, "fields": ["x"]}):
            with self.assertRaises(RpcError):
                self.client.call("world.subscribe", **params)
        for _ in range(64):
            self.client.call("world.subscribe", world=world)
        with self.assertRaises(RpcError) as caught:
            self.client.call("world.subscribe", world=world)
        self.assertEqual(caught.exception.name, "LIMIT")


if __name__ == "__main__":
    unittest.main()
