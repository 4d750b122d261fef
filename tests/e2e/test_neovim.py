"""A client that is not ours: neovim speaks MessagePack-RPC, over TCP and Unix sockets, from Lua and
Vimscript. It makes a world and steps it."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from daemon import TIME_SCALE, Daemon  # noqa: E402

SCRIPT = r"""
local out = assert(io.open(vim.env.QPC_OUT, "w"))
local ok, message = pcall(function()
    local channel = vim.fn.sockconnect(vim.env.QPC_MODE, vim.env.QPC_AT, {rpc = true})
    assert(channel > 0, "no connection")
    local result = {}
    result.hello = vim.rpcrequest(channel, "hello", {client = "neovim"})
    -- An empty Lua table goes out as an empty list.
    result.empty = vim.rpcrequest(channel, "hello", vim.empty_dict()).protocol
    result.bare = vim.rpcrequest(channel, "server.stats").worlds
    local created = vim.rpcrequest(channel, "world.create", {scene = {
        dt = 0.01, gravity = {0, -10, 0},
        bodies = {{name = "ball", kind = "cable", nodes = {{0, 1, 0}}, mass = 1, radius = 0.1}},
    }})
    result.world = created.world
    result.bodies = created.bodies
    local reply = vim.rpcrequest(channel, "world.step",
                                 {world = created.world, n = 50, positions = true,
                                  precision = "float64"})
    result.reached = reply.reached
    result.status = reply.status
    result.time = reply.time
    result.summary_steps = reply.summary.steps
    result.shape = reply.positions.shape
    result.dtype = reply.positions.type
    result.bytes = #reply.positions.data
    local good, why = pcall(vim.rpcrequest, channel, "no_such_method", {})
    result.error = {good, tostring(why)}
    good, why = pcall(vim.rpcrequest, channel, "world.step", {world = created.world, n = 0})
    result.range = {good, tostring(why)}
    result.destroyed = vim.rpcrequest(channel, "world.destroy", {world = created.world}).destroyed
    vim.fn.chanclose(channel)
    out:write(vim.fn.json_encode(result))
end)
if not ok then out:write(vim.fn.json_encode({failed = tostring(message)})) end
out:close()
vim.cmd("qall!")
"""


@unittest.skipUnless(shutil.which("nvim"), "neovim is not installed")
class Neovim(unittest.TestCase):
    def talk(self, mode, at, folder):
        script, out = folder / "script.lua", folder / "out.json"
        script.write_text(SCRIPT)
        done = subprocess.run(
            ["nvim", "--headless", "--clean", "-n", "-c", f"luafile {script}", "-c", "cquit"],
            env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder),
                 "QPC_OUT": str(out), "QPC_MODE": mode, "QPC_AT": at},
            capture_output=True, text=True, timeout=60 * TIME_SCALE, stdin=subprocess.DEVNULL)
        self.assertTrue(out.exists(), done.stderr)
        result = json.loads(out.read_text())
        self.assertNotIn("failed", result, result)
        return result

    def check(self, result):
        self.assertEqual(result["hello"]["protocol"], 1)
        self.assertEqual(result["hello"]["server"], "qpcollided")
        self.assertEqual(result["empty"], 1)
        self.assertEqual(result["bare"], 0)
        self.assertEqual((result["reached"], result["status"]), (50, "ok"))
        self.assertAlmostEqual(result["time"], 0.5)
        self.assertEqual(result["summary_steps"], 50)
        self.assertEqual((result["shape"], result["dtype"], result["bytes"]), ([1, 3], "<f8", 24))
        # neovim shows errors that are text or [type, text]; a map is an error without text to it.
        self.assertFalse(result["error"][0])
        self.assertFalse(result["range"][0])
        self.assertTrue(result["destroyed"])

    def test_over_tcp_and_over_a_unix_socket(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            with Daemon("--unix", str(folder / "socket")) as daemon:
                host, port = daemon.address
                self.check(self.talk("tcp", f"{host}:{port}", folder))
                self.check(self.talk("pipe", str(folder / "socket"), folder))


if __name__ == "__main__":
    unittest.main()
