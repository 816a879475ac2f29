/* SPDX-License-Identifier: BSD-2-Clause */
/* agent.c - files and their agents; see umad.h. */
#include <errno.h>
#include <stdlib.h>

#include "fabric/umad/rmpp.h"
#include "fabric/umad/umad_own.h"

int umad_new(struct umad **out, struct fabric *f, const struct umad_ops *ops, void *ctx)
{
	struct umad *u = calloc(1, sizeof(*u));

	if (!u)
		return -ENOMEM;
	u->f = f;
	u->ops = ops;
	u->ctx = ctx;
	heap_init(&u->due);
	heap_init(&u->rx_due);
	while (fabric_node(f, u->nodes))
		u->nodes++;
	u->port = calloc(u->nodes, sizeof(*u->port));
	if (!u->port) {
		free(u);
		return -ENOMEM;
	}
	*out = u;
	return 0;
}

void umad_free(struct umad *u)
{
	if (!u)
		return;
	for (uint32_t i = 0; i < u->nodes; i++)
		free(u->port[i]);
	free(u->port);
	heap_fini(&u->due);
	heap_fini(&u->rx_due);
	free(u);
}

static int make_ports(struct umad *u, uint32_t node, uint8_t ports)
{
	struct uport *p = calloc(ports, sizeof(*p));

	if (!p)
		return -ENOMEM;
	for (unsigned i = 0; i < ports; i++) {
		p[i] = (struct uport){ .u = u, .node = node, .num = (uint8_t)(i + 1) };
		list_init(&p[i].files);
		list_init(&p[i].agents);
	}
	u->port[node] = p;
	return 0;
}

int umad_open(struct umad *u, uint32_t node, uint8_t port, void *owner,
	      struct umad_file **out)
{
	const struct node_info *ni = fabric_node(u->f, node);
	struct umad_file *file;

	if (!ni || ni->type == TOPO_SWITCH || !port || port > ni->ports)
		return -ENODEV;
	if (!u->port[node] && make_ports(u, node, ni->ports))
		return -ENOMEM;
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->port = &u->port[node][port - 1];
	file->owner = owner;
	for (unsigned i = 0; i < BUCKETS; i++)
		list_init(&file->req[i]);
	list_init(&file->unread);
	list_add_tail(&file->port->files, &file->node);
	*out = file;
	return 0;
}

void umad_close(struct umad_file *file)
{
	for (uint32_t i = 0; i < UMAD_AGENTS; i++)
		umad_unregister(file, i);
	while (file->unreads)
		umad_pop(file);
	list_del(&file->node);
	free(file);
}

static bool has_oui(uint8_t class)
{
	return class >= MAD_VENDOR2 && class <= MAD_VENDOR2_LAST;
}

/* Do a and b want the same unsolicited MADs? */
static bool regs_overlap(const struct umad_reg *a, const struct umad_reg *b)
{
	return a->class == b->class && a->version == b->version &&
	       (!has_oui(a->class) || a->oui == b->oui) &&
	       (a->methods[0] & b->methods[0] || a->methods[1] & b->methods[1]);
}

/* Linux's conditions for a registration; the agents of one port must not overlap. */
static bool good_reg(const struct umad_file *file, const struct umad_reg *reg)
{
	bool mask = reg->methods[0] || reg->methods[1];

	if (mask && !reg->version)
		return false;
	if (has_oui(reg->class) && (!reg->oui || reg->oui > 0xffffff) && mask)
		return false;
	if (reg->rmpp > 1 ||
	    (reg->rmpp && (reg->class == MAD_SM_LID || reg->class == MAD_SM_DR)))
		return false;
	list_for(node, &file->port->agents)
	{
		if (regs_overlap(&container_of(node, struct agent, node)->reg, reg))
			return false;
	}
	return true;
}

int umad_register(struct umad_file *file, const struct umad_reg *reg)
{
	struct agent *a;
	uint32_t id = 0;

	if (!good_reg(file, reg))
		return -EINVAL;
	while (id < UMAD_AGENTS && file->agent[id])
		id++;
	if (id == UMAD_AGENTS)
		return -ENOSPC;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->file = file;
	a->id = id;
	a->reg = *reg;
	a->qpn = reg->class == MAD_SM_LID || reg->class == MAD_SM_DR ? QP_SMI : QP_GSI;
	/* The upper half of the agent's TIDs; the fabric's own have the top bit set. */
	a->hi_tid = ++file->port->u->last_tid & 0x7fffffff;
	list_init(&a->receiving);
	list_init(&a->received);
	file->agent[id] = a;
	list_add_tail(&file->port->agents, &a->node);
	return (int)id;
}

int umad_unregister(struct umad_file *file, uint32_t agent)
{
	struct agent *a = agent < UMAD_AGENTS ? file->agent[agent] : NULL;

	if (!a)
		return -EINVAL;
	requests_drop(file, a);
	rmpp_rx_drop(a);
	list_del(&a->node);
	file->agent[agent] = NULL;
	free(a);
	return 0;
}

void umad_run(struct umad *u, uint64_t now)
{
	struct heap_node *top;

	u->now = now > u->now ? now : u->now;
	while ((top = heap_top(&u->due)) && top->at <= u->now)
		request_run(container_of(top, struct req, due));
	while ((top = heap_top(&u->rx_due)) && top->at <= u->now)
		rmpp_rx_due(container_of(top, struct rmpp_rx, due));
}

uint64_t umad_next(const struct umad *u)
{
	uint64_t req = heap_next(&u->due), rx = heap_next(&u->rx_due);

	return req < rx ? req : rx;
}
