"""Recorded runs, read from their file without a server (docs/storage.md says what is in it).

    run = Replay("runs/3f....qpc")
    print(run.name, run.dt, run.steps("step", "min_gap"))
    for frame in run.frames():
        frame.step, frame.time, frame.positions  # (nodes, 3) m

The file may still be written to: a reader sees what is committed. zstd is used through libzstd's C
functions, so that numpy is the only package needed.
"""

import collections
import ctypes
import ctypes.util
import json
import os
import sqlite3
import urllib.parse

import numpy as np

from . import wire

APPLICATION_ID = 0x51504352  # "QPCR"
VERSION = 3  # 2: without joints; 1: without reactions, limit_forces and conflicts, too
CONTACT = np.dtype([("body", "<i4", 2), ("feature", "<i4", 2), ("kind", "<i4"), ("reserved", "<i4"),
                    ("position", "<f8", 3), ("normal", "<f8", 3), ("gap", "<f8"), ("force", "<f8"),
                    ("key", "<u8"), ("friction", "<f8", 3)])

REACTION = np.dtype([("body", "<i4"), ("node", "<i4"), ("force", "<f8", 3)])
LIMIT_FORCE = np.dtype([("body", "<i4"), ("spring", "<i4"), ("force", "<f8")])
CONFLICT = np.dtype([("body", "<i4", 2), ("feature", "<i4", 2), ("kind", "<i4"), ("reserved", "<i4"),
                     ("key", "<u8")])
JOINT = np.dtype([("constraint", "<i4"), ("kind", "<i4"), ("position", "<f8", 3), ("force", "<f8", 3), ("torque", "<f8", 3),
                  ("tension", "<f8"), ("gap", "<f8")])

ReplayFrame = collections.namedtuple("ReplayFrame", "step substep time hash positions")


def _load_zstd():
    name = ctypes.util.find_library("zstd") or "libzstd.so.1"
    library = ctypes.CDLL(name)
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p,
                                        ctypes.c_size_t]
    library.ZSTD_isError.argtypes = [ctypes.c_size_t]
    return library


_zstd = None


def _decode(encoding, data, size, shape=None, item_size=None):
    """Exactly `size` bytes of a stored blob. zstd-planes: those of an array of that shape, taken apart
    by column and by byte."""
    global _zstd
    if encoding == "zstd-planes" and shape is not None:
        rows, columns = shape
        planes = np.frombuffer(_decode("zstd", data, size), np.uint8)
        return planes.reshape(columns, item_size, rows).transpose(2, 0, 1).tobytes()
    if encoding != "zstd":
        raise ValueError(f"blob of unknown encoding {encoding!r}")
    if _zstd is None:
        _zstd = _load_zstd()
    out = ctypes.create_string_buffer(max(size, 1))
    got = _zstd.ZSTD_decompress(out, size, data, len(data))
    if _zstd.ZSTD_isError(got) or got != size:
        raise ValueError("a stored blob does not read back as written")
    return out.raw[:size]


