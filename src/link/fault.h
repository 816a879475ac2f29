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
#ifndef LINK_FAULT_H
#define LINK_FAULT_H

#include <stdbool.h>

#include "link/link.h"

struct fault_stats {
	uint64_t seen, dropped, duplicated, reordered, delayed, corrupted;
};

/* Put faults around inner, which then is the new link's and is closed with
 * it; runs (GSO) are cut.  *out may be the variable that inner came from.
 * -EINVAL: spec is wrong, and err names the part; -ENOMEM: err says so. */
int fault_wrap(struct link **out, struct link *inner, const char *spec, char *err,
	       size_t errlen);

/* As it, around a link of InfiniBand: it keeps order, so some faults are refused
 * (fault_spec.h), and what is corrupt is marked as damaged, as there is no ICRC. */
int fault_wrap_ordered(struct link **out, struct link *inner, const char *spec, char *err,
		       size_t errlen);

/* At level debug each fault is a line of the log, which has the datagram in
 * describe's words; without it, in its bytes' number. */
void fault_describe(struct link *link,
		    void (*describe)(const struct dgram *d, char *buf, size_t size));

const struct fault_stats *fault_stats(const struct link *link, bool rx);

#endif
