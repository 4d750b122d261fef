"""A qpcollided of a test's own: on a free loopback port, with a data folder that goes with it.

    with Daemon("--workers", "1") as daemon:
        sock = socket.create_connection(daemon.address)

Leaving the block sends SIGTERM and insists on exit status 0, so that every test checks the drain
and, in sanitized builds, that nothing was reported. `daemon.log()` is what it wrote.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

SOURCE = pathlib.Path(os.environ.get("QPC_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("QPC_BUILD", SOURCE / "build-test"))
QPCOLLIDED = BUILD / "server" / "qpcollided"
QPC = BUILD / "client" / "cli" / "qpc"
# Waits scale with what the build costs; a wait that is too short tells nothing of the product.
TIME_SCALE = 10 if os.environ.get("QPC_SANITIZE") else 2


class Daemon:
    def __init__(self, *options, data=None, listen="127.0.0.1:0", env=None, wrapper=()):
        """options go to the command line; data is a folder to keep (default: a temporary one)."""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="qpcollide-test-"))
        self.data = pathlib.Path(data) if data else self.folder / "data"
        self.port_file = self.folder / "port"
        self.log_path = self.folder / "log"
        self.command = [*wrapper, str(QPCOLLIDED)]
        if listen:
            self.command += ["--listen", listen]
        self.command += ["--data", str(self.data), "--port-file", str(self.port_file), *options]
        self.env = {**os.environ, **(env or {})}
        self.process = None
        self.listeners = []  # ("tcp", host, port) and ("unix", path)

    @property
    def address(self):
        """(host, port) of the first TCP listener."""
        return next((entry[1], entry[2]) for entry in self.listeners if entry[0] == "tcp")

    @property
    def server(self):
        """The same as qpc's --server takes it."""
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, env=self.env)
        deadline = time.monotonic() + 10 * TIME_SCALE
        while True:
            text = self.port_file.read_text() if self.port_file.exists() else ""
            if text.endswith("\n"):
                break
            if self.process.poll() is not None:
                raise RuntimeError(f"qpcollided ended with {self.process.returncode}:\n{self.log()}")
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"qpcollided wrote no port file:\n{self.log()}")
            time.sleep(0.01)
        self.listeners = []
        for line in text.splitlines():
            words = line.split(" ", 2) if line.startswith("tcp") else line.split(" ", 1)
            self.listeners.append(
                ("tcp", words[1], int(words[2])) if words[0] == "tcp" else (words[0], words[1]))
        return self

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=20):
        return self.process.wait(timeout * TIME_SCALE)

    def stop(self):
        """SIGTERM, drain, exit 0."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            status = self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"qpcollided did not drain in time:\n{self.log()}") from None
        if status != 0:
            raise RuntimeError(f"qpcollided ended with {status} instead of 0:\n{self.log()}")

    def kill(self):
        """kill -9, as a crash does; the data folder stays for the next start."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.port_file.unlink(missing_ok=True)

    def restart(self):
        """Start again on the same data, after stop() or kill()."""
        self.port_file.unlink(missing_ok=True)
        return self.start()

    def remove(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                self.stop()
            elif self.log():
                print("# qpcollided said:\n" + "\n".join("#   " + line
                      for line in self.log().splitlines()[-40:]))
        finally:
            self.remove()
