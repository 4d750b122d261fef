"""MessagePack with arrays: numpy arrays travel as the maps that msgpack_numpy makes of them,
{nd: True, type: "<f8", kind: "", shape: [n, m], data: bytes}. Keys may be str or bytes in what comes;
str is sent. Arrays come back as numpy arrays of their own memory."""

import hashlib
import struct

import msgpack
import numpy as np

# Larger than any server sends by default; a server's max-message-bytes may be up to 2 GiB.
MAX_BUFFER = 2**31 - 1


def _default(value):
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError("arrays of objects cannot be sent")
        little = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
        return {"nd": True, "type": little.dtype.str, "kind": "", "shape": list(value.shape),
                "data": little.tobytes()}
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be sent")


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


def _array(value):
    kind = np.dtype(_text(value["type"]))
    if kind.hasobject:
        raise ValueError("an array of objects is not accepted")
    data = value["data"]
    if not value["nd"]:
        return np.frombuffer(data, kind, 1)[0]
    return np.frombuffer(data, kind).reshape(value["shape"]).copy()


def _object_hook(value):
    if b"nd" in value:
        value = {_text(key): item for key, item in value.items()}
    if "nd" in value and "type" in value and "data" in value:
        return _array(value)
    return value


def pack(value):
    """Bytes of a value; numpy arrays and scalars may be anywhere in it."""
    return msgpack.packb(value, default=_default, use_bin_type=True)


def unpack(data):
    """The value of exactly one message."""
    return msgpack.unpackb(data, object_hook=_object_hook, raw=False, strict_map_key=False)


def unpacker():
    """A streaming decoder: feed() it bytes, iterate over whole messages."""
    return msgpack.Unpacker(object_hook=_object_hook, raw=False, strict_map_key=False,
                            max_buffer_size=MAX_BUFFER)


def canonical_mesh(vertices, elements):
    """The bytes that a mesh's SHA-256 is taken over (docs/protocol.md)."""
    vertices = np.ascontiguousarray(vertices, "<f8") + 0.0  # -0 becomes 0
    elements = np.ascontiguousarray(elements, "<i4")
    if vertices.ndim != 2 or vertices.shape[1] != 3:
        raise ValueError(f"vertices must be (n, 3), not {vertices.shape}")
    if elements.ndim != 2 or not 2 <= elements.shape[1] <= 4:
        raise ValueError(f"elements must be (m, 2), (m, 3) or (m, 4), not {elements.shape}")
    head = struct.pack("<4sIQQ", b"QPM1", elements.shape[1], len(vertices), len(elements))
    return head + vertices.tobytes() + elements.tobytes()


def mesh_from_canonical(data):
    """(vertices, elements) of such bytes."""
    if len(data) < 24 or data[:4] != b"QPM1":
        raise ValueError("not a QPM1 mesh")
    nodes, vertex_count, element_count = struct.unpack_from("<IQQ", data, 4)
    if not 2 <= nodes <= 4 or len(data) != 24 + 24 * vertex_count + 4 * nodes * element_count:
        raise ValueError("the size of the QPM1 mesh does not fit its counts")
    vertices = np.frombuffer(data, "<f8", 3 * vertex_count, 24).reshape(-1, 3).copy()
    elements = np.frombuffer(data, "<i4", nodes * element_count, 24 + 24 * vertex_count)
    return vertices, elements.reshape(-1, nodes).copy()


def mesh_sha256(vertices, elements):
    return hashlib.sha256(canonical_mesh(vertices, elements)).hexdigest()
