/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_gate.c - see cm/gate.h. */
#include "cm/gate.h"

#include <string.h>

#include "abi/abi.h"
#include "driver/nic.h"
#include "sys/guard.h"
#include "verbs/netport.h"

bool cm_gate_knows(struct ibv_context *ctx)
{
	const void *owner;

	return live_find(LIVE(abi_of, ctx), LIVE_CONTEXT, &owner);
}

/* Returns false if ctx is dead or not ours; otherwise abi_end() must follow. */
static bool begin(struct ibv_context *ctx)
{
	if (!cm_gate_knows(ctx) || abi_forked(ctx) || !abi_enter(ctx))
		return false;
	abi_hold();
	return true;
}

/* Returns NULL if ctx is dead or not ours; otherwise leave() must follow. */
static struct cm *enter(struct ibv_context *ctx)
{
	return begin(ctx) ? nic_enter(abi_of(ctx)->nic) : NULL;
}

static int leave(struct ibv_context *ctx, int rc)
{
	nic_leave(abi_of(ctx)->nic);
	abi_end();
	return rc;
}

/* Binds the UDP port, by which MADs arrive. */
static int open_port(struct ibv_context *ctx, const uint8_t *ip)
{
	int rc;

	if (!begin(ctx))
		return -EIO;
	rc = nic_listen(abi_of(ctx)->nic, NULL, ip);
	if (!rc)
		nic_ask(abi_of(ctx)->nic);
	abi_end();
	return rc;
}

int cm_gate_bind(struct ibv_context *ctx, struct cm_service *s, struct cm_listener **out)
{
	struct cm *cm = enter(ctx);

	return cm ? leave(ctx, cm_bind(cm, s, out)) : -EIO;
}

int cm_gate_listen(struct ibv_context *ctx, struct cm_listener *l, int backlog,
		   bool datagram, struct cm_owner *owner)
{
	int rc = cm_needs_port(l) ? open_port(ctx, NULL) : 0;
	struct cm *cm = rc ? NULL : enter(ctx);

	if (rc)
		return rc;
	return cm ? leave(ctx, cm_listen(cm, l, backlog, datagram, owner)) : -EIO;
}

void cm_gate_unbind(struct ibv_context *ctx, struct cm_listener *l)
{
	struct cm *cm = enter(ctx);

	if (!cm)
		return;
	cm_unbind(cm, l);
	leave(ctx, 0);
}

int cm_gate_connect(struct ibv_context *ctx, const struct cm_target *to,
		    const struct cm_param *self, struct cm_owner *owner,
		    struct cm_conn **out)
{
	const struct cm_proto *proto = to->iwarp ? &cm_iw_proto : &cm_ib_proto;
	int rc = to->iwarp || to->route.dlid ? 0 : open_port(ctx, to->route.src);
	struct cm *cm = rc ? NULL : enter(ctx);

	if (rc)
		return rc;
	return cm ? leave(ctx, proto->connect(cm, to, self, owner, out, nic_now()))
		  : -EIO;
}

void cm_gate_taken(struct ibv_context *ctx, struct cm_conn *c)
{
	struct cm *cm = enter(ctx);

	if (!cm)
		return;
	cm_taken(cm, c);
	leave(ctx, 0);
}

/* As enter(), for a call that may attach a QP. The guard is armed before the peer can
 * access memory, and before the turn is taken, which is the order of the fork handlers.
 */
static struct cm *enter_armed(struct ibv_context *ctx, const struct cm_conn *c)
{
	if (!begin(ctx))
		return NULL;
	if (c->proto->attach)
		guard_arm();
	return nic_enter(abi_of(ctx)->nic);
}

int cm_gate_accept(struct ibv_context *ctx, struct cm_conn *c,
		   const struct cm_param *self, struct cm_owner *owner)
{
	return enter_armed(ctx, c) ? leave(ctx, cm_accept(c, self, owner, nic_now()))
				   : -EIO;
}

int cm_gate_reject(struct ibv_context *ctx, struct cm_conn *c, uint16_t reason,
		   const void *private, size_t len)
{
	return enter(ctx)
		       ? leave(ctx, c->proto->reject(c, reason, private, len, nic_now()))
		       : -EIO;
}

int cm_gate_attach(struct ibv_context *ctx, struct cm_conn *c)
{
	if (!c->proto->attach)
		return 0;
	return enter_armed(ctx, c) ? leave(ctx, c->proto->attach(c, nic_now())) : -EIO;
}

int cm_gate_established(struct ibv_context *ctx, struct cm_conn *c)
{
	return enter(ctx) ? leave(ctx, c->proto->established(c, nic_now())) : -EIO;
}

int cm_gate_disconnect(struct ibv_context *ctx, struct cm_conn *c)
{
	return enter(ctx) ? leave(ctx, c->proto->disconnect(c, nic_now())) : -EIO;
}

void cm_gate_close(struct ibv_context *ctx, struct cm_conn *c)
{
	if (!enter(ctx))
		return;
	c->proto->close(c, nic_now());
	leave(ctx, 0);
}

int cm_gate_await(struct ibv_context *ctx, int fd, bool (*has)(void *arg), void *arg)
{
	int rc;

	if (!begin(ctx))
		return 0;
	rc = nic_await(abi_of(ctx)->nic, fd, has, arg);
	abi_end();
	return rc;
}

int cm_gate_find(struct ibv_context *ctx, const uint8_t ip[16], uint8_t gid[16])
{
	int rc;

	if (!begin(ctx))
		return -EIO;
	rc = nic_find(abi_of(ctx)->nic, ip, gid);
	abi_end();
	return rc;
}

int cm_gate_serve(struct ibv_context *ctx, const struct cm_service *s)
{
	int rc;

	if (!begin(ctx))
		return -EIO;
	rc = nic_serve(abi_of(ctx)->nic, cm_id_of_service(s));
	abi_end();
	return rc;
}

int cm_gate_path(struct ibv_context *ctx, const struct cm_route *route,
		 uint64_t patience_ns, struct cm_owner *owner)
{
	struct cm *cm = enter(ctx);

	return cm ? leave(ctx, cm_path(cm, route, patience_ns, owner, nic_now())) : -EIO;
}

void cm_gate_path_forget(struct ibv_context *ctx, const struct cm_owner *owner)
{
	struct cm *cm = enter(ctx);

	if (!cm)
		return;
	cm_path_forget(cm, owner);
	leave(ctx, 0);
}

int cm_gate_join(struct ibv_context *ctx, const struct sa_group *want,
		 uint64_t patience_ns, struct cm_owner *owner, struct cm_member **out)
{
	struct cm *cm = enter(ctx);

	return cm ? leave(ctx, cm_join(cm, want, patience_ns, owner, out, nic_now()))
		  : -EIO;
}

void cm_gate_part(struct ibv_context *ctx, struct cm_member *m)
{
	struct cm *cm = enter(ctx);

	if (!cm)
		return;
	cm_part(cm, m, nic_now());
	leave(ctx, 0);
}

void cm_gate_ip(struct ibv_context *ctx, uint8_t ip[16])
{
	const struct port port = device_port(abi_of(ctx)->ctx.dev);

	memcpy(ip, port.ip, sizeof(port.ip));
}

bool cm_gate_has_ip(struct ibv_context *ctx, const uint8_t ip[16])
{
	return device_has_ip(abi_of(ctx)->ctx.dev, ip);
}
