/* SPDX-License-Identifier: BSD-2-Clause */
/* wc_path.h - the 40 bytes before a datagram's payload (IBTA A17.4.5): an IPv6
 * header, or 20 bytes of anything and an IPv4 header.  Within abi/. */
#ifndef ABI_WC_PATH_H
#define ABI_WC_PATH_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct wc_path {
	union ibv_gid sgid, dgid; /* IPv4: mapped */
	uint32_t flow_label;
	uint8_t tclass;
	bool v1; /* a GRH of RoCE v1 */
};

/* 0, or -EPROTONOSUPPORT: neither header is there. */
int wc_path_parse(const struct ibv_grh *grh, struct wc_path *out);

/* The MAC address that gid implies: of a multicast group, or of a link-local
 * address made from one.  0 or -EOPNOTSUPP. */
int wc_path_mac(const union ibv_gid *gid, uint8_t mac[6]);

#endif
