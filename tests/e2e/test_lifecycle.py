"""Starting, listening, limits and stopping of the daemon."""

import os
import pathlib
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import msgpack
import numpy

from support import DATA, SANITIZED, SOURCE, Client, Daemon, RpcError, cable, encode_array, \
    particle

import daemon as daemon_module

ALONE = True  # limits in seconds, and floods of messages


def run(*options, env=None, timeout=30):
    return subprocess.run([str(daemon_module.QPCOLLIDED), *options], capture_output=True,
                          text=True, timeout=timeout, check=False,
                          env={**os.environ, **(env or {})})


class CommandLine(unittest.TestCase):
    def test_help_explains_every_option(self):
        done = run("--help")
        self.assertEqual(done.returncode, 0)
        for option in ("--listen", "--max-message-bytes", "--spin-us", "--idle-exit-s", "--token"):
            self.assertIn(option, done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)

    def test_version(self):
        self.assertRegex(run("--version").stdout, r"^qpcollided \d+\.\d+\.\d+\n$")

    def test_bad_usage_is_2_and_names_what_is_wrong(self):
        for options, word in ((["--workrs", "2"], "workers"), (["--workers", "x"], "--workers"),
                              (["--max-depth", "5000"], "--max-depth"), (["--listen"], "--listen"),
                              (["--listen", "localhost"], "HOST:PORT"), (["extra"], "extra"),
                              (["--listen", "0.0.0.0:0"], "token")):
            with self.subTest(options=options):
                done = run(*options)
                self.assertEqual(done.returncode, 2)
                self.assertIn(word, done.stderr)

    def test_flags_win_over_environment_over_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "qpc.ini")
            path.write_text("[qpcollided]\nmax-worlds = 11\nmax-depth = 11\nmax-meshes = 11\n")
            with Daemon("--config", str(path), "--max-meshes", "33",
                        env={"QPC_MAX_DEPTH": "22", "QPC_MAX_MESHES": "22"}) as daemon, \
                    Client(daemon) as client:
                limits = client.call("hello")["limits"]
            self.assertEqual((limits["max_worlds"], limits["max_depth"], limits["max_meshes"]),
                             (11, 22, 33))
            path.write_text("[qpcollided]\nmax-world = 11\n")
            done = run("--config", str(path))
            self.assertEqual(done.returncode, 2)
            self.assertIn("max-worlds", done.stderr)
        self.assertEqual(run("--config", "/nonexistent").returncode, 2)
        self.assertEqual(run(env={"QPC_WORKERS": "many"}).returncode, 2)


