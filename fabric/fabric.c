/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric.c - makes a subnet, and runs what is due; see fabric.h. */
#include "fabric/fabric.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/model.h"

enum {
	RUN_MAX = 65536,
	VENDOR = 0x000000,
	DEVICE_CA = 0x0001,
	DEVICE_SWITCH = 0x0002,
	WIDTH_USUAL = 1 | 2, /* 1x, 4x */
	SPEED_USUAL = 7,
	EXT_USUAL = 3, /* up to EDR */
	MTU_4096 = 5,
	VLS_8 = 4,
};

static const uint64_t default_prefix = 0xfe80000000000000;

static void init_node_info(struct fab_node *n, const struct topo_node *t)
{
	bool sw = t->type == TOPO_SWITCH;

	n->ni = (struct node_info){
		.base_version = 1,
		.class_version = 1,
		.type = (uint8_t)t->type,
		.ports = t->ports,
		.system_guid = t->sys_guid,
		.guid = t->guid,
		.partition_cap = PKEYS_NODE,
		.revision = 1,
		.device_id = (uint16_t)(t->device ? t->device
					: sw	  ? DEVICE_SWITCH
						  : DEVICE_CA),
		.vendor_id = t->vendor ? t->vendor : VENDOR,
	};
	if (sw)
		n->si = (struct switch_info){
			.lft_cap = LFT_CAP,
			.mft_cap = MFT_CAP,
			.def_port = LFT_DROP,
			.enforce_cap = PKEYS_SWITCH_PORT,
			.inbound_enf = 1,
			.outbound_enf = 1,
			.enhanced_port0 = t->enhanced0,
			.state_change = 1,
		};
	memcpy(n->desc, t->desc, strnlen(t->desc, SMP_DATA));
}

static uint32_t cap_mask(const struct fab_port *p)
{
	if (is_switch(p->node) && p->num)
		return 0;
	if (is_switch(p->node))
		return CAP_TRAP | CAP_SL_MAP | CAP_SYS_GUID | CAP_EXT_SPEEDS |
		       CAP_SWITCH_PKEY_TRAP;
	return CAP_TRAP | CAP_SL_MAP | CAP_SYS_GUID | CAP_EXT_SPEEDS | CAP_CM |
	       CAP_MASK_NOTICE | CAP_REREGISTER;
}

/* A port supports only the rates that the topology says it has enabled: a subnet manager
 * enables all that is supported, and that must not make the link faster. */
static void init_port_info(struct fab_port *p, const struct topo_port *t)
{
	bool said = t->width || t->speed || t->ext;
	bool own = is_switch(p->node) && !p->num;

	uint8_t width = t->width ? t->width : WIDTH_USUAL;
	uint8_t speed = t->speed ? t->speed : SPEED_USUAL;
	uint8_t ext = said ? t->ext : EXT_USUAL;

	p->pi = (struct port_info){
		.cap_mask = cap_mask(p),
		.local_port = p->num,
		.width_supported = width,
		.width_enabled = width,
		.speed_supported = speed,
		.speed_enabled = speed,
		.ext_supported = ext,
		.ext_enabled = ext,
		.state = PORT_DOWN,
		.phys_state = PHYS_POLLING,
		.down_default = PHYS_POLLING,
		.mtu = MTU_4096,
		.mtu_cap = MTU_4096,
		.vl_cap = VLS_8,
		.oper_vls = VLS_8,
		.vl_arb_high_cap = VL_ARB_CAP,
		.vl_arb_low_cap = VL_ARB_CAP,
		.subnet_timeout = 18,
		.resp_time = 16,
		.phys_errors = 8,
		.overrun_errors = 8,
	};
	if (is_lid_port(p)) {
		p->pi.gid_prefix = default_prefix;
		p->pi.guid_cap = GUIDS;
		p->pi.lid = t->lid;
		p->pi.lmc = t->lmc;
	}
	if (own) {
		p->pi.state = PORT_ACTIVE;
		p->pi.phys_state = PHYS_LINK_UP;
		p->pi.width_active = 2;
		p->pi.speed_active = 4;
	}
}

static int init_port(struct fab_node *n, uint8_t num, const struct topo_port *t)
{
	static const uint8_t straight[8] = { 0x01, 0x23, 0x45, 0x67,
					     0x01, 0x23, 0x45, 0x67 };
	struct fab_port *p = &n->port[num];
	unsigned rows = is_switch(n) ? n->ports + 1u : 1;

	p->node = n;
	p->num = num;
	p->plugged = true;
	p->guid = t->guid;
	init_port_info(p, t);
	p->pkeys = is_lid_port(p) ? PKEYS_NODE : PKEYS_SWITCH_PORT;
	p->pkey = calloc(p->pkeys, sizeof(*p->pkey));
	p->sl2vl = calloc(rows, sizeof(*p->sl2vl));
	if (is_lid_port(p))
		p->guids = calloc(GUIDS, sizeof(*p->guids));
	if (!p->pkey || !p->sl2vl || (is_lid_port(p) && !p->guids))
		return -ENOMEM;
	p->pkey[0] = PKEY_DEFAULT;
	if (p->guids)
		p->guids[0] = p->guid;
	for (unsigned i = 0; i < rows; i++)
		memcpy(p->sl2vl[i], straight, sizeof(straight));
	return 0;
}

