"""Example scenes in process and over TCP, on one worker and on two: the same chain of state hashes.

examples/embed steps the scene with the engine in its own process; the state hash chains over all
steps, so one equal hash at the end says that every step was equal."""

import os
import pathlib
import re
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))

import qpcollide  # noqa: E402

from daemon import BUILD, SOURCE, TIME_SCALE, Daemon  # noqa: E402

PRIORITY = 200

EMBED = BUILD / "examples" / "embed"
SHORT = os.environ.get("QPC_SUITE") == "quick" or os.environ.get("QPC_SANITIZE")


@unittest.skipUnless(EMBED.exists(), "built without examples")
class SameBits(unittest.TestCase):
    def in_process(self, path, steps):
        run = subprocess.run([str(EMBED), str(path), str(steps)], capture_output=True, text=True,
                             timeout=200 * TIME_SCALE)
        self.assertEqual(run.returncode, 0, run.stderr)
        return int(re.findall(r"hash ([0-9a-f]{16})$", run.stdout, re.MULTILINE)[-1], 16)

    def over_tcp(self, path, steps, workers):
        """Two worlds of the scene at once, one in a batch and one step by step."""
        hashes = [None, None]

        def step(server, index):
            with qpcollide.connect(server, timeout=200 * TIME_SCALE) as client:
                world = client.create_world(qpcollide.load_scene(path, client))
                for n in [steps] if index == 0 else [1] * steps:
                    hashes[index] = world.step(n)["hash"] % 2**64

        with Daemon("--workers", str(workers)) as daemon:
            threads = [threading.Thread(target=step, args=(daemon.server, k)) for k in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return hashes

    def compare(self, name, steps):
        path = SOURCE / "examples" / "scenes" / f"{name}.json"
        wanted = self.in_process(path, steps)
        if not os.environ.get("QPC_SANITIZE"):  # one thread, and nothing that the run before has not shown
            self.assertEqual(self.in_process(path, steps), wanted)
            self.assertNotEqual(self.in_process(path, steps - 1), wanted)
        for workers in (1, 2):
            self.assertEqual(self.over_tcp(path, steps, workers), [wanted] * 2, f"{workers} workers")

    def test_pulley_1(self):
        self.compare("pulley-1", 60 if SHORT else 300)

    def test_a_cable_wound_around_a_drum(self):
        self.compare("drum", 16 if SHORT else 40)  # turns touch from step 13 on


if __name__ == "__main__":
    unittest.main()
