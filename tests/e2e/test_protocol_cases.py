"""The case files of tests/data/protocol (format protocol/1) against the daemon.

Every kind of step and expectation that occurs in them is carried out; one that is not known fails,
so that a new case file cannot pass by being ignored.
"""

import json
import os
import pathlib
import re
import resource
import socket
import struct
import subprocess
import time
import unittest

import msgpack

from support import DATA, SANITIZED, TIME_SCALE, Client, Closed, Daemon

ALONE = True  # limits in seconds

FOLDER = DATA / "protocol"
PROBE = bytes.fromhex("940007ae6e6f5f737563685f6d6574686f6490")


class CaseError(AssertionError):
    pass


def resident_mb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class Runner:
    def __init__(self, case):
        self.case = case
        self.connections = {}
        self.many = []
        self.probe_times = []
        self.cpu_share = {}

    # ---- the server ----

    def run(self):
        limits = self.case.get("server", {}).get("limits", {})
        wrapper = []
        if "open_files" in limits:
            wrapper = ["prlimit", f"--nofile={limits.pop('open_files')}"]
        if limits:
            raise CaseError(f"unknown server limits {sorted(limits)}")
        # Connections that this process opens count too.
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
        with Daemon(wrapper=wrapper) as self.daemon:
            self.probe()
            self.pid = self.daemon.process.pid
            self.start_descriptors = descriptors(self.pid)
            self.start_memory = resident_mb(self.pid)
            self.peak_memory = self.start_memory
            self.steps(self.case["steps"])
            self.check_expectations()
            for connection in [*self.connections.values(), *self.many]:
                connection.close()

    def connect(self):
        connection = Client(self.daemon.address)
        connection.next_id = 0
        return connection

    def probe(self):
        begin = time.monotonic()
        with self.connect() as connection:
            connection.send_bytes(PROBE)
            reply = connection.reply(7, 10 * TIME_SCALE)
        self.check_error_reply(reply)
        self.probe_times.append(time.monotonic() - begin)

    # ---- steps ----

    def steps(self, steps, deadline=None):
        for step in steps:
            kinds = [kind for kind in step if hasattr(self, "step_" + kind)]
            if len(kinds) != 1:
                raise CaseError(f"unknown step {step}")
            getattr(self, "step_" + kinds[0])(step, step[kinds[0]])
            if self.daemon.process.poll() is None:
                self.peak_memory = max(self.peak_memory, resident_mb(self.daemon.process.pid))

    def step_connect(self, step, name):
        if name in self.connections:
            self.connections[name].close()
        self.connections[name] = self.connect()

    def step_send_file(self, step, name):
        connection = self.connections[step["on"]]
        try:
            connection.send_bytes((FOLDER / name).read_bytes())
        except (ConnectionError, BrokenPipeError):
            pass  # closed on us: the expectation that follows decides

    def step_send_file_slowly(self, step, name):
        data = (FOLDER / name).read_bytes()
        for i in range(0, len(data), step["bytes"]):
            self.connections[step["on"]].send_bytes(data[i:i + step["bytes"]])
            time.sleep(step["every_ms"] / 1000)

    def step_shutdown_write(self, step, name):
        self.connections[name].sock.shutdown(socket.SHUT_WR)

    def step_reset(self, step, name):
        connection = self.connections.pop(name)
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def step_stop_reading(self, step, name):
        pass  # nothing reads unless a step asks for it

    def step_repeat(self, step, count):
        blocked = step.get("stop_when_blocked_s")
        for _ in range(count):
            if blocked is None:
                self.steps(step["steps"])
                continue
            # The one step inside sends; being blocked for so long, or being closed, ends the series.
            inner, = step["steps"]
            connection = self.connections[inner["on"]]
            connection.sock.settimeout(blocked)
            try:
                connection.sock.sendall((FOLDER / inner["send_file"]).read_bytes())
            except (TimeoutError, socket.timeout, ConnectionError):
                break

    def step_every_s(self, step, period):
        end = time.monotonic() + step["for_s"]
        while time.monotonic() < end:
            self.steps(step["steps"])
            time.sleep(period)

    def step_wait_s(self, step, seconds):
        pid = self.daemon.process.pid
        before = cpu_seconds(pid)
        time.sleep(seconds)
        self.cpu_share[f"wait_s {seconds}"] = (cpu_seconds(pid) - before) / seconds

    def step_connect_many(self, step, count):
        for _ in range(count):
            try:
                self.many.append(self.connect())
            except OSError:
                if not step.get("tolerate_refusal"):
                    raise

    def step_close_some(self, step, count):
        # The oldest: those are the ones that were served.
        for connection in self.many[:count]:
            connection.close()
        del self.many[:count]

    def step_probe(self, step, where):
        if where != "new_connection":
            raise CaseError(f"unknown probe {where}")
        self.probe()

    def step_stop_server(self, step, how):
        self.port = self.daemon.address[1]
        self.daemon.stop()

    def step_start_server(self, step, how):
        if how == "same port":
            self.daemon.command[self.daemon.command.index("--listen") + 1] = \
                f"127.0.0.1:{self.port}"
            self.daemon.restart()
            self.pid = self.daemon.process.pid
            return
        expected = step["expect_exit"]
        second = Daemon(listen=f"127.0.0.1:{self.port}")
        try:
            begin = time.monotonic()
            done = subprocess.run(second.command, capture_output=True, text=True,
                                  timeout=10 * TIME_SCALE, check=False)
            took = time.monotonic() - begin
        finally:
            second.remove()
        if done.returncode == expected["code_not"]:
            raise CaseError(f"the second instance ended with {done.returncode}")
        if took > expected["within_s"] * (TIME_SCALE if SANITIZED else 1):
            raise CaseError(f"the second instance took {took:.1f} s to end")
        for word in expected["message_mentions"]:
            if word not in done.stderr.lower():
                raise CaseError(f"'{word}' is not in: {done.stderr}")

    # ---- expectations inside the steps ----

    @staticmethod
    def check_error_reply(reply):
        if reply[2] is None or reply[3] is not None:
            raise CaseError(f"not an error reply: {reply!r}")
        if not isinstance(reply[2].get("code"), int) or not reply[2].get("message"):
            raise CaseError(f"an error without code or message: {reply!r}")

    @staticmethod
    def limit(seconds):
        return seconds * (TIME_SCALE if SANITIZED else 1)

    def step_expect_reply(self, step, expected):
        connection = self.connections[expected["on"]]
        before = connection.received
        reply = connection.reply(expected["msgid"], self.limit(expected["within_s"]))
        if expected["error"] != "not nil" or expected["result"] != "nil":
            raise CaseError(f"unknown expectation {expected}")
        self.check_error_reply(reply)
        if connection.received - before > 4096 and not connection.replies:
            raise CaseError("the reply has more than 4 kB")

    def step_expect_replies(self, step, expected):
        connection = self.connections[expected["on"]]
        match = re.match(r"(\d+)\.\.(\d+) each exactly once", expected["msgids"])
        deadline = time.monotonic() + self.limit(expected["within_s"])
        for ident in range(int(match[1]), int(match[2]) + 1):
            self.check_error_reply(connection.reply(ident, max(deadline - time.monotonic(), 0.01)))

    def step_expect_no_reply(self, step, expected):
        connection = self.connections[expected["on"]]
        end = time.monotonic() + expected["for_s"]
        try:
            while time.monotonic() < end:
                connection.receive(end - time.monotonic())
        except Closed:
            pass
        if connection.replies or connection.notifications:
            raise CaseError(f"unexpected {connection.replies} {connection.notifications}")

    def step_expect_closed(self, step, expected):
        connection = self.connections[expected["on"]]
        deadline = time.monotonic() + self.limit(expected["within_s"])
        try:
            while time.monotonic() < deadline:
                connection.receive(deadline - time.monotonic())
        except Closed:
            return
        raise CaseError("the connection is still open")

    def step_expect_error_reply_or_close(self, step, expected):
        connection = self.connections[expected["on"]]
        deadline = time.monotonic() + self.limit(expected["within_s"])
        errors = 0
        closed = False
        try:
            while time.monotonic() < deadline and not connection.replies:
                connection.receive(deadline - time.monotonic())
        except Closed:
            closed = True
        if not closed:
            # An error goes out first, then the close; look for a flood in what follows.
            try:
                while connection.receive(0.2):
                    pass
            except Closed:
                closed = True
        for ident, reply in connection.replies.items():
            self.check_error_reply(reply)
            errors += 1
            if ident in expected.get("not_msgid", []):
                raise CaseError(f"a reply to the wrong id {ident}")
        for message in connection.notifications:
            if message[1] != "error" or not message[2][0]["message"]:
                raise CaseError(f"unexpected notification {message}")
            errors += 1
        if errors > 3:
            raise CaseError(f"{errors} errors to one connection")
        if not closed and not connection.replies and not expected.get("or_idle") and \
                not expected.get("or_ignored"):
            raise CaseError("neither an error reply nor the end of the connection")

    # ---- expectations of the whole ----

    def check_expectations(self):
        for expected in self.case["expect"]:
            kind = expected["check"]
            if not hasattr(self, "check_" + kind):
                raise CaseError(f"unknown check {kind}")
            getattr(self, "check_" + kind)(expected.get("value"), expected)

    def check_memory_growth_below_mb(self, value, expected):
        growth = self.peak_memory - self.start_memory
        if growth > value * (4 if SANITIZED else 1):
            raise CaseError(f"memory grew by {growth:.0f} MB")

    def check_probe_answered_within_s(self, value, expected):
        self.probe()
        slowest = max(self.probe_times)
        if slowest > self.limit(value):
            raise CaseError(f"a probe took {slowest:.2f} s")

    def check_server_process_alive(self, value, expected):
        if self.daemon.process.poll() is not None:
            raise CaseError(f"the server ended with {self.daemon.process.returncode}")

    def check_open_descriptors_back_to_start_within_s(self, value, expected):
        deadline = time.monotonic() + self.limit(value)
        while descriptors(self.pid) > self.start_descriptors:
            if time.monotonic() > deadline:
                raise CaseError(f"{descriptors(self.pid)} descriptors, "
                                f"{self.start_descriptors} at the start")
            time.sleep(0.05)

    def check_cpu_share_below(self, value, expected):
        share = self.cpu_share[expected["while"]]
        if share > value:
            raise CaseError(f"{share:.0%} of a core while it should have been idle")

    def check_log_lines_below(self, value, expected):
        lines = len(self.daemon.log().splitlines())
        if lines >= value:
            raise CaseError(f"{lines} lines of log")


class ProtocolCases(unittest.TestCase):
    def test_every_bin_file_belongs_to_a_case(self):
        text = "".join(path.read_text() for path in FOLDER.glob("*.json"))
        for path in FOLDER.glob("*.bin"):
            self.assertIn(path.name, text)

    def test_the_probe_is_what_the_format_says(self):
        self.assertEqual(msgpack.unpackb(PROBE), [0, 7, "no_such_method", []])


def add_cases():
    for path in sorted(FOLDER.glob("*.json")):
        case = json.loads(path.read_text())
        if case["format"] != "protocol/1":
            raise CaseError(f"{path.name} has format {case['format']}")

        def test(self, case=case):
            Runner(case).run()

        title = re.sub(r"[^a-z0-9]+", "_", case["title"].lower()).strip("_")
        setattr(ProtocolCases, f"test_{case['id']}_{title}", test)


add_cases()

if __name__ == "__main__":
    unittest.main()
