# SPDX-License-Identifier: BSD-2-Clause
"""Make system calls fail by seccomp, as containers do."""

import ctypes
import errno
import platform
import struct

import pytest

CALLS = {"process_vm_readv": 310, "process_vm_writev": 311, "memfd_create": 319,
         "fcntl": 72}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LD_W_ABS, JEQ, JSET, RET = 0x20, 0x15, 0x45, 0x06
ALLOW, ERRNO = 0x7fff0000, 0x00050000


def program(call, error, bits):
    """The BPF program that makes `call` fail with `error`.  If `bits` is not 0, only calls whose
    third argument has one of these bits fail."""
    number = CALLS[call]
    code = [(LD_W_ABS, 0, 0, 0)]
    if bits:
        code += [(JEQ, 0, 3, number), (LD_W_ABS, 0, 0, 16 + 2 * 8),
                 (JSET, 0, 1, bits)]
    else:
        code += [(JEQ, 0, 1, number)]
    code += [(RET, 0, 0, ERRNO | error), (RET, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *c) for c in code)


def forbid(call, error, bits=0):
    """Return a preexec_fn for subprocess that makes `call` fail in the new process and its
    children."""
    if platform.machine() != "x86_64":
        pytest.skip("the numbers of system calls are x86_64's")
    code = program(call, getattr(errno, error), bits)
    libc = ctypes.CDLL(None, use_errno=True)
    memory = ctypes.create_string_buffer(code, len(code))
    prog = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(memory))
    filtered = ctypes.create_string_buffer(prog, len(prog))

    def install():
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or \
                libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filtered, 0, 0):
            raise OSError(ctypes.get_errno(), "seccomp")
        return memory       # keeps the filter's memory alive until here

    return install
