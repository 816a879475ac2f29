# SPDX-License-Identifier: BSD-2-Clause
"""Pretty-printers for gdb: gdb -x tools/urnic-gdb.py PROGRAM, or `source` this file in gdb.

`print *qp`, and likewise *cq, *mr, *srq, *pd and *batch, then describes the object in one line;
`print/r *qp` shows the plain structure.
"""

import gdb
import gdb.printing


def name_of(value, prefix):
    """The name of an enumerator without its prefix, such as RTS."""
    return str(value).removeprefix(prefix)


def filled(queue):
    return (int(queue["head"]) - int(queue["tail"])) & 0xFFFFFFFF


def number(atomic):
    """The value of an _Atomic integer."""
    return int(atomic.cast(atomic.type.unqualified()))


def gid(raw):
    b = [int(raw[i]) for i in range(16)]
    if b[:12] == [0] * 10 + [0xFF, 0xFF]:
        return ".".join(map(str, b[12:]))
    return ":".join(f"{b[i] << 8 | b[i + 1]:x}" for i in range(0, 16, 2))


class Printer:
    """Prints a line, and the members named in `members`."""

    members = ()

    def __init__(self, value):
        self.value = value

    def children(self):
        for member in self.members:
            yield member, self.value[member]


class Qp(Printer):
    def to_string(self):
        v = self.value
        text = f"QP 0x{int(v['qpn']):06x} {name_of(v['type'], 'IBV_QPT_')} " \
               f"{name_of(v['state'], 'IBV_QPS_')}"
        if v["transport"]:
            text += f", {v['transport']['name'].string()}"
        if int(v["attr"]["dest_qp_num"]):
            text += f" to QP 0x{int(v['attr']['dest_qp_num']):06x} at " \
                    f"{gid(v['attr']['ah_attr']['grh']['dgid']['raw'])}"
        text += f"; send queue {filled(v['sq'])} of {int(v['sq']['cap'])}"
        if v["srq"]:
            return text + f", SRQ 0x{int(v['srq']['num']):06x}"
        return text + f", receive queue {filled(v['rq'])} of {int(v['rq']['cap'])}"


class Cq(Printer):
    def to_string(self):
        v = self.value
        used = (number(v["head"]) - number(v["tail"])) & 0xFFFFFFFF
        return f"CQ {int(v['ex']['handle'])}, entries {used} of {int(v['cap'])}, " \
               f"{name_of(v['armed'], 'CQ_')}{', overrun' if v['overrun'] else ''}"


class Mr(Printer):
    def to_string(self):
        k = self.value["mkey"]
        return f"MR key 0x{int(k['key']):08x}, {int(k['length'])} bytes at " \
               f"0x{int(k['base']):x}, access 0x{int(k['access']):x}" \
               f"{'' if k['valid'] else ', invalid'}"


class Srq(Printer):
    def to_string(self):
        v = self.value
        return f"SRQ 0x{int(v['num']):06x}, receives {filled(v['rq'])} of " \
               f"{int(v['rq']['cap'])}, limit {int(v['limit'])}"


class Pd(Printer):
    def to_string(self):
        return f"PD {int(self.value['ibv']['handle'])}, used by " \
               f"{number(self.value['users'])} objects"


class Batch(Printer):
    """The datagrams of a turn: their number, and the bytes of each."""

    def to_string(self):
        return f"batch of {int(self.value['n'])} datagrams"

    def children(self):
        for i in range(int(self.value["n"])):
            d = self.value["v"][i]
            yield f"[{i}]", f"{int(d['len'])} bytes in {int(d['iovcnt'])} pieces"


def printers():
    all_of = gdb.printing.RegexpCollectionPrettyPrinter("urnic")
    for name, printer in (("qp", Qp), ("cq", Cq), ("mr", Mr), ("srq", Srq), ("pd", Pd),
                          ("batch", Batch)):
        all_of.add_printer(name, f"^{name}$", printer)
    return all_of


gdb.execute("set max-value-size unlimited")     # a batch is 290 KiB
gdb.printing.register_pretty_printer(None, printers(), replace=True)
