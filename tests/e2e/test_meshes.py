"""Meshes over the wire: whole and chunked uploads, de-duplication, limits, deletion, restart."""

import hashlib
import unittest

import numpy

from support import Client, Daemon, RpcError, canonical, encode_array, sheet


def grid(n):
    """A square of 2 n n triangles."""
    axis = numpy.linspace(0, 1, n + 1)
    x, z = numpy.meshgrid(axis, axis, indexing="ij")
    vertices = numpy.stack([x.ravel(), 0 * x.ravel(), z.ravel()], axis=1)
    i, j = numpy.meshgrid(numpy.arange(n), numpy.arange(n), indexing="ij")
    a = (i * (n + 1) + j).ravel()
    elements = numpy.concatenate([numpy.stack([a, a + 1, a + n + 2], 1),
                                  numpy.stack([a, a + n + 2, a + n + 1], 1)]).astype("<i4")
    return vertices, elements


class Meshes(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon().start()
        self.addCleanup(self.daemon.remove)
        self.client = Client(self.daemon)
        self.addCleanup(self.client.close)

    def tearDown(self):
        self.daemon.stop()

    def fails(self, name, method, **params):
        with self.assertRaises(RpcError) as caught:
            self.client.call(method, **params)
        self.assertEqual(caught.exception.name, name, caught.exception.message)
        return caught.exception

    def upload(self, vertices, elements, **more):
        return self.client.call("mesh.upload", vertices=encode_array(vertices),
                                elements=encode_array(elements), **more)

    def chunk(self, data, offset, size=1 << 18, sha256=None, total=None):
        return self.client.call("mesh.upload", sha256=sha256 or hashlib.sha256(data).hexdigest(),
                                size=len(data) if total is None else total, offset=offset,
                                data=data[offset:offset + size])

    def test_the_hash_is_over_the_canonical_bytes(self):
        vertices, elements = sheet()
        reply = self.upload(vertices, elements, name="floor")
        data = canonical(vertices, elements)
        self.assertEqual(reply["sha256"], hashlib.sha256(data).hexdigest())
        self.assertEqual((reply["vertices"], reply["elements"], reply["bytes"]), (4, 2, len(data)))
        self.assertFalse(reply["known"])
        self.assertEqual(reply["report"]["boundary_edges"], 4)
        self.assertTrue(self.upload(vertices, elements)["known"])
        listed, = self.client.call("mesh.list")["meshes"]
        self.assertEqual((listed["sha256"], listed["name"]), (reply["sha256"], "floor"))

    def test_minus_zero_is_zero_and_lists_are_arrays(self):
        vertices, elements = sheet(y=0.0)
        one = self.upload(vertices, elements)
        two = self.client.call("mesh.upload", vertices=(-1.0 * 0 + vertices * 1.0).tolist(),
                               elements=elements.tolist())
        minus = vertices.copy()
        minus[:, 1] = -0.0
        three = self.upload(minus, elements)
        self.assertEqual({one["sha256"]}, {two["sha256"], three["sha256"]})

    def test_float32_vertices_are_taken(self):
        vertices, elements = sheet()
        self.assertEqual(self.upload(vertices.astype("<f4"), elements)["sha256"],
                         self.upload(vertices, elements)["sha256"])

    def test_get_returns_what_was_sent(self):
        vertices, elements = grid(20)
        sha256 = self.upload(vertices, elements)["sha256"]
        got = self.client.call("mesh.get", sha256=sha256)
        numpy.testing.assert_array_equal(got["vertices"], vertices)
        numpy.testing.assert_array_equal(got["elements"], elements)
        self.fails("NOT_FOUND", "mesh.get", sha256="1" * 64)
        self.fails("INVALID", "mesh.get", sha256="xyz")

    def test_a_large_mesh_goes_whole_and_in_chunks(self):
        vertices, elements = grid(300)  # 180,000 triangles, 4.3 MB
        data = canonical(vertices, elements)
        for offset in range(0, len(data), 1 << 18):
            reply = self.chunk(data, offset)
            self.assertEqual(reply["received"], min(offset + (1 << 18), len(data)))
        self.assertTrue(reply["complete"])
        self.assertEqual(reply["elements"], 180000)
        self.assertFalse(reply["known"])
        whole = self.upload(vertices, elements)
        self.assertTrue(whole["known"])
        self.assertEqual(whole["sha256"], reply["sha256"])
        again = self.chunk(data, 0)
        self.assertTrue(again["complete"] and again["known"])

    def test_chunks_out_of_order_and_wrong_hashes_are_refused(self):
        data = canonical(*grid(100))
        self.fails("STATE", "mesh.upload", sha256=hashlib.sha256(data).hexdigest(),
                   size=len(data), offset=10, data=b"x")
        self.chunk(data, 0, size=1000)
        error = self.fails("STATE", "mesh.upload", sha256=hashlib.sha256(data).hexdigest(),
                           size=len(data), offset=999, data=b"x")
        self.assertIn("1000", error.message)
        self.fails("INVALID", "mesh.upload", sha256=hashlib.sha256(data).hexdigest(),
                   size=len(data) + 1, offset=1000, data=b"x")
        wrong = hashlib.sha256(b"").hexdigest()
        self.fails("INVALID", "mesh.upload", sha256=wrong, size=len(data), offset=0, data=data)
        self.fails("INVALID", "mesh.upload", sha256=wrong, size=60, offset=0, data=b"y" * 60)
        self.assertEqual(self.client.call("mesh.list")["meshes"], [])
        # Beginning anew is always possible.
        self.chunk(data, 0, size=500)
        self.assertTrue(self.chunk(data, 0, size=len(data))["complete"])

    def test_pending_uploads_are_bounded(self):
        for i in range(4):
            self.client.call("mesh.upload", sha256=f"{i:064x}", size=1000, offset=0,
                             data=b"QPM1" + bytes(20))
        self.fails("LIMIT", "mesh.upload", sha256=f"{5:064x}", size=1000, offset=0, data=b"QPM1")
        with Client(self.daemon) as other:
            other.call("mesh.upload", sha256=f"{5:064x}", size=1000, offset=0, data=b"QPM1")

    def test_meshes_that_make_no_sense(self):
        vertices, elements = sheet()
        self.fails("INVALID", "mesh.upload", vertices=encode_array(vertices))
        self.fails("INVALID", "mesh.upload", vertices=[], elements=[])
        error = self.fails("INVALID", "mesh.upload", vertices=encode_array(vertices),
                           elements=[[0, 1, 4]])
        self.assertIn("4", error.message)
        bad = vertices.copy()
        bad[1, 1] = numpy.nan
        self.fails("INVALID", "mesh.upload", vertices=encode_array(bad),
                   elements=encode_array(elements))
        self.fails("INVALID", "mesh.upload", vertices=encode_array(vertices),
                   elements=[[0, 0, 0], [1, 1, 1]])
        self.fails("INVALID", "mesh.upload", vertices=encode_array(vertices), elements=[[0]])
        self.fails("INVALID", "mesh.upload", vertices=encode_array(vertices),
                   elements=encode_array(elements), sha256="0" * 64)

    def test_preflight_weighs_by_use_and_bounds_its_lists(self):
        vertices, elements = grid(40)
        sha256 = self.upload(vertices, elements)["sha256"]
        found = self.client.call("mesh.check", sha256=sha256)
        self.assertEqual((found["use"], found["errors"]), ("surface", []))
        edges, = found["warnings"]
        self.assertEqual((edges["kind"], edges["total"], len(edges["items"])), ("open_edges", 160, 16))
        self.assertEqual(edges["items"][0][:2], [0, 1])
        self.assertEqual((found["facts"]["vertices"], found["facts"]["parts"], found["facts"]["euler"]), (1681, 1, 1))
        found = self.client.call("mesh.check", sha256=sha256, use="cloth")
        self.assertEqual(found["errors"] + found["warnings"], [])
        found = self.client.call("mesh.check", sha256=sha256, use="rigid", list=1000)
        self.assertEqual([len(f["items"]) for f in found["errors"]], [160])
        self.fails("INVALID", "mesh.check", sha256=sha256, use="cable")
        self.fails("INVALID", "mesh.check", sha256=sha256, list=0)
        self.fails("INVALID", "mesh.check", sha256="12")
        self.fails("NOT_FOUND", "mesh.check", sha256="0" * 64)

    def test_preflight_of_a_scene_says_what_world_create_would(self):
        sha256 = self.upload(*grid(2))["sha256"]
        floor = {"kind": "static", "name": "floor", "mesh": {"sha256": sha256}}
        rope = {"kind": "cable", "nodes": [[0.2, 1, 0], [0.3, 1, 0]], "mass": [1, 1e-5], "stiffness": 100, "radius": 0.01}
        found = self.client.call("scene.check", scene={"bodies": [floor, rope]})
        self.assertEqual(found["errors"], [])
        self.assertEqual([f["kind"] for f in found["warnings"]], ["open_edges", "mass_ratio"])
        self.assertEqual((found["warnings"][0]["body"], found["warnings"][1]["items"]), (0, [[1, 0], [1, 1]]))
        self.assertAlmostEqual(found["mass_ratio"], 1e5, delta=1)
        self.assertEqual([(b["body"], b["name"], b["use"]) for b in found["bodies"]], [(0, "floor", "surface")])
        cloth = {"kind": "cloth", "mesh": {"sha256": sha256}, "area_density": 0.1, "stiffness": 10, "radius": 0.001}
        found = self.client.call("scene.check", scene={"bodies": [floor, cloth]})
        self.assertEqual([f["kind"] for f in found["errors"]], ["scene"])  # they lie on each other
        self.assertEqual(found["mass_ratio"], 0)
        for scene in {}, {"bodies": 3}, {"bodies": [3, {"mesh": 3}, {"mesh": {"sha256": 3}}, {"mesh": {"sha256": "00"}}]}:
            found = self.client.call("scene.check", scene=scene)
            self.assertEqual([f["kind"] for f in found["errors"]], ["scene"])
        self.assertEqual(self.client.call("world.list")["worlds"], [])
        self.client.call("mesh.delete", sha256=sha256)  # nobody holds it

    def test_zero_area_triangles_are_reported_and_kept(self):
        vertices, elements = sheet()
        elements = numpy.vstack([elements, [[0, 1, 1]]]).astype("<i4")
        report = self.upload(vertices, elements)["report"]
        self.assertEqual(report["zero_area"], 1)
        self.assertEqual(report["zero_area_examples"], [2])

    def test_ten_million_triangles_meet_the_limit_before_their_bytes(self):
        header = b"QPM1" + (3).to_bytes(4, "little") + (5000000).to_bytes(8, "little") + \
            (10000000).to_bytes(8, "little")
        error = self.fails("LIMIT", "mesh.upload", sha256="2" * 64, offset=0, data=header,
                           size=24 + 5000000 * 24 + 10000000 * 12)
        self.assertIn("--max-elements", error.message)
        # The same claim within the largest size: the header tells.
        error = self.fails("LIMIT", "mesh.upload", sha256="2" * 64, offset=0, data=header,
                           size=100000000)
        self.assertIn("--max-elements is 5000000", error.message)

    def test_deletion_waits_for_the_worlds(self):
        sha256 = self.upload(*sheet())["sha256"]
        scene = {"bodies": [{"kind": "static", "mesh": {"sha256": sha256}},
                            {"kind": "cable", "nodes": [[0, 0, 0]], "mass": 1, "stiffness": 1,
                             "radius": 0.01}]}
        world = self.client.call("world.create", scene=scene)["world"]
        error = self.fails("STATE", "mesh.delete", sha256=sha256)
        self.assertIn("world", error.message)
        self.client.call("world.destroy", world=world)
        self.assertEqual(self.client.call("mesh.delete", sha256=sha256), {"deleted": True})
        self.fails("NOT_FOUND", "mesh.delete", sha256=sha256)
        self.fails("NOT_FOUND", "world.create", scene=scene)

    def test_meshes_survive_a_restart(self):
        sha256 = self.upload(*grid(30), name="grid")["sha256"]
        self.client.close()
        self.daemon.stop()
        self.daemon.restart()
        self.client = Client(self.daemon)
        listed, = self.client.call("mesh.list")["meshes"]
        self.assertEqual((listed["sha256"], listed["elements"]), (sha256, 1800))
        self.assertEqual(self.client.call("mesh.get", sha256=sha256)["elements"].shape, (1800, 3))


class Limits(unittest.TestCase):
    def test_counts_and_bytes_of_the_catalogue(self):
        with Daemon("--max-meshes", "2") as daemon, Client(daemon) as client:
            for size in (1.0, 2.0):
                vertices, elements = sheet(size)
                client.call("mesh.upload", vertices=encode_array(vertices),
                            elements=encode_array(elements))
            vertices, elements = sheet(3.0)
            with self.assertRaises(RpcError) as caught:
                client.call("mesh.upload", vertices=encode_array(vertices),
                            elements=encode_array(elements))
            self.assertEqual(caught.exception.name, "LIMIT")
            self.assertIn("--max-meshes", caught.exception.message)
            vertices, elements = sheet(1.0)
            self.assertTrue(client.call("mesh.upload", vertices=encode_array(vertices),
                                        elements=encode_array(elements))["known"])

    def test_a_whole_upload_beyond_the_limits(self):
        with Daemon("--max-elements", "100", "--max-vertices", "1000") as daemon, \
                Client(daemon) as client:
            for n, option in ((8, "--max-elements"), (40, "--max-vertices")):
                vertices, elements = grid(n)
                with self.assertRaises(RpcError) as caught:
                    client.call("mesh.upload", vertices=encode_array(vertices),
                                elements=encode_array(elements))
                self.assertEqual(caught.exception.name, "LIMIT")
                self.assertIn(option, caught.exception.message)


if __name__ == "__main__":
    unittest.main()
