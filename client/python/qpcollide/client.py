"""The connection to a server, and one method for each of its methods.

A Client belongs to one thread at a time. Calls block; notifications that come meanwhile are kept and
given out by poll() and next_frame(). Asynchronous use: send() gives an id, fileno() works with
select, poll() gives what has come, wait(id) one reply.

Errors of the server are QpcError, by code a subclass of it (Invalid, NotFound, StateError, ...), with
code, name, message and data. ConnectionLost and Timeout are of this side.
"""

import collections
import hashlib
import os
import socket
import time

import numpy as np

from . import wire

DEFAULT_ADDRESS = "127.0.0.1:7447"
DEFAULT_PORT = 7447
CHUNK = 4 << 20
WHOLE_MAX = 48 << 10
MAX_KEPT = 4096


class QpcError(Exception):
    """The server answered with an error."""
    code = 0

    def __init__(self, code, name, message, data=None):
        super().__init__(f"{name}: {message}")
        self.code = code
        self.name = name
        self.message = message
        self.data = data


class ConnectionLost(ConnectionError):
    """The connection is gone. Connect again; a step repeated with the same key never steps twice."""


class Timeout(TimeoutError):
    """No answer in time. The connection is good; a late answer is dropped."""


_NAMES = {1: "Invalid", 2: "NotFound", 3: "Exists", 4: "LimitExceeded", 5: "Busy", 6: "StateError",
          7: "Unauthorised", 8: "Unsupported", 9: "UnknownMethod", 10: "Malformed",
          11: "MemoryExhausted", 12: "IoError", 13: "Full", 14: "Corrupt", 15: "NumericError",
          16: "Cancelled", 17: "Deadline", 18: "Internal"}
_CLASSES = {code: type(name, (QpcError,), {"code": code, "__doc__": f"Error code {code}."})
            for code, name in _NAMES.items()}
for _class in _CLASSES.values():
    globals()[_class.__name__] = _class


def error_class(code):
    """The exception class of an error code; QpcError for an unknown one."""
    return _CLASSES.get(code, QpcError)


def _raise(error):
    if isinstance(error, dict):
        code = error.get("code", 18)
        raise error_class(code)(code, error.get("name", "?"), error.get("message", ""),
                                error.get("data"))
    raise QpcError(18, "INTERNAL", f"the server's error is {error!r}")


Frame = collections.namedtuple("Frame", "subscription world step time hash dropped fields")
Frame.positions = property(lambda frame: frame.fields.get("positions"))
Frame.velocities = property(lambda frame: frame.fields.get("velocities"))


def parse_address(text):
    """("unix", path) or ("tcp", host, port) of "unix:/path", "host:port", "host", "[ipv6]:port"."""
    if text.startswith("unix:"):
        if len(text) == 5:
            raise ValueError(f"address {text!r}: the path is empty")
        return "unix", text[5:]
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"address {text!r}: wanted [ipv6]:port")
        port = rest[1:] if rest else str(DEFAULT_PORT)
    elif text.count(":") > 1:
        raise ValueError(f"address {text!r}: an IPv6 address goes in brackets")
    else:
        host, _, port = text.partition(":")
        port = port if ":" in text else str(DEFAULT_PORT)
    if not host:
        raise ValueError(f"address {text!r}: the host is empty")
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError(f"address {text!r}: the port must be 1 to 65535")
    return "tcp", host, int(port)


def connect(address=None, **options):
    """Client(address, ...): "host:port", "host", "[ipv6]:port" or "unix:/path"; by default what
    $QPC_SERVER says, else 127.0.0.1:7447."""
    return Client(address or os.environ.get("QPC_SERVER") or DEFAULT_ADDRESS, **options)