class Listening(unittest.TestCase):
    def test_ipv6(self):
        if not socket.has_ipv6 or not pathlib.Path("/proc/net/if_inet6").exists():
            self.skipTest("no IPv6 here")
        with Daemon(listen="[::1]:0") as daemon:
            self.assertEqual(daemon.address[0], "::1")
            with Client(daemon) as client:
                self.assertEqual(client.call("hello")["protocol"], 1)

    def test_several_listeners_and_a_name(self):
        with Daemon("--listen", "localhost:0", "--listen", "127.0.0.2:0") as daemon:
            self.assertEqual(len(daemon.listeners), 3)
            for _, host, port in daemon.listeners:
                with Client((host, port)) as client:
                    self.assertEqual(client.call("hello")["protocol"], 1)

    def test_unix_sockets_are_for_the_user_alone_and_go(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder, "socket"))
            with Daemon("--unix", path) as daemon:
                self.assertIn(("unix", path), daemon.listeners)
                self.assertEqual(stat.S_IMODE(os.stat(path).st_mode) & 0o077, 0)
                with Client(path) as client:
                    world = client.call("world.create", scene=particle())["world"]
                    self.assertEqual(client.call("world.step", world=world)["reached"], 1)
            self.assertFalse(os.path.exists(path))

    def test_a_stale_socket_is_replaced_a_live_one_is_not(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder, "socket"))
            daemon = Daemon("--unix", path).start()
            try:
                done = run("--listen", "127.0.0.1:0", "--unix", path, "--data", folder + "/other")
                self.assertEqual(done.returncode, 3)
                self.assertIn("in use", done.stderr)
                daemon.kill()
                self.assertTrue(os.path.exists(path))
                daemon.restart()
                with Client(path) as client:
                    client.call("hello")
                daemon.stop()
            finally:
                daemon.remove()
            pathlib.Path(path).write_text("not a socket")
            done = run("--listen", "127.0.0.1:0", "--unix", path, "--data", folder + "/other")
            self.assertEqual(done.returncode, 3)
            self.assertEqual(pathlib.Path(path).read_text(), "not a socket")

    def test_a_port_in_use_is_3_within_2_s(self):
        with Daemon() as daemon, tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            done = run("--listen", daemon.server, "--data", folder)
            self.assertLess(time.monotonic() - begin, 20 if SANITIZED else 2)
            self.assertEqual(done.returncode, 3)
            self.assertIn("address", done.stderr)
            self.assertIn("in use", done.stderr)
            with Client(daemon) as client:
                client.call("hello")

    def test_a_second_instance_leaves_the_files_of_the_first_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder, "socket"))
            with Daemon("--unix", path) as daemon:
                done = run("--listen", daemon.server, "--unix", path, "--data", folder + "/d",
                           "--port-file", str(daemon.port_file))
                self.assertEqual(done.returncode, 3)
                done = run("--listen", "127.0.0.1:0", "--data", str(daemon.data),
                           "--port-file", str(daemon.port_file))
                self.assertEqual(done.returncode, 4)
                self.assertTrue(daemon.port_file.exists())
                with Client(path) as client:
                    client.call("hello")

    def test_the_port_file_goes_with_the_daemon(self):
        with Daemon() as daemon:
            daemon.stop()
            self.assertFalse(daemon.port_file.exists())


class DataFolder(unittest.TestCase):
    def test_a_folder_in_use_is_4(self):
        with Daemon() as daemon:
            done = run("--listen", "127.0.0.1:0", "--data", str(daemon.data))
            self.assertEqual(done.returncode, 4)
            self.assertIn(str(daemon.data), done.stderr)

    def test_files_that_are_not_ours_are_left_alone(self):
        for name, words in (("S05-not-a-database.db", ["not a database"]),
                            ("S06-newer-schema.db", ["2147483647", "1"]),
                            ("S09-other-application.db", ["application"])):
            with self.subTest(name=name), tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "catalog.db")
                shutil.copyfile(DATA / "storage" / name, path)
                before = path.read_bytes()
                begin = time.monotonic()
                done = run("--listen", "127.0.0.1:0", "--data", folder)
                self.assertLess(time.monotonic() - begin, 20 if SANITIZED else 2)
                self.assertEqual(done.returncode, 4)
                for word in [str(path), *words]:
                    self.assertIn(word, done.stderr)
                self.assertEqual(path.read_bytes(), before)
                self.assertEqual([p for p in os.listdir(folder) if p.endswith(("-wal", "-shm"))],
                                 [])

    def test_a_folder_that_cannot_be_written_is_4(self):
        with tempfile.TemporaryDirectory() as folder:
            data = pathlib.Path(folder, "data")
            data.mkdir()
            command = [str(daemon_module.QPCOLLIDED), "--listen", "127.0.0.1:0", "--data",
                       str(data)]
            data.chmod(0o555)
            if os.geteuid() == 0:
                # Root may write anywhere: give up the capabilities that let it.
                os.chmod(folder, 0o755)
                command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search",
                           "--inh-caps", "-dac_override,-dac_read_search", "--reuid", "65534",
                           "--regid", "65534", "--clear-groups", *command]
                if shutil.which("setpriv") is None or not os.access(SOURCE, os.X_OK):
                    self.skipTest("no setpriv")
            done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
            if "Permission denied" in done.stderr and "setpriv" in done.stderr:
                self.skipTest("another user cannot run the program from here")
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn(str(data), done.stderr)


