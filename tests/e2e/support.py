"""A raw MessagePack-RPC client for tests of the daemon, and small scenes.

It knows nothing of the product's own clients: bytes go out as the test says, messages that come in
are sorted into replies (by id) and notifications. Arrays are decoded as msgpack-numpy writes them.
"""

import os
import pathlib
import socket
import sys
import time

import msgpack
import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from daemon import SOURCE, TIME_SCALE, Daemon  # noqa: E402,F401

DATA = SOURCE / "tests" / "data"
SANITIZED = bool(os.environ.get("QPC_SANITIZE"))


def decode_array(value):
    """Object hook: the map {nd, type, kind, shape, data}, with str or bin keys, to numpy."""
    if b"nd" in value:
        value = {(k.decode() if isinstance(k, bytes) else k): v for k, v in value.items()}
    if value.get("nd") is True:
        kind = value["type"]
        kind = kind.decode() if isinstance(kind, bytes) else kind
        return numpy.frombuffer(value["data"], dtype=kind).reshape(value["shape"])
    return value


def encode_array(array, bin_keys=False):
    array = numpy.ascontiguousarray(array)
    items = {"nd": True, "type": array.dtype.str, "kind": "", "shape": list(array.shape),
             "data": array.tobytes()}
    if bin_keys:
        items = {k.encode(): v for k, v in items.items()}
    return items


class RpcError(Exception):
    def __init__(self, error):
        super().__init__(f"{error['name']} ({error['code']}): {error['message']}")
        self.code, self.name = error["code"], error["name"]
        self.message, self.data = error["message"], error["data"]


class Closed(Exception):
    """The server closed the connection."""


class Client:
    def __init__(self, where, timeout=10):
        """where: a Daemon, (host, port), or the path of a Unix socket."""
        if isinstance(where, Daemon):
            where = where.address
        if isinstance(where, str):
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.connect(where)
        else:
            self.sock = socket.create_connection(where, timeout=timeout)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timeout = timeout * TIME_SCALE
        self.unpacker = msgpack.Unpacker(raw=False, strict_map_key=False,
                                         object_hook=decode_array, max_buffer_size=2**30)
        self.next_id = 0
        self.replies = {}
        self.notifications = []
        self.received = 0

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- bytes ----

    def send_bytes(self, data):
        self.sock.settimeout(self.timeout)
        self.sock.sendall(data)

    def receive(self, timeout):
        """Take in what comes within timeout; False if nothing came. Closed at the end of it."""
        self.sock.settimeout(max(timeout, 0.001))
        try:
            data = self.sock.recv(1 << 20)
        except (TimeoutError, socket.timeout):
            return False
        except ConnectionError as error:
            raise Closed(str(error)) from None
        if not data:
            raise Closed("end of stream")
        self.received += len(data)
        self.unpacker.feed(data)
        for message in self.unpacker:
            if message[0] == 1:
                if message[1] in self.replies:
                    raise AssertionError(f"two replies to {message[1]}")
                self.replies[message[1]] = message
            elif message[0] == 2:
                self.notifications.append(message)
            else:
                raise AssertionError(f"not a reply: {message!r}")
        return True

    # ---- calls ----

    def request(self, method, params=None, ident=None):
        """Send a request, do not wait: its id."""
        if ident is None:
            self.next_id += 1
            ident = self.next_id
        self.send_bytes(msgpack.packb([0, ident, method, [] if params is None else [params]]))
        return ident

    def notify(self, method, params):
        self.send_bytes(msgpack.packb([2, method, [params]]))

    def reply(self, ident, timeout=None):
        """The whole reply [1, id, error, result]."""
        deadline = time.monotonic() + (timeout or self.timeout)
        while ident not in self.replies:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no reply to request {ident}")
            self.receive(left)
        return self.replies.pop(ident)

    def result(self, ident, timeout=None):
        _, _, error, result = self.reply(ident, timeout)
        if error is not None:
            raise RpcError(error)
        return result

    def call(self, method, timeout=None, **params):
        return self.result(self.request(method, params), timeout)

    def notification(self, name, timeout=None):
        """The params of the next notification of that name."""
        deadline = time.monotonic() + (timeout or self.timeout)
        while True:
            for i, message in enumerate(self.notifications):
                if message[1] == name:
                    del self.notifications[i]
                    return message[2][0]
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no notification {name}")
            self.receive(left)

    def wait_closed(self, timeout=5):
        """Read until the server closes; what came is kept."""
        deadline = time.monotonic() + timeout * TIME_SCALE
        try:
            while time.monotonic() < deadline:
                self.receive(deadline - time.monotonic())
        except Closed:
            return
        raise TimeoutError("the server did not close the connection")


# ---- scenes ----

def particle(**more):
    """One falling particle: a cable of one node."""
    return {"bodies": [{"kind": "cable", "name": "p", "nodes": [[0.0, 0.0, 0.0]], "mass": 1.0,
                        "stiffness": 1.0, "radius": 0.01}], **more}


def cable(count=20, spacing=0.1, **more):
    """A hanging cable, fixed at its first node."""
    nodes = [[0.0, -spacing * i, 0.0] for i in range(count)]
    return {"bodies": [{"kind": "cable", "name": "c", "nodes": nodes, "mass": 0.1,
                        "stiffness": 1e4, "radius": 0.01}],
            "constraints": [{"kind": "fixed", "body": "c", "nodes": [0]}], **more}


def sheet(size=1.0, y=-1.0):
    """Vertices and elements of a square of two triangles."""
    s = size / 2
    vertices = numpy.array([[-s, y, -s], [s, y, -s], [s, y, s], [-s, y, s]])
    elements = numpy.array([[0, 2, 1], [0, 3, 2]], dtype=numpy.int32)
    return vertices, elements


def canonical(vertices, elements):
    """The bytes that a mesh's SHA-256 is over."""
    vertices = numpy.asarray(vertices, dtype="<f8") + 0.0  # -0 as 0
    elements = numpy.asarray(elements, dtype="<i4")
    return (b"QPM1" + elements.shape[1].to_bytes(4, "little")
            + len(vertices).to_bytes(8, "little") + len(elements).to_bytes(8, "little")
            + vertices.tobytes() + elements.tobytes())
