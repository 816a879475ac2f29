/* SPDX-License-Identifier: BSD-2-Clause */
/* order.h - orders that verbs allow and programs forget (URNIC_ORDER; sys/order_spec.h):
 * completions of different QPs pass one another or come late, and the bytes of a WRITE
 * come in another order.  Those of one QP in one CQ keep theirs.  See docs/dev/order.md.
 */
#ifndef VERBS_ORDER_H
#define VERBS_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;
struct cq;
struct cqe;
struct source;

/* core->order becomes what text asks for, NULL if that is nothing.  Returns 0 or -errno.
 */
int order_open(struct core *core, const char *text);
/* The CQs are gone. */
void order_close(struct core *core);
/* The source that releases entries when their time has come; NULL: nothing is out of
 * order. */
struct source *order_source(struct core *core);

/* Does a poll find one completion at most? */
bool order_one(const struct core *core);

/* --- completions: as struct cq_hooks (verbs/cq.h) -------------------------------------
 */

bool order_hold(struct cq *cq, const struct cqe *e, bool solicited, uint64_t now);
/* Pushes the entries of all CQs that are due. */
void order_run(struct core *core, uint64_t now);
/* When the next entry is due; NEVER. */
uint64_t order_next(const struct core *core);
void order_forget(struct cq *cq, uint32_t qpn);
void order_disown(struct cq *cq, const _Atomic uint32_t *queue);

/* --- for verbs/target.c ---------------------------------------------------------------
 */

/* Writes n bytes as mr_write() does, in the order that is drawn: up, or the last byte
 * first and, after a moment, the rest piece by piece downwards.  Turn held. */
int order_write(struct core *core, uint32_t key, uint8_t *host, const void *src,
		size_t n);
/* Draws whether the next packet of a WRITE is written backwards, and from which seed its
 * pieces come. */
bool order_turns(struct core *core, uint64_t *seed);
/* The pieces of such a write: calls put() for each, and between() after the first. */
struct order_pieces {
	int (*put)(void *arg, size_t at, size_t n);
	void (*between)(void *arg);
	void *arg;
};
int order_backwards(const struct order_pieces *p, size_t n, uint64_t seed);

#endif
