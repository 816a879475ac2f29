# SPDX-License-Identifier: BSD-2-Clause
"""Check captured packets with code that is not urnic's: tshark, and an ICRC that is computed
here."""

import struct
import subprocess
import zlib


def tshark_complaints(path, source):
    """tshark's complaints about packets from `source`, as [(frame, message, info)].

    Complaints of an upper protocol's dissector that took a message's payload for its own are left
    out.
    """
    fields = ("frame.number", "frame.protocols", "_ws.expert.message", "_ws.col.Info")
    family = "ipv6" if ":" in source else "ip"
    out = subprocess.run(
        ["tshark", "-Q", "-n", "-r", path, "-o", "ip.check_checksum:TRUE",
         "-o", "udp.check_checksum:TRUE",
         "-Y", f"(_ws.expert || _ws.malformed) && {family}.src == {source}",
         "-T", "fields", *(w for f in fields for w in ("-e", f))],
        check=True, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL).stdout
    rows = [line.split("\t") for line in out.splitlines()]
    return [(r[0], r[2], r[3]) for r in rows
            if r[1].split(":infiniband")[-1] in ("", ":data")]


def tshark_opcodes(path, source):
    """The opcodes of packets from `source`, as tshark reads them: {BTH opcode: count}."""
    family = "ipv6" if ":" in source else "ip"
    out = subprocess.run(
        ["tshark", "-Q", "-n", "-r", path, "-Y", f"{family}.src == {source}",
         "-T", "fields", "-e", "infiniband.bth.opcode"],
        check=True, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL).stdout
    counts = {}
    for word in out.split():
        counts[int(word)] = counts.get(int(word), 0) + 1
    return counts


def frames(path):
    """The frames of a pcap file in the classic little-endian format."""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"), data[:4]
    at = 24
    while at < len(data):
        _, _, have, full = struct.unpack_from("<IIII", data, at)
        assert have == full, "a frame was cut"
        yield data[at + 16:at + 16 + have]
        at += 16 + have


def roce_packet(frame):
    """(source address, IP header, UDP header and all that follows) of a RoCE v2 frame, or None."""
    kind, = struct.unpack_from(">H", frame, 12)
    if kind == 0x0800 and frame[23] == 17:
        ip, rest = frame[14:34], frame[34:14 + struct.unpack_from(">H", frame, 16)[0]]
        source = ".".join(map(str, ip[12:16]))
    elif kind == 0x86DD and frame[20] == 17:
        ip = frame[14:54]
        rest = frame[54:54 + struct.unpack_from(">H", frame, 18)[0]]
        source = ip[8:24].hex()
    else:
        return None
    if struct.unpack_from(">H", rest, 2)[0] != 4791:
        return None
    return source, ip, rest


def icrc(ip, rest):
    """The ICRC of annex A17: CRC-32 with all bits set in the fields that a router may change."""
    ip, rest = bytearray(ip), bytearray(rest[:-4])
    if ip[0] >> 4 == 4:
        ip[1] = ip[8] = ip[10] = ip[11] = 0xFF
    else:
        ip[0] |= 0x0F
        ip[1] = ip[2] = ip[3] = 0xFF
        ip[7] = 0xFF
    rest[6] = rest[7] = 0xFF        # UDP checksum
    rest[8 + 4] = 0xFF              # BTH: FECN, BECN and reserved
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(ip) + bytes(rest)))


def wrong_icrcs(path):
    """(number of packets, [numbers of the frames whose ICRC is wrong])."""
    total, wrong = 0, []
    for number, frame in enumerate(frames(path), 1):
        packet = roce_packet(frame)
        if not packet:
            continue
        total += 1
        if icrc(*packet[1:]) != packet[2][-4:]:
            wrong.append(number)
    return total, wrong


def wrong_icrcs_v1(path):
    """(number of RoCE v1 frames, [numbers of those whose GRH or ICRC is wrong])."""
    total, wrong = 0, []
    for number, frame in enumerate(frames(path), 1):
        if frame[12:14] != b"\x89\x15":
            continue
        total += 1
        length, following = struct.unpack_from(">HB", frame, 18)
        grh, bth = bytearray(frame[14:54]), bytearray(frame[54:54 + length])
        crc = bytes(bth[-4:])
        right = grh[0] >> 4 == 6 and following == 0x1B and grh[7] > 0
        grh[0] |= 0x0F
        grh[1] = grh[2] = grh[3] = grh[7] = 0xFF
        bth[4] = 0xFF
        have = struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(grh) + bytes(bth[:-4])))
        if not right or have != crc:
            wrong.append(number)
    return total, wrong


def tshark_v1(path):
    """The opcodes of the frames that tshark reads as RoCE v1."""
    return subprocess.run(
        ["tshark", "-Q", "-n", "-r", path, "-Y", "eth.type == 0x8915 && infiniband.grh.nxthdr == 27",
         "-T", "fields", "-e", "infiniband.bth.opcode"],
        check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.split()


def tshark_wrong(path):
    """tshark's complaints about RoCE v1, as [(frame, message)], without those about payload."""
    out = subprocess.run(
        ["tshark", "-Q", "-n", "-r", path, "-Y",
         "(_ws.expert || _ws.malformed) && eth.type == 0x8915",
         "-T", "fields", "-e", "frame.number", "-e", "frame.protocols", "-e",
         "_ws.expert.message"],
        check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    rows = [line.split("\t") for line in out.splitlines()]
    return [(r[0], r[2]) for r in rows if r[1].split(":infiniband")[-1] in ("", ":data")]
