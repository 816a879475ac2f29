/* SPDX-License-Identifier: BSD-2-Clause */
/* fault.h - a link around another that loses, doubles, swaps, delays and
 * spoils datagrams.  A seed repeats a run exactly.
 *
 *	spec = item *( "," item )
 *	item = [ "tx:" | "rx:" ] key "=" value	without: each direction
 *
 *	drop=P		lose it
 *	dup=P		let it through twice
 *	reorder=P	let 1 to 4 later ones pass it (1 ms at most)
 *	delay=TIME[:P]	let it through TIME later; without P all of them
 *	corrupt=P	change one byte of it
 *	nth=N		lose the N-th one, from 1; several may be given
 *	seed=N		of both directions [1]
 *
 * P is a probability from 0 to 1, such as 0.001; TIME is 100us, 5ms, 1s.
 * Datagrams that wait are copies; they are let through by later sends and
 * recvs, so the link's deadline has to be honoured.
 */
#ifndef NET_FAULT_H
#define NET_FAULT_H

#include <stdbool.h>

#include "net/link.h"

struct fault_stats {
	uint64_t seen, dropped, duplicated, reordered, delayed, corrupted;
};

/* Puts faults around inner, which the new link then owns and closes. Runs (GSO) are
 * split. *out may be the variable that held inner. Returns 0; -EINVAL if spec is wrong,
 * with err naming the part; -ENOMEM, which err says too. */
int fault_wrap(struct link **out, struct link *inner, const char *spec, char *err,
	       size_t errlen);

/* Like fault_wrap(), for an InfiniBand link. Such a link keeps order, so some faults are
 * refused (fault_spec.h); it has no ICRC, so a corrupted packet is marked damaged
 * instead. */
int fault_wrap_ordered(struct link **out, struct link *inner, const char *spec, char *err,
		       size_t errlen);

/* At log level debug each fault is logged. describe() formats the datagram for the line;
 * without it the line gives the number of bytes. */
void fault_describe(struct link *link,
		    void (*describe)(const struct dgram *d, char *buf, size_t size));

const struct fault_stats *fault_stats(const struct link *link, bool rx);

#endif
