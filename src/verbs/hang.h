/* SPDX-License-Identifier: BSD-2-Clause */
/* hang.h - finds what happens again and again for a second, while nothing else does: a
 * program waits for something that will not come. */
#ifndef VERBS_HANG_H
#define VERBS_HANG_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs/qp.h"

/* Zero at first. */
struct hang {
	uint32_t at; /* to what it happens: a PSN, or a QP number */
	unsigned n;  /* how often it has happened; 0: never */
	uint64_t since, last;
	bool said;
};

/* It happens again. Returns true once, when it has for a second. */
bool hang_seen(struct hang *h, uint32_t at, uint64_t now);

/* The log is told what keeps qp waiting: the peer has no receive for number psn; nothing
 * comes from it, to which the oldest request, of number psn, is sent again and again;
 * there is no receive here for the peer's message psn; requests have other numbers than
 * the one that is expected. peer: the QP at the other end, in words. */
void hang_tell_rnr(const struct qp *qp, uint32_t psn, const char *peer)
	REQUIRES(qp->lock);
void hang_tell_silence(struct qp *qp, uint32_t psn, const char *peer) REQUIRES(qp->lock);
void hang_tell_no_recv(const struct qp *qp, uint32_t psn, const char *peer);
void hang_tell_number(const struct qp *qp, uint32_t expected, uint32_t got,
		      const char *peer);

#endif