class Tokens(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name, "token")
        self.path.write_text("correct horse\nsecond line\n")

    def test_nothing_goes_without_the_token(self):
        with Daemon("--token", str(self.path)) as daemon:
            with Client(daemon) as client:
                for method in ("world.list", "server.drain", "rpc.describe"):
                    with self.assertRaises(RpcError) as caught:
                        client.call(method)
                    self.assertEqual(caught.exception.name, "UNAUTHORISED")
                with self.assertRaises(RpcError) as caught:
                    client.call("hello")
                self.assertEqual(caught.exception.name, "UNAUTHORISED")
                client.call("hello", token="correct horse")
                self.assertEqual(client.call("world.list"), {"worlds": []})

    def test_three_wrong_tokens_end_the_session(self):
        with Daemon("--token", str(self.path)) as daemon, Client(daemon) as client:
            for token in ("", "correct horse battery", "x" * 4000):
                with self.assertRaises(RpcError) as caught:
                    client.call("hello", token=token)
                self.assertEqual(caught.exception.name, "UNAUTHORISED")
            client.wait_closed()

    def test_strangers_may_not_send_much(self):
        with Daemon("--token", str(self.path)) as daemon, Client(daemon) as client:
            client.send_bytes(msgpack.packb([0, 1, "mesh.upload", [{"data": bytes(100000)}]]))
            client.wait_closed()
            self.assertEqual(client.notifications[0][2][0]["name"], "LIMIT")

    def test_unix_sockets_need_none_and_beyond_loopback_it_opens(self):
        path = str(pathlib.Path(self.folder.name, "socket"))
        with Daemon("--token", str(self.path), "--unix", path, listen="0.0.0.0:0") as daemon:
            with Client(path) as client:
                self.assertEqual(client.call("world.list"), {"worlds": []})
            with Client(("127.0.0.1", daemon.address[1])) as client:
                client.call("hello", token="correct horse")

    def test_short_and_missing_tokens_are_usage_errors(self):
        self.path.write_text("short\n")
        self.assertEqual(run("--token", str(self.path)).returncode, 2)
        self.assertEqual(run("--token", "/nonexistent").returncode, 2)


