/* SPDX-License-Identifier: BSD-2-Clause */
/* trace.h - backtraces, kept as numbers.
 *
 * Unwinding takes microseconds, so a post is not unwound each time: what was seen at the
 * same return address with the same frame is taken again, if the return addresses of the
 * callers, up to the first that is libc's, are where they were.  Where that cannot be
 * seen (not on x86, on a fiber's stack, below a signal handler), two callers whose frames
 * lie at the same depth may be taken for one another; the first frame is always right. */
#ifndef CHECK_TRACE_H
#define CHECK_TRACE_H

#include "check/check.h"

enum { TRACE_DEPTH = 16 };

/* Prepares what a first unwinding would allocate. */
void trace_start(void);

/* The trace of a function of ours that the program has called: its own return address and
 * frame address. */
check_trace trace_of(const void *ret, const void *frame);

/* Unwinds now, and leaves out the frames of urnic's libraries above the first verb. */
check_trace trace_now(void);

/* Unwinds from the instruction at pc, which a signal handler has interrupted; libc's
 * functions (memcpy) are left out. */
check_trace trace_at(const void *pc);

/* The first frame of the program's, by which places are told apart. */
const void *trace_place(check_trace t);

/* Is the program's own code, or another library than ours, what called?  False: rdma_cm
 * called for itself. */
bool trace_is_inner(check_trace t);

/* Calls line for each frame: "post_all+0x2c (prog+0x12ac)". */
void trace_show(check_trace t, void (*line)(const char *text, void *arg), void *arg);

/* Does a frame's function or object match one of these? */
bool trace_matches(check_trace t, bool (*fits)(const char *name, void *arg), void *arg);

#endif
