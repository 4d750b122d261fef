#!/usr/bin/env python3
"""Watch a world while another connection steps it.

    PYTHONPATH=client/python python3 examples/stream.py SCENE.json [ADDRESS] [SECONDS]

Makes a world of the scene, subscribes to it on one connection and steps it on a second one; prints the
lowest point of the frames as they come. A slow reader loses frames (policy "latest") and is told how
many.
"""

import sys
import threading

import qpcollide


def step(address, world_id, steps):
    with qpcollide.connect(address, name="stream.py, stepping") as client:
        client.world(world_id).step(steps, timeout=None)


def main():
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    address = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1:7447"
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 2.0
    with qpcollide.connect(address, name="stream.py, watching") as client:
        world = client.create_world(qpcollide.load_scene(sys.argv[1], client), "stream.py")
        steps = max(1, round(seconds / world.describe()["dt"]))
        subscription = world.subscribe("positions", every=10, policy="latest")
        stepper = threading.Thread(target=step, args=(address, world.id, steps))
        stepper.start()
        last = 0
        while last <= steps - 10:
            frame = client.next_frame(subscription, timeout=10)
            if frame is None:
                break
            last = frame.step
            print(f"step {frame.step:6d}  t {frame.time:7.3f} s  lowest y "
                  f"{frame.positions[:, 1].min():8.4f} m  dropped {frame.dropped}")
        stepper.join()
        world.destroy()


if __name__ == "__main__":
    main()