class Limits(unittest.TestCase):
    def fails(self, client, name, option, method, **params):
        with self.assertRaises(RpcError) as caught:
            client.call(method, **params)
        self.assertEqual(caught.exception.name, name)
        self.assertIn(option, caught.exception.message)

    def test_worlds_and_their_memory(self):
        with Daemon("--max-worlds", "2", "--max-nodes", "500", "--max-world-memory", "64K") \
                as daemon, Client(daemon) as client:
            for _ in range(2):
                client.call("world.create", scene=particle())
            self.fails(client, "LIMIT", "--max-worlds", "world.create", scene=particle())
            client.call("world.destroy", world=1)
            self.fails(client, "LIMIT", "500", "world.create", scene=cable(count=501))
            self.fails(client, "LIMIT", "--max-world-memory", "world.create",
                       scene=cable(count=500))
            client.call("world.create", scene=particle())

    def test_messages_too_large_are_refused_and_others_served(self):
        with Daemon("--max-message-bytes", "100K") as daemon, Client(daemon) as other:
            with Client(daemon) as client:
                client.send_bytes(msgpack.packb([0, 1, "x", [{"data": bytes(200000)}]])[:60000])
                client.wait_closed()
                error = client.notifications[0]
                self.assertEqual((error[1], error[2][0]["name"]), ("error", "LIMIT"))
            other.call("hello")

    def test_sessions_beyond_the_limit_are_told(self):
        with Daemon("--max-connections", "3") as daemon:
            clients = [Client(daemon) for _ in range(3)]
            for client in clients:
                client.call("hello")
            with Client(daemon) as refused:
                refused.wait_closed()
                self.assertIn("--max-connections", refused.notifications[0][2][0]["message"])
            clients.pop().close()
            deadline = time.monotonic() + 10
            while True:
                try:
                    with Client(daemon) as client:
                        client.call("hello")
                    break
                except Exception:  # pylint: disable=broad-except
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.02)
            for client in clients:
                client.close()

    def test_the_run_files_have_descriptors_left(self):
        """The frame log is still writable when clients have taken all they can (case P15)."""
        with Daemon(wrapper=["prlimit", "--nofile=64"]) as daemon, Client(daemon) as client:
            client.call("hello")
            crowd = [Client(daemon) for _ in range(80)]
            time.sleep(0.5)
            made = client.call("world.create", scene=particle())
            client.call("world.step", world=made["world"], n=5)
            self.assertEqual(len(client.call("run.frames", run=made["run"])["frames"]), 6)
            for other in crowd:
                other.close()

    def test_input_of_a_session_is_bounded(self):
        with Daemon("--max-session-bytes", "1M") as daemon, Client(daemon) as client:
            client.send_bytes(msgpack.packb([0, 1, "x", [{"data": bytes(4 << 20)}]])[:3 << 20])
            client.wait_closed()
            self.assertIn("--max-session-bytes", client.notifications[0][2][0]["message"])

    def test_uploads_of_a_session_are_bounded(self):
        with Daemon("--max-session-bytes", "1M") as daemon, Client(daemon) as client:
            self.upload_too_much(client)
            client.call("hello")

    def upload_too_much(self, client):
        data = b"QPM1" + (3).to_bytes(4, "little") + (10).to_bytes(8, "little") * 2
        size = 4 << 20
        received = client.call("mesh.upload", sha256="0" * 64, size=size, offset=0,
                               data=data)["received"]
        with self.assertRaises(RpcError) as caught:
            while True:
                received = client.call("mesh.upload", sha256="0" * 64, size=size, offset=received,
                                       data=bytes(100000))["received"]
        self.assertEqual(caught.exception.name, "LIMIT")
        self.assertIn("--max-session-bytes", caught.exception.message)

    def test_half_a_message_times_out(self):
        with Daemon("--read-timeout-s", "1") as daemon, Client(daemon) as client, \
                Client(daemon) as idle:
            client.send_bytes(b"\x94\x00\x07")
            client.wait_closed()
            self.assertEqual(client.notifications[0][2][0]["name"], "DEADLINE")
            time.sleep(1.5)
            idle.call("hello")  # a session that sends nothing is left alone

    def test_a_reader_that_never_reads_is_closed_at_the_limit(self):
        with Daemon("--max-queued-bytes", "1M", "--max-requests-queued", "1000") as daemon, \
                Client(daemon) as other:
            world = other.call("world.create", scene=cable(count=5000, constraints=[],
                                                           record={"enabled": False}))["world"]
            with Client(daemon) as lazy:
                lazy.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                for i in range(900):
                    lazy.request("world.step", {"world": world, "positions": True})
                deadline = time.monotonic() + 60
                while other.call("server.stats")["sessions_slow"] == 0:
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.05)
                    self.assertLess(other.call("server.stats")["memory"]["queued"], 2 << 20)


class Fairness(unittest.TestCase):
    REQUESTS = b"".join(msgpack.packb([0, i, "no_such_method", []]) for i in range(5000))

    def test_floods_do_not_hold_up_another_session(self):
        # Answered in one go these 100,000 requests keep the loop busy for a second.
        with Daemon() as daemon, Client(daemon) as probe:
            floods = [Client(daemon) for _ in range(20)]
            for flood in floods:
                flood.send_bytes(self.REQUESTS)
            worst = 0.0
            for _ in range(20):
                start = time.monotonic()
                with self.assertRaises(RpcError):
                    probe.call("no_such_method")
                worst = max(worst, time.monotonic() - start)
            for flood in floods: # and every one of theirs is answered, once
                while len(flood.replies) < 5000:
                    self.assertTrue(flood.receive(10))
                flood.close()
            self.assertLess(worst, 0.5 if not SANITIZED else 3.0)

    def test_requests_of_a_peer_that_is_gone_are_dropped(self):
        with Daemon() as daemon, Client(daemon) as probe:
            for _ in range(20):
                flood = Client(daemon)
                flood.send_bytes(self.REQUESTS)
                flood.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                flood.close()
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline and probe.call("server.stats")["sessions"] > 1:
                time.sleep(0.02)
            stats = probe.call("server.stats")
            self.assertEqual(stats["sessions"], 1)
            self.assertLess(stats["requests"], 100000)


