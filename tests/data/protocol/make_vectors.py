#!/usr/bin/python3
"""Write vectors.txt: what Python's msgpack makes of values, and what they are as JSON.

Run with Debian's python3-msgpack and python3-numpy. Arrays are packed as msgpack_numpy packs them: the
same five keys in the same order, keys as bin. One vector a line:

    name <tab> flags <tab> bytes in hex <tab> value as JSON

Flags: `=` our encoder must make the same bytes, `b` with array keys as bin, `-` decoding only.
"""
import json
import pathlib

import msgpack
import numpy as np


def encode_array(o, keys=lambda s: s.encode()):
    """As msgpack_numpy.encode does for arrays and numpy scalars."""
    if isinstance(o, np.ndarray):
        data = o.data if o.flags["C_CONTIGUOUS"] else o.tobytes()
        return {keys("nd"): True, keys("type"): o.dtype.str, keys("kind"): keys(""),
                keys("shape"): o.shape, keys("data"): bytes(data)}
    if isinstance(o, (np.bool_, np.number)):
        return {keys("nd"): False, keys("type"): o.dtype.str, keys("data"): o.tobytes()}
    raise TypeError(type(o))


def to_json(o):
    if isinstance(o, np.ndarray):
        return to_json(o.tolist())
    if isinstance(o, np.generic):
        return o.item()
    if isinstance(o, bytes):
        return o.hex()
    if isinstance(o, dict):
        return {k: to_json(v) for k, v in o.items()}
    if isinstance(o, (list, tuple)):
        return [to_json(v) for v in o]
    return o


vectors = []


def add(name, value, flags="=", **options):
    packed = msgpack.packb(value, default=encode_array, **options)
    vectors.append((name, flags, packed.hex(), json.dumps(to_json(value), ensure_ascii=False)))


add("nil", None)
add("true", True)
add("false", False)
for i in (0, 1, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63 - 1,
          -1, -32, -33, -128, -129, -32768, -32769, -2**31, -2**31 - 1, -2**63):
    add(f"int {i}", i)
for f in (0.0, 1.5, -2.5e-300, 1.7976931348623157e308, 5e-324, 3.0):
    add(f"real {f!r}", f)
add("float32", 0.5, "-", use_single_float=True)
add("float32 of a third", float(np.float32(1 / 3)), "-", use_single_float=True)
for n in (0, 1, 31, 32, 255, 256):
    add(f"str of {n}", "x" * n)
for n in (0, 1, 255, 256):
    add(f"bin of {n}", bytes(i % 251 for i in range(n)))
add("text of other alphabets", "Zürich – 東京 – 🪢")
for n in (0, 1, 15, 16, 300):
    add(f"list of {n}", list(range(n)))
for n in (0, 1, 15, 16, 40):
    add(f"map of {n}", {f"k{i}": i for i in range(n)})
add("str by the old specification", "old", "-", use_bin_type=False)
add("keys as bin", {"plain": {"x": 1}}, "=")
vectors.append(("keys as bin", "-", msgpack.packb({b"x": 1, b"y": [2]}).hex(), '{"x": 1, "y": [2]}'))
add("nested", {"a": [{"b": [{"c": [1, [2, [3, {}]]]}]}, [], {}], "d": None})

step = {"world": 3, "n": 10, "expect_step": 120, "key": "a1", "positions": True,
        "control": {"forces": [{"body": "cable", "nodes": [0, -1], "force": [0.0, 1.5, 0.0]}]}}
add("step request", [0, 7, "world.step", [step]])

arrays = [
    ("float64 (2, 3)", np.arange(6, dtype="<f8").reshape(2, 3) / 4),
    ("float32 (4)", np.array([1, 2.5, -3, 0.25], dtype="<f4")),
    ("int32 (2, 2)", np.array([[1, -2], [2**31 - 1, -2**31]], dtype="<i4")),
    ("int64 (2)", np.array([2**62, -2**62], dtype="<i8")),
    ("uint64 (2)", np.array([1, 2**62], dtype="<u8")),
    ("uint8 (3)", np.array([0, 7, 255], dtype="|u1")),
    ("empty (0, 3)", np.zeros((0, 3), dtype="<f8")),
    ("four dimensions", np.arange(16, dtype="<i4").reshape(2, 2, 2, 2)),
    ("a column of a larger one", np.arange(12, dtype="<f8").reshape(4, 3)[:, 1]),
    ("Fortran order", np.asfortranarray(np.arange(6, dtype="<f8").reshape(2, 3))),
]
for name, a in arrays:
    add(f"array {name}", {"x": a}, "=b")
    packed = msgpack.packb({"x": a}, default=lambda o: encode_array(o, keys=lambda s: s))
    vectors.append((f"array {name}, keys as str", "=", packed.hex(), json.dumps({"x": to_json(a)})))
for s in (np.float64(0.1), np.float32(0.5), np.int32(-5), np.int64(2**40), np.uint64(7), np.uint8(9)):
    add(f"numpy scalar {s.dtype.str}", {"x": s}, "-")

path = pathlib.Path(__file__).with_name("vectors.txt")
path.write_text("".join("\t".join(v) + "\n" for v in vectors), encoding="utf-8")
print(f"{len(vectors)} vectors, {path.stat().st_size} bytes")
