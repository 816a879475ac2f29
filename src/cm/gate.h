/* SPDX-License-Identifier: BSD-2-Clause */
/* gate.h - how rdma_cm reaches the CM of the process's NIC.
 *
 * Each function takes the engine's turn while it runs, so none may be called from within
 * cm_owner.event(). ctx is any context of the process's NIC; a context that is dead, or
 * that another libibverbs has opened, gives -EIO. All functions return 0 or -errno,
 * except close, unbind and those that ask a question. */
#ifndef CM_GATE_H
#define CM_GATE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "cm/cm.h"

int cm_gate_bind(struct ibv_context *ctx, struct cm_service *s, struct cm_listener **out);
int cm_gate_listen(struct ibv_context *ctx, struct cm_listener *l, int backlog,
		   bool datagram, struct cm_owner *owner);
void cm_gate_unbind(struct ibv_context *ctx, struct cm_listener *l);
int cm_gate_connect(struct ibv_context *ctx, const struct cm_target *to,
		    const struct cm_param *self, struct cm_owner *owner,
		    struct cm_conn **out);
/* See cm_taken() and cm_accept(). */
void cm_gate_taken(struct ibv_context *ctx, struct cm_conn *c);
int cm_gate_accept(struct ibv_context *ctx, struct cm_conn *c,
		   const struct cm_param *self, struct cm_owner *owner);
int cm_gate_reject(struct ibv_context *ctx, struct cm_conn *c, uint16_t reason,
		   const void *private, size_t len);
/* After RESPONSE: gives a connection its QP (iWARP). Returns 0 at once where the QP
 * connects by itself. */
int cm_gate_attach(struct ibv_context *ctx, struct cm_conn *c);
int cm_gate_established(struct ibv_context *ctx, struct cm_conn *c);
int cm_gate_disconnect(struct ibv_context *ctx, struct cm_conn *c);
void cm_gate_close(struct ibv_context *ctx, struct cm_conn *c);

/* The caller is about to sleep until has(arg), which makes fd readable: sleeps on the
 * NIC's sockets, too, for a short time, so that a peer which answers soon wakes the
 * caller itself. Returns 1 if has(arg); 0 if the caller is to sleep on fd alone; or
 * -EINTR. */
int cm_gate_await(struct ibv_context *ctx, int fd, bool (*has)(void *arg), void *arg);

/* For InfiniBand, at an adapter of a fabric: finds the GID of the port with an IP
 * address. Returns -EHOSTUNREACH if no port has that address, -ENODEV if ctx is not at an
 * adapter. */
int cm_gate_find(struct ibv_context *ctx, const uint8_t ip[16], uint8_t gid[16]);
/* Returns a descriptor for s->fd: as long as it is open, requests for this service come
 * to this process. */
int cm_gate_serve(struct ibv_context *ctx, const struct cm_service *s);
/* See cm_path() and cm_path_forget(). */
int cm_gate_path(struct ibv_context *ctx, const struct cm_route *route,
		 uint64_t patience_ns, struct cm_owner *owner);
void cm_gate_path_forget(struct ibv_context *ctx, const struct cm_owner *owner);
/* See cm_join() and cm_part(). */
int cm_gate_join(struct ibv_context *ctx, const struct sa_group *want,
		 uint64_t patience_ns, struct cm_owner *owner, struct cm_member **out);
void cm_gate_part(struct ibv_context *ctx, struct cm_member *m);
/* Returns the IP address of ctx's port, where that is not a GID; all zero: it has
 * none. */
void cm_gate_ip(struct ibv_context *ctx, uint8_t ip[16]);

/* Does ctx belong to the process's NIC? */
bool cm_gate_knows(struct ibv_context *ctx);
/* Is ip an address of ctx's device? */
bool cm_gate_has_ip(struct ibv_context *ctx, const uint8_t ip[16]);

#endif
