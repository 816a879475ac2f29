/* SPDX-License-Identifier: BSD-2-Clause */
/* gate.c - see gate.h. */
#include "cm/gate.h"

#include <errno.h>
#include <string.h>

#include "cm/cm_int.h"
#include "sys/clock.h"
#include "sys/guard.h"
#include "sys/held.h"
#include "sys/inside.h"
#include "sys/pid.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/netport.h"

/* --- how a call begins and ends ------------------------------------------ */

/* Returns NULL if ibv is no context of this process's NIC. */
static struct context *find_context(struct ibv_context *ibv)
{
	const void *owner;

	return live_find(ibv ? &context_of(ibv)->live : NULL, LIVE_CONTEXT, &owner)
		       ? context_of(ibv)
		       : NULL;
}

bool cm_gate_knows(struct ibv_context *ibv)
{
	return find_context(ibv);
}

/* Begins a call without the turn. Returns NULL if ibv is dead or not ours; otherwise
 * end_call() must follow. */
static struct cm *begin_call(struct ibv_context *ibv)
{
	const struct context *ctx = find_context(ibv);

	if (!ctx || ctx->pid != pid_own() || ctx->dead)
		return NULL;
	held_begin();
	inside_begin();
	return cm_of_core(ctx->core);
}

static int end_call(int rc)
{
	inside_end();
	held_end();
	return rc;
}

/* As begin_call(), and takes the turn; leave_turn() must follow. */
static NO_TSA struct cm *enter_turn(struct ibv_context *ibv)
{
	struct cm *cm = begin_call(ibv);

	if (cm)
		turn_take(&cm->core->turn);
	return cm;
}

/* Sends the MADs that the call has produced, and gives the turn back. */
static NO_TSA int leave_turn(struct cm *cm, int rc)
{
	cm_send_mads(cm, clock_ns());
	cm->site->leave(cm->core);
	return end_call(rc);
}

/* As enter_turn(), for a call that may attach a QP. The guard is armed before the peer
 * can access memory, and before the turn is taken, which is the order of the fork
 * handlers. */
static NO_TSA struct cm *enter_armed(struct ibv_context *ibv, const struct cm_conn *c)
{
	struct cm *cm = begin_call(ibv);

	if (!cm)
		return NULL;
	if (c->proto->attach)
		guard_arm();
	turn_take(&cm->core->turn);
	return cm;
}

/* Binds the UDP port, by which MADs arrive. */
static int open_port(struct ibv_context *ibv, const uint8_t *ip)
{
	struct cm *cm = begin_call(ibv);

	return cm ? end_call(cm->site->open_port(cm->core, ip)) : -EIO;
}

/* --- listening ----------------------------------------------------------- */

int cm_gate_bind(struct ibv_context *ctx, struct cm_service *s, struct cm_listener **out)
{
	struct cm *cm = enter_turn(ctx);

	return cm ? leave_turn(cm, cm_bind(cm, s, out)) : -EIO;
}

int cm_gate_listen(struct ibv_context *ctx, struct cm_listener *l, int backlog,
		   bool datagram, struct cm_owner *owner)
{
	int rc = cm_needs_port(l) ? open_port(ctx, NULL) : 0;
	struct cm *cm = rc ? NULL : enter_turn(ctx);

	if (rc)
		return rc;
	return cm ? leave_turn(cm, cm_listen(cm, l, backlog, datagram, owner)) : -EIO;
}

void cm_gate_unbind(struct ibv_context *ctx, struct cm_listener *l)
{
	struct cm *cm = enter_turn(ctx);

	if (!cm)
		return;
	cm_unbind(cm, l);
	leave_turn(cm, 0);
}

/* --- connections --------------------------------------------------------- */

int cm_gate_connect(struct ibv_context *ctx, const struct cm_target *to,
		    const struct cm_param *self, struct cm_owner *owner,
		    struct cm_conn **out)
{
	const struct cm_proto *proto = to->iwarp ? &cm_iw_proto : &cm_ib_proto;
	int rc = to->iwarp || to->route.dlid ? 0 : open_port(ctx, to->route.src);
	struct cm *cm = rc ? NULL : enter_turn(ctx);

	if (rc)
		return rc;
	return cm ? leave_turn(cm, proto->connect(cm, to, self, owner, out, clock_ns()))
		  : -EIO;
}

