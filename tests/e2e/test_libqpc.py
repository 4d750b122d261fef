"""libqpc as it is installed: pkg-config, shared and static, from C and from C++."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from daemon import BUILD, SOURCE, Daemon  # noqa: E402

EXAMPLE = SOURCE / "examples" / "client.c"


@unittest.skipIf(os.environ.get("QPC_SANITIZE"), "a sanitized library needs a sanitized program")
class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="qpc-install-"))
        subprocess.run(["meson", "install", "-C", str(BUILD), "--no-rebuild", "--destdir",
                        str(cls.folder)], check=True, capture_output=True)
        cls.pc = next(cls.folder.rglob("libqpc.pc"))
        cls.lib = next(cls.folder.rglob("libqpc.so")).parent
        cls.env = {**os.environ, "PKG_CONFIG_PATH": str(cls.pc.parent),
                   "PKG_CONFIG_SYSROOT_DIR": str(cls.folder), "LD_LIBRARY_PATH": str(cls.lib)}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def flags(self, *options):
        done = subprocess.run(["pkg-config", *options, "libqpc"], env=self.env, check=True,
                              capture_output=True, text=True)
        return done.stdout.split()

    def build(self, compiler, *more, static=False):
        program = self.folder / "client"
        flags = self.flags("--cflags", "--libs", *(["--static"] if static else []))
        if static:
            flags = [str(self.lib / "libqpc.a") if flag == "-lqpc" else flag for flag in flags]
        subprocess.run([*compiler, str(EXAMPLE), "-Wall", "-Wextra", "-Werror", *more, "-o",
                        str(program), "-x", "none", *flags], env=self.env, check=True)
        return program

    def check(self, program):
        with Daemon() as daemon:
            done = subprocess.run([str(program), daemon.server], env=self.env, capture_output=True,
                                  text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("qpcollided", done.stdout)
        self.assertIn("ok at step 200, 1.000 s: y = 0.", done.stdout)
        self.assertEqual([line.split()[3] for line in done.stdout.splitlines()
                          if line.startswith("frame of step")], ["50:", "100:", "150:", "200:"])
        self.assertIn("(the world is at step 200)", done.stdout)

    def test_shared_from_c(self):
        self.check(self.build(["gcc", "-std=c17"]))

    def test_static_from_c(self):
        program = self.build(["gcc", "-std=c17"], static=True)
        libraries = subprocess.run(["ldd", str(program)], capture_output=True, text=True).stdout
        self.assertNotIn("libqpc", libraries)
        self.check(program)

    def test_from_cxx(self):
        self.check(self.build(["g++", "-std=c++17", "-x", "c++"]))

    def test_only_documented_symbols_are_exported(self):
        """Every exported name is declared in an installed header, and every call of qpc.h is
        exported."""
        symbols = subprocess.run(["nm", "-D", "--defined-only", str(self.lib / "libqpc.so")],
                                 check=True, capture_output=True, text=True).stdout
        names = {line.split()[2].partition("@")[0] for line in symbols.splitlines()
                 if line.split()[1] in "TDBR"}
        headers = {path.name: path.read_text() for path in
                   (self.folder / "usr/local/include/qpcollide").rglob("*.h")}
        self.assertEqual(set(headers), {"qpc.h", "value.h", "status.h", "json.h", "mem.h"})
        text = "\n".join(headers.values())
        for name in names:
            self.assertRegex(text, rf"\b{name}\(", name)
        import re
        for name in re.findall(r"^[a-z].*?\b(qpc_\w+)\(", headers["qpc.h"], re.M):
            self.assertIn(name, names)


if __name__ == "__main__":
    unittest.main()
