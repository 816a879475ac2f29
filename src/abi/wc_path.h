/* SPDX-License-Identifier: BSD-2-Clause */
/* wc_path.h - parses the 40 bytes before a datagram's payload (IBTA A17.4.5): an IPv6
 * header, or 20 undefined bytes and an IPv4 header. Included inside abi/ only. */
#ifndef ABI_WC_PATH_H
#define ABI_WC_PATH_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct wc_path {
	union ibv_gid sgid, dgid; /* IPv4 mapped */
	uint32_t flow_label;
	uint8_t tclass;
	bool v1; /* the header is a GRH of RoCE v1 */
};

/* Returns 0, or -EPROTONOSUPPORT if neither header is there. */
int wc_path_parse(const struct ibv_grh *grh, struct wc_path *out);

/* Sets mac to the address that gid implies: of a multicast group, or of a link-local
 * address made from a MAC. Returns 0 or -EOPNOTSUPP. */
int wc_path_mac(const union ibv_gid *gid, uint8_t mac[6]);

#endif
