/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_frame.h - builds and parses the headers of RoCE v2 packets from the IP header on,
 * and of RoCE v1 packets from the GRH on, for packet sockets. For net/raw.c. */
#ifndef NET_RAW_FRAME_H
#define NET_RAW_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/dgram.h"

enum { RAW_IP4 = 20, RAW_IP6 = 40, RAW_UDP = 8, RAW_HEAD_MAX = RAW_IP6 + RAW_UDP };
enum { RAW_GRH = 40, RAW_TYPE_V1 = 0x8915 };

/* Writes the IP and UDP headers of d, whose ports are filled in, with len bytes of
 * payload: IPv4 with DF and identification d->ip_id. There is no UDP checksum; IPv6
 * needs one, see raw_frame_sum(). Returns the length of the headers. */
size_t raw_frame_build(uint8_t head[RAW_HEAD_MAX], const struct dgram *d, size_t len);

/* Sets the checksum field of headers from raw_frame_build() to the pseudo header's sum,
 * for the kernel to add the rest. */
void raw_frame_sum(uint8_t *head);

/* Parses n bytes from the IP header on: a frame, or several that the kernel merged.
 * Returns false if it is no UDP datagram to port, is truncated or a fragment, has
 * options or extension headers, or has a wrong header checksum; the UDP checksum is not
 * checked.
 *
 * On success *d has the header's addresses, class, time to live, identification and DF;
 * len and one cover the UDP payload without the frame's padding.
 */
bool raw_frame_parse(struct dgram *d, uint8_t *at, size_t n, uint16_t port);

/* Writes the GRH of RoCE v1 packet d, with len bytes behind it. Returns its length. */
size_t raw_grh_build(uint8_t head[RAW_HEAD_MAX], const struct dgram *d, size_t len);

/* Parses n bytes behind the Ethernet header of a RoCE v1 frame. Returns false without a
 * version 6 GRH followed by a BTH, if the GRH's length exceeds n, or is too short for a
 * BTH and ICRC. On success *d has GIDs, class and hop limit; len and one cover BTH to
 * ICRC without the frame's padding. */
bool raw_grh_parse(struct dgram *d, uint8_t *at, size_t n);

/* IPv4 header checksum; 0 over a header that includes a right checksum. */
uint16_t raw_ip_sum(const uint8_t *at, size_t n);

#endif
