/* SPDX-License-Identifier: BSD-2-Clause */
/* gate.h - how librdmacm.so.1 reaches the NIC, which is in libibverbs.so.1:
 * one exported function that gives a table of calls.
 *
 * Each call takes the engine's turn for its length, so none may be made from
 * within cm_owner.event().  ctx: any context of the process, for its NIC; a
 * dead one answers -EIO.  All but close() and unbind() return 0 or -errno. */
#ifndef CM_GATE_H
#define CM_GATE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "cm/cm.h"

enum { CM_GATE_VERSION = 3 };

struct cm_gate {
	unsigned version;
	int (*bind)(struct ibv_context *ctx, struct cm_service *s,
		    struct cm_listener **out);
	int (*listen)(struct ibv_context *ctx, struct cm_listener *l, int backlog,
		      bool datagram, struct cm_owner *owner);
	void (*unbind)(struct ibv_context *ctx, struct cm_listener *l);
	int (*connect)(struct ibv_context *ctx, const struct cm_target *to,
		       const struct cm_param *self, struct cm_owner *owner,
		       struct cm_conn **out);
	int (*own)(struct ibv_context *ctx, struct cm_conn *c, struct cm_owner *owner);
	int (*accept)(struct ibv_context *ctx, struct cm_conn *c,
		      const struct cm_param *self);
	int (*reject)(struct ibv_context *ctx, struct cm_conn *c, uint16_t reason,
		      const void *private, size_t len);
	/* A connection that has to be given its QP (iWARP); 0 at once where the
	 * QP is connected otherwise. */
	int (*attach)(struct ibv_context *ctx, struct cm_conn *c);
	int (*established)(struct ibv_context *ctx, struct cm_conn *c);
	int (*disconnect)(struct ibv_context *ctx, struct cm_conn *c);
	void (*close)(struct ibv_context *ctx, struct cm_conn *c);
	/* Is ip an address of ctx's device? */
	bool (*has_ip)(struct ibv_context *ctx, const uint8_t ip[16]);
};

const struct cm_gate *urnic_cm_gate(void);

#endif
