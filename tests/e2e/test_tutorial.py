"""docs/tutorial.md does what it says: its Python runs, block after block, and so do its qpc lines."""

import contextlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))

from daemon import QPC, SOURCE, Daemon  # noqa: E402

TEXT = (SOURCE / "docs" / "tutorial.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.M | re.S)


class Tutorial(unittest.TestCase):
    def test_the_python_runs(self):
        with Daemon() as daemon:
            os.environ["QPC_SERVER"] = daemon.server
            here = os.getcwd()
            os.chdir(SOURCE)
            output = io.StringIO()
            try:
                with contextlib.redirect_stdout(output):
                    names = {}
                    for block in blocks("python"):
                        exec(compile(block, "tutorial.md", "exec"), names)
            finally:
                os.chdir(here)
                del os.environ["QPC_SERVER"]
        self.assertIn("100 ", output.getvalue())
        self.assertIn("{'step': 360}", output.getvalue())

    def test_the_commands_run(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="qpc-tutorial-"))
        try:
            with Daemon() as daemon:
                env = {**os.environ, "QPC_SERVER": daemon.server,
                       "PATH": f"{QPC.parent}:{os.environ['PATH']}"}
                shutil.copytree(SOURCE / "examples", folder / "examples")
                ran = 0
                for block in blocks("sh"):
                    # The daemon of this test stands for the one that a reader starts.
                    lines = [line for line in block.split("\n") if not re.match(
                        r"PATH=|export |qpcollided &|kill |cc |\./client", line)]
                    done = subprocess.run(["sh", "-e"], input="\n".join(lines), text=True, env=env,
                                          cwd=folder, capture_output=True, timeout=120)
                    self.assertEqual(done.returncode, 0, f"{block}\n{done.stderr}")
                    ran += sum(line.startswith("qpc ") for line in lines)
                self.assertGreaterEqual(ran, 9)
                self.assertTrue((folder / "end.npy").exists())
                self.assertGreater(len((folder / "steps.csv").read_text().splitlines()), 400)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    unittest.main()
