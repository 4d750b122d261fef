"""Meshes with known counts (tests/data/meshes/index) against what mesh.check finds; see mesh_cases.py."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mesh_cases  # noqa: E402
from run_cases import build  # noqa: E402


class Index(unittest.TestCase):
    def test_every_mesh_of_the_index_is_answered_as_it_says(self):
        folder = mesh_cases.SOURCE / "tests" / "data" / "meshes" / "index"
        rows = list(mesh_cases.run_index(folder, build()))
        self.assertEqual(len(rows), 14)
        self.assertEqual([row for row in rows if row[1] is not None], [])


if __name__ == "__main__":
    unittest.main()
