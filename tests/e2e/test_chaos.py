"""Random clients: valid calls, mutated bytes, connections that break off anywhere. The daemon must
answer the next good request, give everything back, and end in order."""

import os
import random
import socket
import struct
import threading
import time
import unittest

import msgpack

from support import SANITIZED, Client, Closed, Daemon, RpcError, cable, encode_array, particle, \
    sheet

ALONE = True  # the slowest reply is measured

SECONDS = float(os.environ.get("QPC_CHAOS_S", "4"))


def good_message(dice, worlds, runs):
    """A request or notification as a client might send it, with ids that may be stale."""
    world = dice.choice(worlds + [0, 2**64 - 1])
    vertices, elements = sheet(dice.uniform(0.5, 2.0))
    method, params = dice.choice([
        ("hello", {"client": "x" * dice.randrange(50)}),
        ("rpc.describe", {}),
        ("world.create", {"scene": particle(record={"enabled": dice.random() < 0.3}),
                          "idle_limit_s": 1.0}),
        ("world.create", {"scene": cable(count=dice.randrange(2, 30)), "dry_run": True}),
        ("world.step", {"world": world, "n": dice.choice([1, 3, 50, 100000]),
                        "positions": dice.random() < 0.5, "deadline_ms": 200}),
        ("world.step", {"world": world, "key": str(dice.randrange(5))}),
        ("world.state", {"world": world, "fields": ["positions", "contacts", "diagnostics"]}),
        ("world.control", {"world": world, "control": {
            "forces": [{"body": "p", "force": [dice.gauss(0, 1), 0, 0]}]}}),
        ("world.cancel", {"world": world}),
        ("world.subscribe", {"world": world, "every": dice.randrange(1, 5),
                             "credit": dice.randrange(3), "max_queue": dice.randrange(1, 9),
                             "policy": dice.choice(["latest", "drop-oldest", "drop-newest",
                                                    "close"])}),
        ("world.credit", {"subscription": dice.randrange(4), "add": 2}),
        ("world.unsubscribe", {"subscription": dice.randrange(4)}),
        ("world.destroy", {"world": world}),
        ("world.list", {}),
        ("world.describe", {"world": world}),
        ("mesh.upload", {"vertices": encode_array(vertices), "elements": encode_array(elements)}),
        ("mesh.upload", {"sha256": f"{dice.randrange(4):064x}", "size": 100000,
                         "offset": dice.choice([0, 40000]), "data": b"QPM1" + bytes(39996)}),
        ("mesh.list", {}),
        ("run.list", {}),
        ("run.frames", {"run": dice.choice(runs + ["0" * 32]), "limit": 5}),
        ("run.diagnostics", {"run": dice.choice(runs + ["0" * 32]), "limit": 5}),
        ("server.stats", {}),
    ])
    if dice.random() < 0.1:
        return msgpack.packb([2, method, [params]])
    return msgpack.packb([0, dice.randrange(2**32), method, [params]])


def mutated(dice, data):
    data = bytearray(data)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(data))
        what = dice.randrange(4)
        if what == 0:
            data[at] = dice.randrange(256)
        elif what == 1:
            del data[at:at + dice.randrange(1, 20)]
        elif what == 2:
            data[at:at] = dice.randbytes(dice.randrange(1, 9))
        else:
            data[at:at] = bytes([dice.choice([0xdd, 0xdf, 0xc6, 0xdb, 0xc9])]) + b"\xff\xff\xff\xf0"
        if not data:
            data = bytearray(b"\xc1")
    return bytes(data)


class Chaos(unittest.TestCase):
    def test_random_clients_leave_nothing_behind(self):
        with Daemon("--workers", "2", "--max-worlds", "40") as daemon, Client(daemon) as control:
            kept = control.call("world.create", scene=particle())
            worlds, runs = [kept["world"]], [kept["run"]]
            descriptors = len(os.listdir(f"/proc/{daemon.process.pid}/fd"))
            failures = []

            def client(seed):
                dice = random.Random(seed)
                end = time.monotonic() + SECONDS
                try:
                    while time.monotonic() < end:
                        self.one_session(dice, daemon, worlds, runs)
                except Exception as error:  # pylint: disable=broad-except
                    failures.append((seed, error))

            threads = [threading.Thread(target=client, args=(seed,)) for seed in range(4)]
            for thread in threads:
                thread.start()
            slowest = 0.0
            while any(thread.is_alive() for thread in threads):
                begin = time.monotonic()
                control.call("server.stats")
                slowest = max(slowest, time.monotonic() - begin)
                try:
                    made = control.call("world.create", scene=particle(), idle_limit_s=2.0)
                    worlds.append(made["world"])
                    runs.append(made["run"])
                except RpcError as error:
                    self.assertEqual(error.name, "LIMIT")
                time.sleep(0.05)
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])
            self.assertLess(slowest, 10 if SANITIZED else 1)
            # Everything comes back: sessions, requests, input, output, then the idle worlds.
            deadline = time.monotonic() + 60
            while True:
                stats = control.call("server.stats")
                memory = stats["memory"]
                if stats["sessions"] == 1 and stats["in_flight"] == 0 and stats["worlds"] <= 1 \
                        and memory["input"] == 0 and memory["queued"] == 0 \
                        and memory["frames_held"] == 0:
                    break
                self.assertLess(time.monotonic(), deadline, stats)
                time.sleep(0.1)
            self.assertGreater(stats["errors"], 0)
            deadline = time.monotonic() + 20
            while len(os.listdir(f"/proc/{daemon.process.pid}/fd")) > descriptors:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.1)

    def one_session(self, dice, daemon, worlds, runs):
        session = Client(daemon)
        session.sock.settimeout(20)
        try:
            for _ in range(dice.randrange(1, 30)):
                data = b"".join(good_message(dice, worlds, runs)
                                for _ in range(dice.randrange(1, 6)))
                if dice.random() < 0.2:
                    data = mutated(dice, data)
                if dice.random() < 0.1:
                    data = data[:dice.randrange(len(data) + 1)]
                session.sock.sendall(data)
                if dice.random() < 0.7:
                    session.sock.settimeout(0.01)
                    try:
                        if not session.sock.recv(1 << 20):
                            return
                    except (TimeoutError, socket.timeout):
                        pass
                    session.sock.settimeout(20)
            how = dice.randrange(3)
            if how == 0:
                session.sock.shutdown(socket.SHUT_WR)
                session.sock.settimeout(0.2)
                while session.sock.recv(1 << 20):
                    pass
            elif how == 1:
                session.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                        struct.pack("ii", 1, 0))
        except (OSError, Closed):
            pass  # the server may end it at any moment
        finally:
            session.close()


if __name__ == "__main__":
    unittest.main()
