/* SPDX-License-Identifier: BSD-2-Clause */
/* fault.h - a link around another that loses, doubles, swaps, delays and
 * spoils datagrams.  A seed repeats a run exactly.
 *
 *	spec = group *( ";" group )
 *	group = item *( "," item )
 *	item = [ "tx:" | "rx:" ] key "=" value	without: each direction
 *
 * fault_key.def has the keys.  A group's faults befall the packets that its qp=, peer=
 *and opcode= choose, at the times of at=, for= and every=; without these all packets at
 *all times.  A packet that several groups choose suffers the faults of all.  P is a
 * probability from 0 to 1, such as 0.001; T is 100us, 5ms, 1s.
 *
 * Of what is lost anyway nothing else is done; what is delayed or held by a rate is not
 * reordered.  Datagrams that wait are copies; they are let through by later sends and
 * recvs, so the link's deadline has to be honoured.
 */
#ifndef NET_FAULT_H
#define NET_FAULT_H

#include <stdbool.h>

#include "net/fault_judge.h"
#include "net/link.h"

struct fault_stats {
	/* Of those dropped: by the full queue of a rate. */
	uint64_t seen, dropped, duplicated, reordered, delayed, corrupted, marked, slowed,
		beyond;
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

/* Puts a link without faults around inner, for fault_set(); until then, and after the
 * last fault, it passes all calls on, runs as well.  Returns 0 or -ENOMEM. */
int fault_put(struct link **out, struct link *inner, bool ordered);

/* From now on these are the faults; the counts go on.  Those that began at `now` count
 * their times from then.  What waits goes on at once; on a link that does not keep order
 * what finds no room then is lost. */
void fault_set(struct link *link, const struct fault_spec *spec, uint64_t now);

/* Who sends a datagram, for qp=; NULL: nobody knows. */
void fault_knows(struct link *link, fault_sends *sends, void *arg);

/* Puts capture, a pcap link around the link that `link` has been around so far, in
 * between: it then says of each packet what befell it, and shows those that were lost. */
void fault_capture(struct link *link, struct link *capture);
/* The link that `link` is around. */
struct link *fault_inner(const struct link *link);

/* Are there faults? */
bool fault_acts(const struct link *link);

/* At log level debug each fault is logged. describe() formats the datagram for the line;
 * without it the line gives the number of bytes. */
void fault_describe(struct link *link,
		    void (*describe)(const struct dgram *d, char *buf, size_t size));

const struct fault_stats *fault_stats(const struct link *link, bool rx);

#endif
