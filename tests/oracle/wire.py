"""MessagePack-RPC as published, by hand: what any client could write without code of ours.

    with Client(("127.0.0.1", 7447)) as client:
        client.call("server.stats")
"""

import socket

import msgpack
import numpy


class RpcError(Exception):
    def __init__(self, error):
        super().__init__(f"{error.get('name')}: {error.get('message')}")
        self.code = error.get("code")
        self.name = error.get("name")
        self.data = error.get("data")


def pack_array(array):
    """An array in the msgpack-numpy convention."""
    array = numpy.ascontiguousarray(array)
    return {"nd": True, "type": array.dtype.str, "kind": "", "shape": list(array.shape),
            "data": array.tobytes()}


def unpack_arrays(value):
    if isinstance(value, dict):
        if value.get("nd") is True:
            return numpy.frombuffer(value["data"], numpy.dtype(value["type"])).reshape(value["shape"])
        return {key: unpack_arrays(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unpack_arrays(item) for item in value]
    return value


class Client:
    def __init__(self, address, timeout=60):
        self.socket = socket.create_connection(address, timeout=timeout)
        self.unpacker = msgpack.Unpacker(raw=False, max_buffer_size=1 << 30)
        self.next_id = 0
        self.notifications = []

    def call(self, method, **params):
        self.next_id += 1
        self.socket.sendall(msgpack.packb([0, self.next_id, method, [params]]))
        while True:
            for message in self.unpacker:
                if message[0] == 2:
                    self.notifications.append(message[1:])
                    continue
                assert message[0] == 1 and message[1] == self.next_id, message
                if message[2] is not None:
                    raise RpcError(message[2])
                return unpack_arrays(message[3])
            data = self.socket.recv(1 << 20)
            if not data:
                raise ConnectionError("the server closed the connection")
            self.unpacker.feed(data)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()
