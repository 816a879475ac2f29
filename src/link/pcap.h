/* SPDX-License-Identifier: BSD-2-Clause */
/* pcap.h - a link around another that writes what it carries to a pcapng file.
 *
 * Packets are recorded as IPv4 and IPv6 (LINKTYPE_RAW) with headers made from
 * the datagram: what the inner link took, outbound, and what it gave, inbound,
 * as epb_flags say.  IPv4: DF, the identification as far as it is known, a
 * right header checksum, UDP checksum 0.  IPv6: a right UDP checksum, since 0
 * is not allowed.  Packets of InfiniBand are ERF records, from LRH to VCRC.  Times are
 * the engine's, moved to the wall clock's at the first packet, in nanoseconds.
 *
 * The file grows by whole packets: when the buffer is full, 100 ms after a
 * packet, at close, and at each call once the program ends.  So what is there of it is
 * valid at any time.
 */
#ifndef LINK_PCAP_H
#define LINK_PCAP_H

#include "link/link.h"

/* Put a capture to the file path, in which %p is the process id, around inner,
 * which then is the new link's and is closed with it.  The file is made anew.
 * *out may be the variable that inner came from.  0 or -errno. */
int pcap_wrap(struct link **out, struct link *inner, const char *path);

/* Around a link whose packets are InfiniBand's (lid.h goes around it), into the file of
 * that other capture, which is closed later.  0 or -ENOMEM. */
int pcap_join(struct link **out, struct link *inner, struct link *pcap);

/* The program ends: from now on nothing waits in a buffer after a call. */
void pcap_leave(void);

/* In the child of a fork: captures go on in the parent only. */
void pcap_forked(void);

#endif
