/* SPDX-License-Identifier: BSD-2-Clause */
/* wraps.h - what settings put around the links of a NIC: URNIC_PCAP's capture, and
 * URNIC_FAULT's faults. Nothing else in driver/ names them.  URNIC_LIKE wants packets,
 * too: what a wire does between two QPs is then done between processes of a host. */
#ifndef DRIVER_WRAPS_H
#define DRIVER_WRAPS_H

#include <stdbool.h>

struct conf;
struct link;
struct nic;

/* Puts around *link what conf asks for; `ordered`: an InfiniBand link. A link that comes
 * later is captured into the file of the first. Returns 0, or -errno after logging why;
 * *link is then what must be closed. */
int wraps_put(struct nic *nic, const struct conf *conf, struct link **link, bool ordered);

/* The outermost link is complete, and keeps what wraps_put() left in *inner: there faults
 * and captures can be put in later. */
void wraps_know(struct nic *nic, const struct conf *conf, struct link *outer,
		struct link **inner, bool ordered);
/* The links are closed, or were never complete. */
void wraps_close(struct nic *nic);

/* Returns which setting asks for packets, for which processes of this host must exchange
 * some, too; NULL: none. */
const char *wraps_why(const struct conf *conf);

/* There is a connection whose packets pass no link. */
void wraps_are_passed(void);

/* The program ends. */
void wraps_leave(void);
/* In the child of a fork. */
void wraps_forked(void);

#endif
