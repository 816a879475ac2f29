/* SPDX-License-Identifier: BSD-2-Clause */
/* pcap.h - a link around another that writes what it carries to a pcapng file.
 *
 * Records what the inner link took (outbound) and gave (inbound, as epb_flags say) as
 * IPv4 and IPv6 packets (LINKTYPE_RAW), with headers made from the datagram. IPv4: DF,
 * the identification as far as it is known, a right header checksum, UDP checksum 0.
 * IPv6: a right UDP checksum, since 0 is not allowed. InfiniBand packets are ERF
 * records, LRH to VCRC. Times are the engine's, shifted to wall-clock time at the first
 * packet, in nanoseconds.
 *
 * The file grows by whole packets and is valid at any time. The buffer is written when
 * it is full, 100 ms after a packet, at close, and after each call once the program
 * ends.
 */
#ifndef NET_PCAP_H
#define NET_PCAP_H

#include "net/link.h"

/* Captures what inner carries to the file `path`, in which %p becomes the process id.
 * The file is truncated. The new link owns and closes inner; *out may be the variable
 * that held inner. Returns 0 or -errno: -EBUSY if another process writes to the file,
 * -EMFILE if too many captures are open. */
int pcap_wrap(struct link **out, struct link *inner, const char *path);

/* Wraps an InfiniBand link (below lid.h) and records into the file of `pcap`, which must
 * be closed later. Returns 0 or -ENOMEM. */
int pcap_join(struct link **out, struct link *inner, struct link *pcap);

/* The program ends: from now on no packet stays in the buffer after a call. */
void pcap_leave(void);

/* In the child of a fork: closes the captures, which go on in the parent only. */
void pcap_forked(void);

#endif
