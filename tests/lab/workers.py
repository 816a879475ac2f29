# SPDX-License-Identifier: BSD-2-Clause
"""Programs of urnic's own that tests run: the word by which they say that all is right, and pairs
of workers, which exchange messages."""

import re
import signal

from lab import HANGS, next_port

RIGHT = "all right"


class Two:
    """A server and a client that exchange messages."""

    def __init__(self, server_ns, client_ns, words, to=None, users=("nobody",) * 2,
                 extra=((), ()), server_env=None):
        port = next_port()
        words = [*words, "-p", port]
        self.server = server_ns.start(*words, *extra[0], user=users[0],
                                      env=server_env)
        self.client = client_ns.start(*words, *extra[1], to or server_ns.ip4,
                                      user=users[1])

    def wait_joined(self):
        self.server.wait_output("joined")
        self.client.wait_output("joined")
        return self

    def wait_working(self):
        """Of workers: wait until each has had a request executed by the other."""
        self.server.wait_output("works")
        self.client.wait_output("works")
        return self

    def finish(self):
        """Of workers: let both do a few more rounds and end, and assert that they end well."""
        self.wait_joined()
        for proc in (self.server, self.client):
            proc.signal(signal.SIGTERM)
        self.expect_right()

    def expect_right(self):
        for proc in (self.server, self.client):
            assert proc.wait(HANGS) == 0, (self.server.describe(),
                                           self.client.describe())

    def qpn(self):
        return re.search(r"qpn (0x[0-9a-f]+)", self.server.out)[1]


def worker(faults, *more):
    return [faults, "worker", *more]


def stress(stage, seconds, seed=1):
    return [stage.tool("stress/stress"), "-t", str(seconds), "-q", "2", "-m", "65536",
            "-M", "8192", "-s", str(seed)]
