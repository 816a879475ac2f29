/* SPDX-License-Identifier: BSD-2-Clause */
/* pcap.h - a link around another that records what it carries: what the inner link took
 * (outbound) and gave (inbound, as epb_flags say). net/capture.h says where to. */
#ifndef NET_PCAP_H
#define NET_PCAP_H

#include "net/capture.h"
#include "net/link.h"

/* Records what inner carries; ib: an InfiniBand link (below lid.h). The new link owns and
 * closes inner, and is a user of `to`; *out may be the variable that held inner. Without
 * captures it passes all calls on, runs as well. Returns 0 or -ENOMEM. */
int pcap_wrap(struct link **out, struct link *inner, struct captures *to, bool ib);

/* --- for fault.c, which knows why a packet is what it is ------------------------------
 */

/* Is there a capture?  If not, what follows records nothing. */
bool pcap_records(const struct link *pcap);
/* send() of one datagram, with a comment. */
int pcap_send_noted(struct link *pcap, struct dgram *d, const char *note, uint64_t now);
/* recv() that records nothing: pcap_note() is to be called for each datagram. */
int pcap_recv_quiet(struct link *pcap, struct dgram *v, unsigned n, uint64_t now);
/* Records d, which may never have been sent. */
void pcap_note(struct link *pcap, const struct dgram *d, enum pcapng_dir dir,
	       const char *note, uint64_t now);

#endif