static int init_tables(struct fab_node *n)
{
	n->mft_positions = (uint8_t)((n->ports + 1u + 15) / 16);
	n->lft = malloc(LFT_CAP);
	n->mft = calloc((size_t)n->mft_positions * MFT_CAP, sizeof(*n->mft));
	if (!n->lft || !n->mft)
		return -ENOMEM;
	memset(n->lft, LFT_DROP, LFT_CAP);
	return 0;
}

static int init_node(struct fabric *f, uint32_t index, const struct topo_node *t)
{
	struct fab_node *n = &f->node[index];
	int rc = 0;

	n->f = f;
	n->index = index;
	init_node_info(n, t);
	n->port = calloc(t->ports + 1u, sizeof(*n->port));
	if (!n->port)
		return -ENOMEM;
	n->ports = t->ports;
	if (is_switch(n))
		rc = init_tables(n);
	for (unsigned i = 0; !rc && i <= t->ports; i++)
		rc = init_port(n, (uint8_t)i, &t->port[i]);
	return rc;
}

static void connect_all(struct fabric *f, const struct topo *t)
{
	for (uint32_t i = 0; i < t->nodes; i++) {
		for (unsigned k = 1; k <= t->node[i].ports; k++) {
			const struct topo_port *p = &t->node[i].port[k];

			if (p->peer_port)
				f->node[i].port[k].peer =
					&f->node[p->peer].port[p->peer_port];
		}
	}
	for (uint32_t i = 0; i < f->nodes; i++) {
		for (unsigned k = 1; k <= f->node[i].ports; k++)
			link_retrain(&f->node[i].port[k]);
	}
}

/* Reserves heap entries for every port with a LID, so that heap_set() cannot fail. */
static int reserve_deadlines(struct fabric *f)
{
	uint32_t n = 0;
	int rc;

	for (uint32_t i = 0; i < f->nodes; i++)
		n += is_switch(&f->node[i]) ? 1 : f->node[i].ports;
	rc = heap_reserve(&f->trap_due, n);
	return rc ? rc : heap_reserve(&f->lease_due, n);
}

int fabric_new(struct fabric **out, const struct topo *t, const struct fabric_ops *ops,
	       void *ctx)
{
	struct fabric *f = calloc(1, sizeof(*f));
	int rc = 0;

	if (!f)
		return -ENOMEM;
	f->ops = ops;
	f->ctx = ctx;
	list_init(&f->flying);
	list_init(&f->unused);
	heap_init(&f->trap_due);
	heap_init(&f->lease_due);
	heap_init(&f->life_due);
	heap_init(&f->sample_due);
	list_init(&f->ready);
	list_init(&f->links);
	list_init(&f->ups);
	f->node = calloc(t->nodes, sizeof(*f->node));
	if (!f->node)
		rc = -ENOMEM;
	f->nodes = f->node ? t->nodes : 0;
	for (uint32_t i = 0; !rc && i < t->nodes; i++)
		rc = init_node(f, i, &t->node[i]);
	if (!rc)
		rc = reserve_deadlines(f);
	if (rc) {
		fabric_free(f);
		return rc;
	}
	connect_all(f, t);
	*out = f;
	return 0;
}

static void free_node(struct fab_node *n)
{
	for (unsigned i = 0; n->port && i <= n->ports; i++) {
		free(n->port[i].pkey);
		free(n->port[i].guids);
		free(n->port[i].sl2vl);
		data_free(&n->port[i]);
	}
	free(n->port);
	pma_sample_free(n);
	free(n->lft);
	free(n->mft);
}

static void free_flights(struct list *l)
{
	list_for_safe(node, l) free(container_of(node, struct flight, node));
}

void fabric_free(struct fabric *f)
{
	if (!f)
		return;
	for (uint32_t i = 0; i < f->nodes; i++)
		free_node(&f->node[i]);
	free(f->node);
	free_flights(&f->flying);
	free_flights(&f->unused);
	heap_fini(&f->trap_due);
	heap_fini(&f->lease_due);
	heap_fini(&f->life_due);
	heap_fini(&f->sample_due);
	free(f);
}

struct flight *flight_new(struct fabric *f)
{
	struct flight *fl;

