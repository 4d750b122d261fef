"""Client of qpcollided, the collision simulation server: msgpack and numpy, nothing else.

    import qpcollide
    with qpcollide.connect("127.0.0.1:7447") as client:
        world = client.create_world(qpcollide.load_scene("pulley-1.json", client))
        reply = world.step(100, positions=True)
        print(reply["summary"]["worst"], reply["positions"].shape)

No installation: put client/python on PYTHONPATH. Recorded runs can be read without a server:
qpcollide.Replay("....qpc").
"""

from .client import (Client, ConnectionLost, Frame, QpcError, Timeout, World, connect, error_class)
from .client import (Busy, Cancelled, Corrupt, Deadline, Exists, Full, Internal, Invalid, IoError,
                     LimitExceeded, Malformed, MemoryExhausted, NotFound, NumericError, StateError,
                     Unauthorised, UnknownMethod, Unsupported)
from .replay import Replay
from .scene import SceneError, load as load_scene, read_mesh, resolve as resolve_scene
from .wire import canonical_mesh, mesh_sha256, pack, unpack

__all__ = [
    "Client", "ConnectionLost", "Frame", "QpcError", "Timeout", "World", "connect", "error_class",
    "Busy", "Cancelled", "Corrupt", "Deadline", "Exists", "Full", "Internal", "Invalid", "IoError",
    "LimitExceeded", "Malformed", "MemoryExhausted", "NotFound", "NumericError", "StateError",
    "Unauthorised", "UnknownMethod", "Unsupported", "Replay", "SceneError", "load_scene",
    "read_mesh", "resolve_scene", "canonical_mesh", "mesh_sha256", "pack", "unpack",
]