class LargeMessages(unittest.TestCase):
    def test_a_large_scene_does_not_hold_up_others(self):
        with Daemon("--workers", "2") as daemon, Client(daemon) as big, Client(daemon) as small:
            world = small.call("world.create", scene=particle())["world"]
            scene = cable(count=20000, record={"enabled": False}, constraints=[])
            scene["bodies"][0]["nodes"] = encode_array(
                numpy.array(scene["bodies"][0]["nodes"]))
            slowest, stop = [0.0], threading.Event()

            def probe():
                while not stop.is_set():
                    begin = time.monotonic()
                    small.call("world.state", world=world)
                    slowest[0] = max(slowest[0], time.monotonic() - begin)
                    time.sleep(0.002)

            thread = threading.Thread(target=probe)
            thread.start()
            made = big.call("world.create", scene=scene, timeout=60)
            stop.set()
            thread.join()
            self.assertEqual(made["bodies"][0]["node_count"], 20000)
            self.assertLess(slowest[0], 2 if SANITIZED else 0.3)

    def test_large_and_small_messages_keep_their_order(self):
        """A large control and the steps behind it, in one write."""
        with Daemon() as daemon, Client(daemon) as client:
            world = client.call("world.create", scene=cable(
                count=3000, gravity=[0, 0, 0], dt=0.01, constraints=[],
                record={"enabled": False}))["world"]
            forces = [{"body": "c", "nodes": [i], "force": [0.1 * (i + 1), 0, 0]}
                      for i in range(3000)]
            message = msgpack.packb([0, 101, "world.control",
                                     [{"world": world, "control": {"forces": forces}}]])
            self.assertGreater(len(message), 100000)
            message += msgpack.packb([0, 102, "world.step",
                                      [{"world": world, "velocities": True}]])
            client.send_bytes(message)
            control, step = client.result(101), client.result(102)
            self.assertEqual(control, {"step": 0, "accepted": True})
            self.assertGreater(step["velocities"][2999, 0], step["velocities"][0, 0])
            self.assertGreater(step["velocities"][0, 0], 0)

    def test_a_reply_beyond_the_limit_says_so(self):
        with Daemon("--max-message-bytes", "200K") as daemon, Client(daemon) as client:
            worlds = []
            for count in (1000, 9000):
                scene = cable(count=count, constraints=[], record={"enabled": False})
                scene["bodies"][0]["nodes"] = encode_array(
                    numpy.array(scene["bodies"][0]["nodes"], dtype="<f4"))
                worlds.append(client.call("world.create", scene=scene)["world"])
            world, many = worlds
            client.call("world.state", world=world, precision="float64")
            for method, more in (("world.state", {}), ("world.step", {"positions": True})):
                with self.assertRaises(RpcError) as caught:
                    client.call(method, world=many, precision="float64", **more)
                self.assertEqual(caught.exception.name, "LIMIT")
                self.assertIn("--max-message-bytes", caught.exception.message)


