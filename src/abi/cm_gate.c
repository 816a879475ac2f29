/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_gate.c - see cm/gate.h. */
#include "cm/gate.h"

#include "abi/abi.h"
#include "core/device.h"
#include "nic/nic.h"
#include "sys/guard.h"

/* NULL: ctx is dead.  leave() follows otherwise. */
static struct cm *enter(struct ibv_context *ctx)
{
	if (abi_forked(ctx) || !abi_enter(ctx))
		return NULL;
	abi_hold();
	return nic_enter(abi_of(ctx)->nic);
}

static int leave(struct ibv_context *ctx, int rc)
{
	nic_leave(abi_of(ctx)->nic);
	abi_end();
	return rc;
}

/* What is to come in needs the port. */
static int open_port(struct ibv_context *ctx, const uint8_t *ip)
{
	int rc;

	if (abi_forked(ctx) || !abi_enter(ctx))
		return -EIO;
	abi_hold();
	rc = nic_listen(abi_of(ctx)->nic, ip);
	if (!rc)
		nic_ask(abi_of(ctx)->nic);
	abi_end();
	return rc;
}

static int gate_bind(struct ibv_context *ctx, struct cm_service *s,
		     struct cm_listener **out)
{
	struct cm *cm = enter(ctx);

	return cm ? leave(ctx, cm_bind(cm, s, out)) : -EIO;
}

static int gate_listen(struct ibv_context *ctx, struct cm_listener *l, int backlog,
		       bool datagram, struct cm_owner *owner)
{
	int rc = cm_is_iwarp_only(l) ? 0 : open_port(ctx, NULL);
	struct cm *cm = rc ? NULL : enter(ctx);

	if (rc)
		return rc;
	return cm ? leave(ctx, cm_listen(cm, l, backlog, datagram, owner)) : -EIO;
}

static void gate_unbind(struct ibv_context *ctx, struct cm_listener *l)
{
	struct cm *cm = enter(ctx);

	if (!cm)
		return;
	cm_unbind(cm, l);
	leave(ctx, 0);
}

static int gate_connect(struct ibv_context *ctx, const struct cm_target *to,
			const struct cm_param *self, struct cm_owner *owner,
			struct cm_conn **out)
{
	const struct cm_proto *proto = to->iwarp ? &cm_iw_proto : &cm_ib_proto;
	int rc = to->iwarp ? 0 : open_port(ctx, to->way.src);
	struct cm *cm = rc ? NULL : enter(ctx);

	if (rc)
		return rc;
	return cm ? leave(ctx, proto->connect(cm, to, self, owner, out, nic_now()))
		  : -EIO;
}

static int gate_own(struct ibv_context *ctx, struct cm_conn *c, struct cm_owner *owner)
{
	struct cm *cm = enter(ctx);

	if (!cm)
		return -EIO;
	cm_own(cm, c, owner);
	return leave(ctx, 0);
}

static int gate_accept(struct ibv_context *ctx, struct cm_conn *c,
		       const struct cm_param *self)
{
	return enter(ctx) ? leave(ctx, c->proto->accept(c, self, nic_now())) : -EIO;
}

static int gate_reject(struct ibv_context *ctx, struct cm_conn *c, uint16_t reason,
		       const void *private, size_t len)
{
	return enter(ctx)
		       ? leave(ctx, c->proto->reject(c, reason, private, len, nic_now()))
		       : -EIO;
}

static int gate_attach(struct ibv_context *ctx, struct cm_conn *c)
{
	if (!c->proto->attach)
		return 0;
	/* Before the peer can reach memory; and before the turn, as a fork has it. */
	guard_arm();
	return enter(ctx) ? leave(ctx, c->proto->attach(c, nic_now())) : -EIO;
}

static int gate_established(struct ibv_context *ctx, struct cm_conn *c)
{
	return enter(ctx) ? leave(ctx, c->proto->established(c, nic_now())) : -EIO;
}

static int gate_disconnect(struct ibv_context *ctx, struct cm_conn *c)
{
	return enter(ctx) ? leave(ctx, c->proto->disconnect(c, nic_now())) : -EIO;
}

static void gate_close(struct ibv_context *ctx, struct cm_conn *c)
{
	if (!enter(ctx))
		return;
	c->proto->close(c, nic_now());
	leave(ctx, 0);
}

static bool gate_has_ip(struct ibv_context *ctx, const uint8_t ip[16])
{
	return device_has_ip(abi_of(ctx)->ctx.dev, ip);
}

static const struct cm_gate gate = {
	.version = CM_GATE_VERSION,
	.bind = gate_bind,
	.listen = gate_listen,
	.unbind = gate_unbind,
	.connect = gate_connect,
	.own = gate_own,
	.accept = gate_accept,
	.reject = gate_reject,
	.attach = gate_attach,
	.established = gate_established,
	.disconnect = gate_disconnect,
	.close = gate_close,
	.has_ip = gate_has_ip,
};

EXPORT const struct cm_gate *urnic_cm_gate(void)
{
	return &gate;
}
