/* SPDX-License-Identifier: BSD-2-Clause */
/* object.h - the table of the program's objects, by address, key and number.  An object
 * that is destroyed stays in it, as long as not OBJECT_GONE more of its kind are.  Then
 * its memory waits for as long again, and serves a new object of the kind: it is never
 * freed, so a thread that has found an object without the lock reads one of that kind. */
#ifndef CHECK_OBJECT_H
#define CHECK_OBJECT_H

#include "check/check.h"

enum { OBJECT_GONE = 4096 };

void object_made(struct live *l, enum live_kind kind);
void object_gone(const struct live *l, enum live_kind kind);
/* A region is registered anew. */
void object_changed(const struct live *l);
/* A QP ends or is reset. The receives of its SRQ that it has taken, and whose completions
 * the program did not get, are over: which ones is not known. may_hold: a message may
 * have come in a part. */
void object_leaves_srq(struct check_qp *qp, bool may_hold);
/* Keeps memory in place of free(), for as long as OBJECT_GONE others are not. */
void object_keep(void *memory);

/* What the table knows of a pointer that a program posts to or polls; NULL: nothing. */
struct check_qp *object_qp(struct ibv_qp *ibv);
struct check_cq *object_cq(struct ibv_cq *ibv);
struct check_srq *object_srq(struct ibv_srq *ibv);

#endif