class Stopping(unittest.TestCase):
    def test_an_idle_daemon_stops_at_once(self):
        with Daemon() as daemon, Client(daemon) as client:
            client.call("hello")
            begin = time.monotonic()
            daemon.stop()
            self.assertLess(time.monotonic() - begin, 10 if SANITIZED else 2)

    def test_a_batch_that_runs_is_answered(self):
        with Daemon() as daemon, Client(daemon) as client:
            world = client.call("world.create", scene=particle())["world"]
            batch = client.request("world.step", {"world": world, "n": 1000000000})
            queued = client.request("world.step", {"world": world, "n": 5})
            time.sleep(0.1)
            daemon.signal(signal.SIGTERM)
            reply = client.result(batch)
            self.assertEqual(reply["status"], "draining")
            after = client.result(queued)
            self.assertEqual((after["status"], after["reached"]), ("draining", reply["reached"]))
            client.wait_closed()
            self.assertEqual(daemon.wait(), 0)

    def test_a_terminal_that_closes_drains_unless_told_otherwise(self):
        # Whoever runs the tests may have told them to outlive the terminal: a child inherits that.
        before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
        self.addCleanup(signal.signal, signal.SIGHUP, before)
        with Daemon() as daemon:
            daemon.signal(signal.SIGHUP)
            self.assertEqual(daemon.wait(), 0)
        with Daemon(wrapper=["nohup"]) as daemon:
            daemon.signal(signal.SIGHUP)
            time.sleep(0.3)
            with Client(daemon) as client:
                client.call("hello")

    def test_draining_by_request(self):
        with Daemon() as daemon, Client(daemon) as client:
            self.assertEqual(client.call("server.drain"), {"draining": True})
            client.wait_closed()
            self.assertEqual(daemon.wait(), 0)

    def test_a_second_signal_ends_it_at_once(self):
        daemon = Daemon("--drain-s", "60").start()
        try:
            with Client(daemon) as lazy:
                lazy.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                world = lazy.call("world.create", scene=cable(
                    count=5000, constraints=[], record={"enabled": False}))["world"]
                for _ in range(250):
                    lazy.request("world.state", {"world": world})
                time.sleep(0.5)
                daemon.signal(signal.SIGTERM)
                time.sleep(0.5)
                self.assertIsNone(daemon.process.poll())
                daemon.signal(signal.SIGTERM)
                self.assertEqual(daemon.wait(5), 5)
        finally:
            daemon.remove()

    def test_a_client_that_never_reads_does_not_hold_up_the_end(self):
        with Daemon("--drain-s", "1") as daemon, Client(daemon) as lazy:
            lazy.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            world = lazy.call("world.create", scene=cable(
                count=5000, constraints=[], record={"enabled": False}))["world"]
            for _ in range(250):
                lazy.request("world.state", {"world": world})
            time.sleep(0.5)
            begin = time.monotonic()
            daemon.stop()
            self.assertLess(time.monotonic() - begin, 15 if SANITIZED else 4)

    def test_no_work_while_draining(self):
        daemon = Daemon("--drain-s", "3").start()
        try:
            with Client(daemon) as lazy, Client(daemon) as client:
                lazy.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                world = client.call("world.create", scene=cable(
                    count=20000, constraints=[], record={"enabled": False}))["world"]
                batch = client.request("world.step", {"world": world, "n": 1000000000})
                time.sleep(0.1)
                # In one write with the drain: the step behind it comes too late.
                client.send_bytes(msgpack.packb([0, 77, "server.drain", []])
                                  + msgpack.packb([0, 78, "world.step", [{"world": world}]]))
                self.assertEqual(client.result(77), {"draining": True})
                with self.assertRaises(RpcError) as caught:
                    client.result(78)
                self.assertEqual(caught.exception.name, "STATE")
                self.assertEqual(client.result(batch)["status"], "draining")
                with self.assertRaises(OSError):
                    socket.create_connection(daemon.address, timeout=2)
            self.assertEqual(daemon.wait(), 0)
        finally:
            daemon.remove()

    def test_private_daemons_end_when_nobody_is_there(self):
        with Daemon("--idle-exit-s", "1") as daemon:
            with Client(daemon) as client:
                time.sleep(2.5)
                client.call("hello")
            self.assertEqual(daemon.wait(10), 0)
            self.assertIn("reason=idle", daemon.log())

    def test_an_idle_daemon_sleeps(self):
        with Daemon() as daemon, Client(daemon) as client:
            world = client.call("world.create", scene=particle())["world"]
            client.call("world.step", world=world, n=100)
            time.sleep(0.3)
            pid = daemon.process.pid

            def cpu():
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            before = cpu()
            time.sleep(1.0)
            self.assertLess(cpu() - before, 0.05)


if __name__ == "__main__":
    unittest.main()
