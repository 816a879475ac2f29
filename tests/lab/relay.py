#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""relay.py ONE OTHER SEED HOW: somebody in the middle, who passes Ethernet frames between two
interfaces and spoils those of RoCE v2: changes a bit, cuts some bytes off or adds some, lets later
ones pass, sends old ones again, loses some.

The headers of IP and UDP are made to fit, so that only urnic can see what is wrong.  HOW is
    spoil   the ICRC is left as it was
    forge   the ICRC is made to fit, too
    pass    nothing is spoiled
At the end (SIGTERM) it prints what it did.
"""

import collections
import random
import select
import signal
import socket
import struct
import sys

from wirecheck import icrc

ETHER, IP, UDP, ICRC = 14, 20, 8, 4
PORT = 4791
OUTGOING = 4            # PACKET_OUTGOING of linux/if_packet.h
AGO = 3000              # how many packets may be sent again
PASS = 8                # how many may pass one that waits
WAIT = 0.002            # s, until one that waits goes on if nothing passes it


def opened(name):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    s.bind((name, 0))
    s.setblocking(False)
    return s


def is_roce(frame):
    return (len(frame) > ETHER + IP + UDP and frame[12:14] == b"\x08\x00" and
            frame[ETHER] == 0x45 and frame[ETHER + 9] == 17 and
            struct.unpack_from(">H", frame, ETHER + IP + 2)[0] == PORT)


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def fitting(frame, payload, forges):
    """The frame with another payload of UDP; without a checksum of UDP."""
    ip = bytearray(frame[ETHER:ETHER + IP])
    udp = bytearray(frame[ETHER + IP:ETHER + IP + UDP])
    struct.pack_into(">H", ip, 2, IP + UDP + len(payload))
    struct.pack_into(">H", ip, 10, 0)
    struct.pack_into(">H", ip, 10, checksum(bytes(ip)))
    struct.pack_into(">HH", udp, 4, UDP + len(payload), 0)
    if forges and len(payload) >= ICRC + 12:
        payload[-ICRC:] = icrc(ip, udp + payload)
    return frame[:ETHER] + bytes(ip + udp + payload)


class Middle:
    def __init__(self, seed, forges):
        self.rng = random.Random(seed)
        self.forges = forges
        self.old = collections.deque(maxlen=AGO)
        self.did = collections.Counter()

    def spoiled(self, frame):
        end = ETHER + struct.unpack_from(">H", frame, ETHER + 2)[0]
        payload = bytearray(frame[ETHER + IP + UDP:end])
        what = self.rng.choice(("flip", "cut", "cut-to-the-header", "add"))
        if what == "flip":
            payload[self.rng.randrange(len(payload))] ^= 1 << self.rng.randrange(8)
        elif what == "cut":
            del payload[-self.rng.randint(1, min(64, len(payload))):]
        elif what == "cut-to-the-header":
            del payload[self.rng.randint(0, min(40, len(payload) - 1)):]
        elif len(frame) < 1400:
            payload += self.rng.randbytes(self.rng.randint(1, 64))
        self.did[what] += 1
        return fitting(frame, payload, self.forges)

    def passed(self, frame):
        """The frames to send in place of this one, and whether they wait."""
        self.old.append(frame)
        dice = self.rng.random()
        if dice < 0.02:
            return [self.spoiled(frame)], False
        if dice < 0.04:             # in addition: a copy that is spoiled must do no harm either
            return [self.spoiled(frame), frame], False
        if dice < 0.06:
            self.did["again"] += 1
            return [frame, self.rng.choice(self.old)], False
        if dice < 0.08:
            self.did["later"] += 1
            return [frame], True
        if dice < 0.085:
            self.did["lost"] += 1
            return [], False
        return [frame], False


def main(one, other, seed, how):
    socks = [opened(one), opened(other)]
    middles = [Middle(int(seed) * 2 + i, how == "forge") for i in range(2)]
    waiting = [collections.deque(), collections.deque()]

    def send(i, frames):
        for frame in frames:
            try:
                socks[1 - i].send(frame)
            except OSError:         # the queue is full, or the frame is too long
                pass

    def forward(i, frame):
        if how == "pass" or not is_roce(frame):
            send(i, [frame])
            return
        frames, waits = middles[i].passed(frame)
        if waits:
            waiting[i].append([middles[i].rng.randint(1, PASS), frames])
            return
        send(i, frames)
        for held in waiting[i]:
            held[0] -= 1
        while waiting[i] and waiting[i][0][0] <= 0:
            send(i, waiting[i].popleft()[1])

    def over(*_):
        did = middles[0].did + middles[1].did
        print("did", *(f"{what}={n}" for what, n in sorted(did.items())), flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, over)
    print("between", flush=True)
    while True:
        ready = select.select(socks, [], [], WAIT if any(waiting) else None)[0]
        for i, s in enumerate(socks):
            if not ready:
                while waiting[i]:
                    send(i, waiting[i].popleft()[1])
            for _ in range(64 if s in ready else 0):
                try:
                    frame, address = s.recvfrom(1 << 16)
                except OSError:
                    break
                if address[2] != OUTGOING:
                    forward(i, frame)


main(*sys.argv[1:])
