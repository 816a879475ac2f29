/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.c - see fix.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/fix.h"

const char fix_two[] = "Switch 4 \"sw\"\n[1] \"H-a\"[1]\n[2] \"H-b\"[1]\n\n"
		       "Ca 1 \"H-a\"\n[1] \"sw\"[1]\n\nCa 2 \"H-b\"\n[1] \"sw\"[2]\n";

const char fix_line[] = "Switch 3 \"sw1\"\n[1] \"H-a\"[1]\n[2] \"sw2\"[1]\n\n"
			"Switch 3 \"sw2\"\n[2] \"sw3\"[1]\n\n"
			"Switch 20 \"sw3\"\n[17] \"H-b\"[1]\n\n"
			"Ca 1 \"H-a\"\n\nCa 1 \"H-b\"\n";

static void deliver(void *ctx, uint32_t node, uint8_t port, const struct mad_pkt *pkt)
{
	struct fix *x = ctx;

	if (x->n < FIX_GOT)
		x->got[x->n] = (struct fix_got){ node, port, *pkt };
	x->n++;
}

static const struct fabric_ops ops = { .deliver = deliver };

void fix_start(struct fix *x, const char *text)
{
	char err[TOPO_ERR];

	memset(x, 0, sizeof(*x));
	if (topo_parse(&x->t, "test", text, strlen(text), err))
		fail_msg("%s", err);
	assert_int_equal(fabric_new(&x->f, &x->t, &ops, x), 0);
	for (x->at = 0; x->t.node[x->at].type != TOPO_CA; x->at++)
		;
	x->port = 1;
	x->now = 1000000000;
}

void fix_end(struct fix *x)
{
	fabric_free(x->f);
	topo_free(&x->t);
}

struct fix world;

int fix_open(void **state)
{
	(void)state;
	fix_start(&world, fix_two);
	fix_manage(&world);
	return 0;
}

int fix_close(void **state)
{
	(void)state;
	fix_end(&world);
	return 0;
}

uint32_t fix_node(const struct fix *x, const char *id)
{
	for (uint32_t i = 0; i < x->t.nodes; i++) {
		if (strcmp(x->t.node[i].id, id) == 0)
			return i;
	}
	fail_msg("no node %s", id);
	return 0;
}

/* Sends the request pkt; a Set carries the data of smp. */
static int ask(struct fix *x, struct mad_pkt *pkt, struct smp *smp)
{
	unsigned was = x->n = 0;

	smp->h.tid = be64(++x->tid);
	memcpy(pkt->mad, smp, sizeof(*smp));
	assert_int_equal(fabric_send(x->f, x->at, x->port, pkt), 0);
	fabric_run(x->f, x->now);
	for (unsigned i = was; i < x->n && i < FIX_GOT; i++) {
		struct smp *in = (struct smp *)x->got[i].pkt.mad;

		if (x->got[i].node != x->at || get_be64(in->h.tid) != x->tid ||
		    in->h.method != METHOD_GET_RESP)
			continue;
		*smp = *in;
		return get_be16(in->h.status) & ~SMP_RETURN;
	}
	return -1;
}

static void head(struct smp *smp, uint8_t class, uint8_t method, uint16_t attr,
		 uint32_t mod)
{
	smp->h = (struct mad_hdr){
		.base_version = 1,
		.class = class,
		.class_version = 1,
		.method = method,
		.attr = be16(attr),
		.mod = be32(mod),
	};
}

int fix_dr(struct fix *x, uint8_t method, uint16_t attr, uint32_t mod,
	   const uint8_t *path, unsigned hops, struct smp *smp)
{
	struct mad_pkt pkt = { .slid = LID_PERMISSIVE, .dlid = LID_PERMISSIVE };

	head(smp, MAD_SM_DR, method, attr, mod);
	smp->dr_slid = smp->dr_dlid = be16(LID_PERMISSIVE);
	smp->h.hop_count = (uint8_t)hops;
	memset(smp->initial, 0, SMP_PATH);
	memset(smp->back, 0, SMP_PATH);
	memcpy(smp->initial, path, hops + 1);
	return ask(x, &pkt, smp);
}

int fix_lid(struct fix *x, uint8_t method, uint16_t attr, uint32_t mod, uint16_t dlid,
	    struct smp *smp)
{
	struct mad_pkt pkt = { .dlid = dlid };

	head(smp, MAD_SM_LID, method, attr, mod);
	return ask(x, &pkt, smp);
}

/* Returns the port of node `from` that leads to node `to` over the fewest links. */
static uint8_t way(const struct fix *x, uint32_t from, uint32_t to)
{
	uint32_t *queue = calloc(x->t.nodes, sizeof(*queue)), n = 0;
	uint8_t *first = calloc(x->t.nodes, 1), port;

	assert_non_null(queue);
	assert_non_null(first);
	for (unsigned k = 1; k <= x->t.node[from].ports; k++) {
		const struct topo_port *p = &x->t.node[from].port[k];

		if (p->peer_port && p->peer != from && !first[p->peer]) {
			first[p->peer] = (uint8_t)k;
			queue[n++] = p->peer;
		}
	}
	for (uint32_t i = 0; i < n && !first[to]; i++) {
		const struct topo_node *node = &x->t.node[queue[i]];

		for (unsigned k = 1; node->type == TOPO_SWITCH && k <= node->ports; k++) {
			const struct topo_port *p = &node->port[k];

			if (!p->peer_port || p->peer == from || first[p->peer])
				continue;
			first[p->peer] = first[queue[i]];
			queue[n++] = p->peer;
		}
	}
	port = first[to] ? first[to] : LFT_DROP;
	free(queue);
	free(first);
	return port;
}

void fix_manage(struct fix *x)
{
	struct fabric *f = x->f;
	uint16_t sm = (uint16_t)(x->at + 1);

	for (uint32_t i = 0; i < f->nodes; i++) {
		struct fab_node *n = &f->node[i];

		for (unsigned k = 0; k <= n->ports; k++) {
			struct port_info *pi = &n->port[k].pi;

			if (is_lid_port(&n->port[k]) && (k < 2)) {
				pi->lid = (uint16_t)(i + 1);
				pi->sm_lid = sm;
			}
			if (pi->state == PORT_INIT)
				pi->state = PORT_ACTIVE;
		}
		if (!is_switch(n))
			continue;
		n->si.lft_top = (uint16_t)f->nodes;
		n->si.state_change = 0;
		for (uint32_t to = 0; to < f->nodes; to++)
			n->lft[to + 1] = to == i ? 0 : way(x, i, to);
	}
}