class Replay:
    def __init__(self, path):
        path = os.path.abspath(os.fspath(path))
        self.path = path
        self._db = sqlite3.connect(f"file:{urllib.parse.quote(path)}?mode=ro", uri=True)
        try:
            kind, = self._db.execute("PRAGMA application_id").fetchone()
            version, = self._db.execute("PRAGMA user_version").fetchone()
            if kind != APPLICATION_ID:
                raise ValueError(f"{path} is not a run file")
            if not 1 <= version <= VERSION:
                raise ValueError(f"{path} has version {version}; this reader knows {VERSION}")
            self._version = version
            cursor = self._db.execute("SELECT * FROM run")
            self.facts = dict(zip([column[0] for column in cursor.description], cursor.fetchone()))
            cursor = self._db.execute("SELECT * FROM bodies ORDER BY body")
            names = [column[0] for column in cursor.description]
            self.bodies = [dict(zip(names, row)) for row in cursor]
            self.scene = json.loads(self._db.execute("SELECT json FROM scene").fetchone()[0])
            self.columns = [row[1] for row in self._db.execute("PRAGMA table_info(steps)")]
        except BaseException:
            self._db.close()
            raise

    @property
    def id(self):
        return self.facts["id"]

    @property
    def name(self):
        return self.facts["name"]

    @property
    def dt(self):
        return self.facts["dt"]

    def close(self):
        self._db.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def __len__(self):
        """Number of steps recorded."""
        return self._db.execute("SELECT count(*) FROM steps").fetchone()[0]

    def steps(self, *names, first=0, last=None):
        """Figures of the steps: a map of column name to array (all columns if none is named). What
        was not finite is NaN."""
        names = names or self.columns
        for name in names:
            if name not in self.columns:
                raise KeyError(f"no column {name!r}")
        last = 2**62 if last is None else last
        rows = self._db.execute(
            "SELECT " + ", ".join(f'"{name}"' for name in names) +
            " FROM steps WHERE step BETWEEN ? AND ? ORDER BY step", (first, last)).fetchall()
        result = {}
        for i, name in enumerate(names):
            values = [row[i] for row in rows]
            whole = all(isinstance(value, int) for value in values)
            result[name] = np.array(values, np.int64 if whole and values else np.float64)
        return result

    def _frame(self, row):
        step, substep, time, hash_, dtype, nodes, encoding, base, data = row
        if base is not None:
            raise ValueError(f"the frame of step {step} is a delta; this reader knows key frames")
        dtype = np.dtype(dtype)
        raw = _decode(encoding, data, nodes * 3 * dtype.itemsize, (nodes, 3), dtype.itemsize)
        positions = np.frombuffer(raw, dtype).reshape(nodes, 3).astype(np.float64)
        return ReplayFrame(step, substep, time, hash_ & 0xFFFFFFFFFFFFFFFF, positions)

    _FRAME = "SELECT step, substep, time, hash, dtype, nodes, encoding, base, data FROM frames "

    def frames(self, first=0, last=None, substeps=False):
        """Frames in order; with substeps also the states that halved steps went through."""
        last = 2**62 if last is None else last
        which = "" if substeps else "AND substep = -1 "
        # The states inside a step come before its end, which is stored as substep -1.
        for row in self._db.execute(self._FRAME + "WHERE step BETWEEN ? AND ? " + which +
                                    "ORDER BY step, substep = -1, substep", (first, last)):
            yield self._frame(row)

    def frame(self, step):
        """The frame at the end of a step. KeyError if it was not recorded."""
        row = self._db.execute(self._FRAME + "WHERE step = ? AND substep = -1", (step,)).fetchone()
        if row is None:
            raise KeyError(f"no frame of step {step}")
        return self._frame(row)

    def contacts(self, step):
        """Contacts of a step that had a row, as a structured array (empty if none)."""
        row = self._db.execute("SELECT count, record_size, encoding, data FROM contacts "
                               "WHERE step = ?", (step,)).fetchone()
        if row is None:
            return np.zeros(0, CONTACT)
        count, size, encoding, data = row
        if size == CONTACT.itemsize:
            return np.frombuffer(_decode(encoding, data, count * size), CONTACT)
        if size == CONTACT.itemsize - 24:  # files from before there was friction
            old = np.frombuffer(_decode(encoding, data, count * size), np.dtype(CONTACT.descr[:-1]))
            full = np.zeros(count, CONTACT)
            for name in old.dtype.names:
                full[name] = old[name]
            return full
        raise ValueError(f"contacts of {size} bytes; this reader knows {CONTACT.itemsize}")

    def _list(self, table, dtype, step, version=2):
        row = None
        if self._version >= version:
            row = self._db.execute("SELECT count, record_size, encoding, data FROM " + table +
                                   " WHERE step = ?", (step,)).fetchone()
        if row is None:
            return np.zeros(0, dtype)
        count, size, encoding, data = row
        if size != dtype.itemsize:
            raise ValueError(f"{table} of {size} bytes; this reader knows {dtype.itemsize}")
        return np.frombuffer(_decode(encoding, data, count * size), dtype)

    def reactions(self, step):
        """Forces of fixed points on their nodes in a step: body, node in it, force in N. Like the next
        two, empty in files of version 1."""
        return self._list("reactions", REACTION, step)

    def limit_forces(self, step):
        """Strain limits that hold in a step: body, spring in it, force in N (below 0: of a minimum)."""
        return self._list("limit_forces", LIMIT_FORCE, step)

    def conflicts(self, step):
        """What contradicted in a step. kind: 0 vertex-triangle, 1 edge-edge, 2 maximum and 3 minimum of
        strain (body and spring first, then -1)."""
        return self._list("conflicts", CONFLICT, step)

    def joints(self, step):
        """Forces of joints in a step: constraint (place in the scene's list), kind (0 attach, 1 ball, 2 hinge,
        3 tendon), position in m, force in N, torque in N m, tension in N, gap in m. Empty in files of version 2 and before."""
        return self._list("joints", JOINT, step, 3)

    def events(self):
        """(step, kind, message) of what happened besides."""
        return self._db.execute("SELECT step, kind, message FROM events ORDER BY id").fetchall()

    def removed(self):
        """Bodies that were taken out of the world: name -> the last step with it. Its rows of later frames mean nothing."""
        last = {}
        for step, kind, message in self.events():
            if kind == "removed":
                last.setdefault(message, step)
        return last

    def commands(self):
        """(step, method, map) of what was asked."""
        return [(step, method, json.loads(text)) for step, method, text in
                self._db.execute("SELECT step, method, json FROM commands ORDER BY id")]

    def mesh(self, body):
        """(vertices, elements) of a body's mesh, by name or index; None for a cable."""
        info = next((b for b in self.bodies if body in (b["name"], b["body"])), None)
        if info is None:
            raise KeyError(f"no body {body!r}")
        if info["mesh"] is None:
            return None
        size, encoding, data = self._db.execute(
            "SELECT size, encoding, data FROM meshes WHERE sha256 = ?", (info["mesh"],)).fetchone()
        return wire.mesh_from_canonical(_decode(encoding, data, size))

    def slice_of(self, body):
        """Rows of a body in frames, by name or index."""
        info = next((b for b in self.bodies if body in (b["name"], b["body"])), None)
        if info is None:
            raise KeyError(f"no body {body!r}")
        return slice(info["first_node"], info["first_node"] + info["node_count"])