	if (list_empty(&f->unused))
		return malloc(sizeof(*fl));
	fl = container_of(f->unused.next, struct flight, node);
	list_del(&fl->node);
	return fl;
}

int fly(struct fabric *f, struct fab_port *to, bool local, const struct mad_pkt *pkt)
{
	struct flight *fl = flight_new(f);

	if (!fl)
		return -ENOMEM;
	fl->to = to;
	fl->local = local;
	fl->pkt = *pkt;
	list_add_tail(&f->flying, &fl->node);
	return 0;
}

static struct fab_port *port_of(const struct fabric *f, uint32_t node, uint8_t port)
{
	if (node >= f->nodes || port > f->node[node].ports)
		return NULL;
	if (port == 0 && !is_switch(&f->node[node]))
		return NULL;
	return &f->node[node].port[port];
}

int fabric_send(struct fabric *f, uint32_t node, uint8_t port, const struct mad_pkt *pkt)
{
	struct fab_port *p = port_of(f, node, port);

	return p ? fly(f, p, true, pkt) : -EINVAL;
}

int fabric_answer(struct fabric *f, uint32_t node, uint8_t port,
		  const struct mad_pkt *pkt)
{
	struct fab_port *p = port_of(f, node, port);
	struct mad_pkt back = *pkt;

	if (!p)
		return -EINVAL;
	answer_head(p, &back);
	return fly(f, p, true, &back);
}

/* Runs the two deadlines of ports: the end of the M_Key's lease, and the next trap. */
static void due_run(struct fabric *f)
{
	struct heap_node *top;

	while ((top = heap_top(&f->lease_due)) && top->at <= f->now) {
		heap_del(&f->lease_due, top);
		/* IBA 14.2.4.2: the key stays, but protects nothing */
		container_of(top, struct fab_port, lease_due)->pi.mkey_protect = 0;
	}
	while ((top = heap_top(&f->trap_due)) && top->at <= f->now) {
		heap_del(&f->trap_due, top);
		trap_run(container_of(top, struct fab_port, trap_due));
	}
}

static void arrive_first(struct fabric *f)
{
	struct flight *fl = container_of(f->flying.next, struct flight, node);

	list_del(&fl->node);
	arrive(fl);
	list_add_tail(&f->unused, &fl->node);
}

void fabric_run(struct fabric *f, uint64_t now)
{
	unsigned mads = RUN_MAX, data = RUN_MAX;

	f->now = now > f->now ? now : f->now;
	due_run(f);
	data_life(f);
	pma_sample_run(f);
	do {
		data = data_run(f, data);
		for (; mads > 0 && !list_empty(&f->flying); mads--)
			arrive_first(f);
	} while (mads > 0 && data > 0 && fabric_next(f) == 0);
}

uint64_t fabric_next(const struct fabric *f)
{
	uint64_t trap = heap_next(&f->trap_due), lease = heap_next(&f->lease_due);
	uint64_t life = heap_next(&f->life_due), sample = heap_next(&f->sample_due);

	if (!list_empty(&f->flying) || !list_empty(&f->ready) || !list_empty(&f->links) ||
	    !list_empty(&f->ups))
		return 0;
	if (life < trap)
		trap = life;
	if (sample < trap)
		trap = sample;
	return trap < lease ? trap : lease;
}

int fabric_cable(struct fabric *f, uint32_t node, uint8_t port, bool in, uint64_t now)
{
	struct fab_port *p = port_of(f, node, port);

	if (!p || !p->peer)
		return -ENOENT;
	f->now = now > f->now ? now : f->now;
	if (p->plugged == in)
		return 0;
	p->plugged = p->peer->plugged = in;
	if (in)
		link_retrain(p);
	else
		link_down(p);
	return 0;
}

void fabric_set_sm(struct fabric *f, uint32_t node, uint8_t port, bool is, uint64_t now)
{
	struct fab_port *p = port_of(f, node, port);

	if (!p || !!(p->pi.cap_mask & CAP_SM) == is)
		return;
	f->now = now > f->now ? now : f->now;
	p->pi.cap_mask ^= CAP_SM;
	f->changes++;
	trap_cap_mask(p);
}

bool fabric_port(const struct fabric *f, uint32_t node, uint8_t port,
		 struct fabric_port_view *out)
{
	struct fab_port *p = port_of(f, node, port);

	if (!p)
		return false;
	wait_count(p);
	*out = (struct fabric_port_view){
		&p->pi,	   p->guid,    p->pkey,	 p->pkeys,
		&p->count, p->plugged, p->guids, p->reregisters
	};
	return true;
}

uint32_t fabric_changes(const struct fabric *f)
{
	return f->changes;
}

const struct node_info *fabric_node(const struct fabric *f, uint32_t node)
{
	return node < f->nodes ? &f->node[node].ni : NULL;
}
