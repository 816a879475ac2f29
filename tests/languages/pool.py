#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""pool.py DEVICE GID_INDEX: a program with registered memory uses multiprocessing.

Its children are forked in the middle of traffic, by Pool and by Process.  They read and change
what they inherit; that is their own copy.  multiprocessing's shared memory, registered, is one for
all.
"""

import ctypes
import multiprocessing as mp
import multiprocessing.shared_memory
import sys

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

LEN, ROUNDS = 1 << 16, 40
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ

name, gid_index = sys.argv[1], int(sys.argv[2])
ctx = Context(name=name)
pd, cq = PD(ctx), CQ(ctx, 100)
gid = ctx.query_gid(1, gid_index)


def qp():
    cap = QPCap(max_send_wr=16, max_recv_wr=16)
    return QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap), QPAttr(port_num=1))


def join(mine, other):
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = ACCESS
    mine.to_init(attr)
    attr.dest_qp_num, attr.path_mtu = other.qp_num, e.IBV_MTU_1024
    attr.rq_psn = attr.sq_psn = 5
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 4
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 1, 16, 7, 7
    route = GlobalRoute(dgid=gid, sgid_index=gid_index, hop_limit=64)
    attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
    mine.to_rtr(attr)
    mine.to_rts(attr)


a, b = qp(), qp()
join(a, b)
join(b, a)
source, sink = MR(pd, LEN, ACCESS), MR(pd, LEN, ACCESS)


def write(mr, at, rkey, to):
    wr = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(at, LEN, mr.lkey)])
    wr.set_wr_rdma(rkey, to)
    a.post_send(wr)
    done = 0
    while not done:
        done, wcs = cq.poll()
    assert wcs[0].status == e.IBV_WC_SUCCESS, wcs[0].status


def of(at):
    return ctypes.string_at(at, LEN)


def sum_and_spoil(at):
    """In a child: the sum of what it has inherited, which it then changes."""
    total = sum(of(at)[::64])
    ctypes.memset(at, 0xEE, LEN)
    assert of(at) == b"\xee" * LEN
    return total


def spoil_and_tell(at, pipe):
    pipe.send(sum_and_spoil(at))


def one_round(i):
    byte = 1 + i % 200
    ctypes.memset(source.buf, byte, LEN)
    write(source, source.buf, sink.rkey, sink.buf)
    assert of(sink.buf) == bytes([byte]) * LEN
    return byte * (LEN // 64)


def pools():
    for i in range(3):
        total = one_round(100 + i)
        with mp.get_context("fork").Pool(3) as pool:
            sums = [pool.apply_async(sum_and_spoil, (mr.buf,)) for mr in (source, sink)]
            for k in range(ROUNDS):
                one_round(k)
            # a child may have been given both tasks, or one
            assert [s.get() for s in sums] == [total] * 2
        assert of(sink.buf) == bytes([1 + (ROUNDS - 1) % 200]) * LEN


def processes():
    for i in range(10):
        total = one_round(i)
        here, there = mp.Pipe()
        child = mp.get_context("fork").Process(target=spoil_and_tell, args=(sink.buf, there))
        child.start()
        one_round(77)
        assert here.recv() == total
        child.join()
        assert child.exitcode == 0
        assert of(sink.buf) == bytes([78]) * LEN


def fill_shared(name, byte):
    shm = mp.shared_memory.SharedMemory(name=name)
    shm.buf[:LEN] = bytes([byte]) * LEN
    shm.close()


def shared():
    """A child, spawned, writes memory that is registered here."""
    shm = mp.shared_memory.SharedMemory(create=True, size=LEN)
    view = ctypes.c_char.from_buffer(shm.buf)
    mr = MR(pd, LEN, ACCESS, address=ctypes.addressof(view))
    with mp.get_context("spawn").Pool(1) as pool:
        for byte in (7, 8, 9):
            pool.apply(fill_shared, (shm.name, byte))
            write(mr, ctypes.addressof(view), sink.rkey, sink.buf)
            assert of(sink.buf) == bytes([byte]) * LEN
    mr.close()
    del view
    shm.close()
    shm.unlink()


if __name__ == "__main__":
    for k in range(ROUNDS):
        one_round(k)
    pools()
    processes()
    shared()
    print("all right")