class Client:
    def __init__(self, address=DEFAULT_ADDRESS, *, timeout=30.0, name="python", token=None,
                 role=None, hello=True):
        """timeout: seconds for connecting and for each call; None waits for ever. hello=False sends
        none (it is optional on loopback)."""
        self.address = address
        self.timeout = timeout
        self.dropped = 0  # notifications dropped because too many were kept
        self._kept = collections.deque()  # notifications (method, map)
        self._replies = {}
        self._pending = set()
        self._next_id = 1
        self._farewell = None
        self._unpacker = wire.unpacker()
        where = parse_address(address)
        if where[0] == "unix":
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(timeout)
            try:
                self._socket.connect(where[1])
            except OSError:
                self._socket.close()
                raise
        else:
            self._socket = socket.create_connection(where[1:], timeout)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server = {}
        if hello:
            try:
                self.server = self.hello(name, token, role)
            except BaseException:
                self.close()
                raise

    # ---- the connection ----

    def close(self):
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def fileno(self):
        self._check_open()
        return self._socket.fileno()

    @property
    def is_open(self):
        return self._socket is not None

    def _check_open(self):
        if self._socket is None:
            raise ConnectionLost("the connection is closed" +
                                 (f": {self._farewell}" if self._farewell else ""))

    def _lost(self, how):
        self.close()
        raise ConnectionLost(how + (f": {self._farewell}" if self._farewell else ""))

    def _write(self, data):
        """Send everything, reading meanwhile, so that neither side blocks the other."""
        self._check_open()
        view = memoryview(data)
        while view:
            self._socket.settimeout(0)
            try:
                view = view[self._socket.send(view[:1 << 20]):]
                continue
            except BlockingIOError:
                pass
            except OSError as error:
                self._lost(f"the connection broke: {error.strerror}")
            self._read_some(0)
            self._socket.settimeout(0.02)
            try:
                view = view[self._socket.send(view[:1 << 20]):]
            except (BlockingIOError, TimeoutError):
                pass
            except OSError as error:
                self._lost(f"the connection broke: {error.strerror}")

    def _read_some(self, timeout):
        """Take in what comes within timeout seconds (None: wait). False if nothing came."""
        self._check_open()
        self._socket.settimeout(timeout)
        try:
            data = self._socket.recv(1 << 20)
        except (BlockingIOError, TimeoutError):
            return False
        except OSError as error:
            self._lost(f"the connection broke: {error.strerror}")
        if not data:
            self._lost("the server closed the connection")
        self._unpacker.feed(data)
        for message in self._unpacker:
            self._take(message)
        return True

    def _take(self, message):
        if isinstance(message, list) and len(message) == 4 and message[0] == 1:
            if message[1] in self._pending:
                self._pending.discard(message[1])
                self._replies[message[1]] = (message[2], message[3])
        elif isinstance(message, list) and len(message) == 3 and message[0] == 2:
            params = message[2][0] if message[2] else {}
            if message[1] == "error":
                self._farewell = f"{params.get('name')}: {params.get('message')}"
            if len(self._kept) >= MAX_KEPT:
                self._kept.popleft()
                self.dropped += 1
            self._kept.append((message[1], params))
        elif not (isinstance(message, list) and message and message[0] == 0):
            self._lost(f"not a MessagePack-RPC message: {message!r:.60}")

    # ---- requests ----

    def send(self, method, params=None):
        """Send a request without waiting; its id."""
        number = self._next_id
        self._next_id += 1
        self._pending.add(number)
        try:
            self._write(wire.pack([0, number, method, [params] if params else []]))
        except BaseException:
            self._pending.discard(number)
            raise
        return number

    def notify(self, method, params=None):
        """Send a notification (world.control, world.credit): never answered."""
        self._write(wire.pack([2, method, [params] if params else []]))

    def wait(self, number, timeout=...):
        """Result of a request that was sent; raises its error."""
        timeout = self.timeout if timeout is ... else timeout
        end = None if timeout is None else time.monotonic() + timeout
        while number not in self._replies:
            if self._socket is not None and number not in self._pending:
                raise KeyError(f"request {number} is not in flight")
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise Timeout(f"no answer to request {number} in {timeout} s")
            self._read_some(left)
        error, result = self._replies.pop(number)
        if error is not None:
            _raise(error)
        return result

    def forget(self, number):
        """Drop the answer to a request when it comes."""
        self._pending.discard(number)
        self._replies.pop(number, None)

    def call(self, method, params=None, *, timeout=..., **more):
        """Send a request and wait for its result. Parameters: a map, or keywords."""
        params = {**(params or {}), **more}
        number = self.send(method, params)
        try:
            return self.wait(number, timeout)
        except BaseException:
            self.forget(number)
            raise

    def poll(self, timeout=0.0):
        """("reply", id, error, result) or ("notification", method, map); None if nothing came."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            if self._kept:
                return ("notification", *self._kept.popleft())
            if self._replies:
                number = next(iter(self._replies))
                return ("reply", number, *self._replies.pop(number))
            left = None if end is None else max(0.0, end - time.monotonic())
            if not self._read_some(left) and left is not None and time.monotonic() >= end:
                return None

    # ---- the methods ----

    def hello(self, name="python", token=None, role=None):
        return self.call("hello", _given(version=1, client=name, token=token, role=role))

    def describe(self):
        """The table of methods itself."""
        return self.call("rpc.describe")

    def upload_mesh(self, vertices, elements, name=None, progress=None):
        """SHA-256 of a mesh that the server has afterwards; known ones are not sent again.
        vertices (n, 3) m, elements (m, 2..4). progress(sent, total) is called as bytes go out."""
        vertices = np.asarray(vertices, "<f8")
        elements = np.asarray(elements, "<i4")
        data = wire.canonical_mesh(vertices, elements)
        sha256 = hashlib.sha256(data).hexdigest()
        half = self.server.get("limits", {}).get("max_message_bytes", 2 * CHUNK) // 2
        if len(data) <= min(WHOLE_MAX, half):
            reply = self.call("mesh.upload", _given(vertices=vertices, elements=elements, name=name))
        else:
            if any(mesh["sha256"] == sha256 for mesh in self.list_meshes()):
                return sha256
            chunk = min(CHUNK, half)
            for at in range(0, len(data), chunk):
                part = data[at:at + chunk]
                reply = self.call("mesh.upload", _given(
                    sha256=sha256, size=len(data), offset=at, data=part,
                    name=name if at == 0 else None))
                if progress:
                    progress(at + len(part), len(data))
                if reply.get("complete"):
                    break
        if reply.get("sha256") != sha256:
            raise QpcError(14, "CORRUPT", f"the server has the mesh as {reply.get('sha256')}")
        return sha256

    def list_meshes(self):
        return self.call("mesh.list")["meshes"]

    def get_mesh(self, sha256):
        """(vertices, elements)"""
        reply = self.call("mesh.get", sha256=sha256)
        return reply["vertices"], reply["elements"]

    def check_mesh(self, sha256, use=None, list=None):
        """Pre-flight: {use, errors, warnings, facts}; see docs/mesh-files.md."""
        return self.call("mesh.check", _given(sha256=sha256, use=use, list=list))

    def preflight_scene(self, scene, list=None):
        """Pre-flight of a scene in its wire form: {errors, warnings, bodies, mass_ratio}."""
        return self.call("scene.check", _given(scene=scene, list=list))

    def delete_mesh(self, sha256):
        return self.call("mesh.delete", sha256=sha256)

    def create_world(self, scene, name=None, *, idle_limit_s=None, exclusive=None):
        """World of a scene in wire form (load_scene() gives one)."""
        reply = self.call("world.create", _given(scene=scene, name=name, idle_limit_s=idle_limit_s,
                                                 exclusive=exclusive))
        return World(self, reply["world"], reply)

    def check_scene(self, scene):
        """What world.create would say, without a world: warnings, close_pairs, bodies, moved_nodes."""
        return self.call("world.create", scene=scene, dry_run=True)

    def world(self, number):
        """An existing world by its id."""
        return World(self, number, self.call("world.describe", world=number))

    def list_worlds(self):
        return self.call("world.list")["worlds"]

    def next_frame(self, subscription=None, timeout=...):
        """Next frame of a subscription (None: of any), or None if none came in time."""
        timeout = self.timeout if timeout is ... else timeout
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            for i in range(len(self._kept)):
                method, frame = self._kept[i]
                if method == "frame" and subscription in (None, frame["subscription"]):
                    del self._kept[i]
                    head = {key: frame.pop(key) for key in Frame._fields[:-1]}
                    return Frame(fields=frame, **head)
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return None
            self._read_some(left)

    def grant_credit(self, subscription, frames):
        return self.call("world.credit", subscription=subscription, add=frames)["credit"]

    def unsubscribe(self, subscription):
        return self.call("world.unsubscribe", subscription=subscription)

    def list_runs(self):
        return self.call("run.list")["runs"]

    def describe_run(self, run):
        return self.call("run.describe", run=run)

    def run_frames(self, run, first=0, last=None, *, body=None, precision=None, page=None):
        """Frames of a recorded run one after the other: maps {step, time, positions}."""
        while first is not None:
            reply = self.call("run.frames", _given(run=run, **{"from": first}, to=last, body=body,
                                                   precision=precision, limit=page))
            yield from reply["frames"]
            first = reply["next"]

    def run_diagnostics(self, run, first=0, last=None, *, fields=None, page=10000):
        """Figures of every step of a recorded run: a map of name to array."""
        pages = []
        while first is not None:
            reply = self.call("run.diagnostics", _given(run=run, **{"from": first}, to=last,
                                                        fields=fields, limit=page))
            pages.append(reply["columns"])
            first = reply["next"]
        return {name: np.concatenate([page[name] for page in pages]) for name in pages[0]}

    def run_details(self, run, step, fields=None):
        """What a step of a recorded run left besides: maps of arrays contacts, reactions (forces of
        fixed points), limit_forces, conflicts (what contradicted) and joints, or those of them in fields."""
        return self.call("run.details", _given(run=run, step=step, fields=fields))

    def run_events(self, run, first=0, last=None, *, page=None):
        """Events of a recorded run one after the other: maps {step, kind, subject, message}."""
        while first is not None:
            reply = self.call("run.events", _given(run=run, **{"from": first}, to=last, limit=page))
            yield from reply["events"]
            first = reply["next"]

    def stats(self):
        return self.call("server.stats")

    def drain(self):
        return self.call("server.drain")


class World:
    """A world on the server. It lives there until destroy(), whatever happens to this object."""

    def __init__(self, client, number, info):
        self.client = client
        self.id = number
        self.info = info  # what world.create or world.describe said
        self.run = info.get("run")
        self.bodies = {body["name"]: body for body in info.get("bodies", [])}

    def _call(self, method, **params):
        return self.client.call(method, _given(world=self.id, **params))

    def step(self, n=1, *, expect_step=None, key=None, control=None, positions=None,
             velocities=None, contacts=None, precision=None, deadline_ms=None, timeout=...):
        """n steps. A batch that stops early is no exception: see reply["status"] and ["reached"]."""
        params = _given(world=self.id, n=n, expect_step=expect_step, key=key, control=control,
                        positions=positions, velocities=velocities, contacts=contacts,
                        precision=precision, deadline_ms=deadline_ms)
        return self.client.call("world.step", params, timeout=timeout)

    def state(self, *fields, precision=None, body=None):
        return self._call("world.state", fields=list(fields) or None, precision=precision, body=body)

    def positions(self, precision="float64"):
        """(nodes, 3) m, of all bodies that move."""
        return self.state("positions", precision=precision)["positions"]

    def slice_of(self, body):
        """Rows of a body in arrays of all nodes."""
        info = self.bodies[body]
        return slice(info["first_node"], info["first_node"] + info["node_count"])

    def control(self, control=None, **keys):
        """Forces, targets, motions, parameters (docs/scene.md)."""
        return self._call("world.control", control={**(control or {}), **keys})

    def cancel(self):
        return self._call("world.cancel")["cancelled"]

    def subscribe(self, *fields, every=None, precision=None, credit=None, policy=None,
                  max_queue=None):
        """Number of a subscription, for client.next_frame()."""
        return self._call("world.subscribe", fields=list(fields) or None, every=every,
                          precision=precision, credit=credit, policy=policy,
                          max_queue=max_queue)["subscription"]

    def describe(self):
        return self._call("world.describe")

    def destroy(self):
        return self._call("world.destroy")


def _given(**params):
    return {key: value for key, value in params.items() if value is not None}
