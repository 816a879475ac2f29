/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_frame.h - RoCE v2 packets from the IP header on, and v1 packets from the GRH on, as
 * packet sockets give and take them: headers are built and read here, and nothing else.
 * For link/raw.c.
 */
#ifndef LINK_RAW_FRAME_H
#define LINK_RAW_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link/dgram.h"

enum { RAW_IP4 = 20, RAW_IP6 = 40, RAW_UDP = 8, RAW_HEAD_MAX = RAW_IP6 + RAW_UDP };
enum { RAW_GRH = 40, RAW_TYPE_V1 = 0x8915 };

/* The IP and UDP headers of d, whose ports are filled in: IPv4 with DF and the
 * identification d->ip_id, len bytes behind them, and no UDP checksum, which IPv6 does
 * not allow: see raw_frame_sum().  Returns their length. */
size_t raw_frame_build(uint8_t head[RAW_HEAD_MAX], const struct dgram *d, size_t len);

/* What stands in the checksum's place of headers that raw_frame_build() has made while
 * the sum over the rest is left to the kernel. */
void raw_frame_sum(uint8_t *head);

/* The n bytes from the IP header on, of a frame or of one that the kernel has merged from
 * several.  False: no UDP datagram to port, or one that is cut, has options or extension
 * headers, is a fragment or has a wrong header checksum; the UDP checksum is not looked
 * at.  True: *d has the addresses, class, time to live, identification and DF of the
 * header; len and one are what UDP carries, the padding of the frame left out. */
bool raw_frame_parse(struct dgram *d, uint8_t *at, size_t n, uint16_t port);

/* The GRH of d, which is of RoCE v1, and len bytes behind it. */
size_t raw_grh_build(uint8_t head[RAW_HEAD_MAX], const struct dgram *d, size_t len);

/* The n bytes behind the Ethernet header of a frame of RoCE v1.  False: no GRH of version
 * 6 with a BTH behind it, or one that says more than there is, or less than a BTH and an
 * ICRC.  True: *d has GIDs, class and hop limit; len and one are BTH to ICRC, the padding
 * of the frame left out. */
bool raw_grh_parse(struct dgram *d, uint8_t *at, size_t n);

/* Sum of a header as IPv4 has it; 0: a header with a checksum in it is right. */
uint16_t raw_ip_sum(const uint8_t *at, size_t n);

#endif