void cm_gate_taken(struct ibv_context *ctx, struct cm_conn *c)
{
	struct cm *cm = enter_turn(ctx);

	if (!cm)
		return;
	cm_taken(cm, c);
	leave_turn(cm, 0);
}

int cm_gate_accept(struct ibv_context *ctx, struct cm_conn *c,
		   const struct cm_param *self, struct cm_owner *owner)
{
	struct cm *cm = enter_armed(ctx, c);

	return cm ? leave_turn(cm, cm_accept(c, self, owner, clock_ns())) : -EIO;
}

int cm_gate_reject(struct ibv_context *ctx, struct cm_conn *c, uint16_t reason,
		   const void *private, size_t len)
{
	struct cm *cm = enter_turn(ctx);

	return cm ? leave_turn(cm, c->proto->reject(c, reason, private, len, clock_ns()))
		  : -EIO;
}

int cm_gate_attach(struct ibv_context *ctx, struct cm_conn *c)
{
	struct cm *cm;

	if (!c->proto->attach)
		return 0;
	cm = enter_armed(ctx, c);
	return cm ? leave_turn(cm, c->proto->attach(c, clock_ns())) : -EIO;
}

int cm_gate_established(struct ibv_context *ctx, struct cm_conn *c)
{
	struct cm *cm = enter_turn(ctx);

	return cm ? leave_turn(cm, c->proto->established(c, clock_ns())) : -EIO;
}

int cm_gate_disconnect(struct ibv_context *ctx, struct cm_conn *c)
{
	struct cm *cm = enter_turn(ctx);

	return cm ? leave_turn(cm, c->proto->disconnect(c, clock_ns())) : -EIO;
}

void cm_gate_close(struct ibv_context *ctx, struct cm_conn *c)
{
	struct cm *cm = enter_turn(ctx);

	if (!cm)
		return;
	c->proto->close(c, clock_ns());
	leave_turn(cm, 0);
}

int cm_gate_await(struct ibv_context *ctx, int fd, bool (*has)(void *arg), void *arg)
{
	struct cm *cm = begin_call(ctx);

	return cm ? end_call(cm->site->await(cm->core, fd, has, arg)) : 0;
}

/* --- InfiniBand ---------------------------------------------------------- */

int cm_gate_find(struct ibv_context *ctx, const uint8_t ip[16], uint8_t gid[16])
{
	struct cm *cm = begin_call(ctx);

	return cm ? end_call(cm->site->find(cm->core, ip, gid)) : -EIO;
}

int cm_gate_serve(struct ibv_context *ctx, const struct cm_service *s)
{
	struct cm *cm = begin_call(ctx);

	return cm ? end_call(cm->site->serve(cm->core, cm_id_of_service(s))) : -EIO;
}

int cm_gate_path(struct ibv_context *ctx, const struct cm_route *route,
		 uint64_t patience_ns, struct cm_owner *owner)
{
	struct cm *cm = enter_turn(ctx);

	return cm ? leave_turn(cm, cm_path(cm, route, patience_ns, owner, clock_ns()))
		  : -EIO;
}

void cm_gate_path_forget(struct ibv_context *ctx, const struct cm_owner *owner)
{
	struct cm *cm = enter_turn(ctx);

	if (!cm)
		return;
	cm_path_forget(cm, owner);
	leave_turn(cm, 0);
}

int cm_gate_join(struct ibv_context *ctx, const struct sa_group *want,
		 uint64_t patience_ns, struct cm_owner *owner, struct cm_member **out)
{
	struct cm *cm = enter_turn(ctx);

	return cm ? leave_turn(cm, cm_join(cm, want, patience_ns, owner, out, clock_ns()))
		  : -EIO;
}

void cm_gate_part(struct ibv_context *ctx, struct cm_member *m)
{
	struct cm *cm = enter_turn(ctx);

	if (!cm)
		return;
	cm_part(cm, m, clock_ns());
	leave_turn(cm, 0);
}

/* --- addresses ----------------------------------------------------------- */

void cm_gate_ip(struct ibv_context *ctx, uint8_t ip[16])
{
	const struct port port = device_port(context_of(ctx)->dev);

	memcpy(ip, port.ip, sizeof(port.ip));
}

bool cm_gate_has_ip(struct ibv_context *ctx, const uint8_t ip[16])
{
	return device_has_ip(context_of(ctx)->dev, ip);
}
