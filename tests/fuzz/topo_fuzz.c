/* SPDX-License-Identifier: BSD-2-Clause */
/* The topology reader on any bytes; what it takes becomes a subnet that works.
 *
 * Input: the file; behind a NUL what a second file says of it, which is also what each
 * file that it includes has. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/topo.h"
#include "must.h"

static unsigned delivered;

static void deliver(void *ctx, uint32_t node, uint8_t port, const struct mad_pkt *pkt)
{
	(void)ctx;
	(void)node;
	(void)port;
	(void)pkt;
	delivered++;
}

static const struct fabric_ops ops = { .deliver = deliver };

/* Checks that links agree at both ends, and that names are found. */
static void check(const struct topo *t)
{
	for (uint32_t i = 0; i < t->nodes; i++) {
		const struct topo_node *n = &t->node[i];
		uint32_t at;

		MUST(n->ports >= 1 && n->ports <= TOPO_PORTS_MAX && n->id[0]);
		MUST(strnlen(n->desc, sizeof(n->desc)) < sizeof(n->desc));
		for (unsigned k = 1; k <= n->ports; k++) {
			const struct topo_port *p = &n->port[k], *q;

			if (!p->peer_port)
				continue;
			MUST(p->peer < t->nodes &&
			     p->peer_port <= t->node[p->peer].ports);
			q = &t->node[p->peer].port[p->peer_port];
			MUST(q->peer == i && q->peer_port == k && p != q);
		}
		if (n->type == TOPO_CA)
			MUST(topo_find_ca(t, n->id, &at) == 0 &&
			     t->node[at].type == TOPO_CA);
	}
}

/* The first adapter asks for the node behind its first port. */
static void look(struct fabric *f, const struct topo *t)
{
	struct smp smp = { .h = { .base_version = 1,
				  .class = MAD_SM_DR,
				  .class_version = 1,
				  .method = METHOD_GET,
				  .attr = be16(ATTR_NODE_INFO),
				  .hop_count = 1 },
			   .dr_slid = be16(LID_PERMISSIVE),
			   .dr_dlid = be16(LID_PERMISSIVE),
			   .initial = { 0, 1 } };
	struct mad_pkt pkt = { .slid = LID_PERMISSIVE, .dlid = LID_PERMISSIVE };
	struct fabric_port_view v;

	memcpy(pkt.mad, &smp, sizeof(smp));
	for (uint32_t i = 0; i < t->nodes; i++) {
		if (t->node[i].type == TOPO_SWITCH)
			continue;
		delivered = 0;
		MUST(fabric_send(f, i, 1, &pkt) == 0);
		fabric_run(f, 1);
		MUST(fabric_port(f, i, 1, &v));
		MUST(delivered == (v.info->phys_state == 5));
		return;
	}
}

static const char *included;
static size_t included_len;

static int open_included(const char *name, char **text, size_t *len)
{
	MUST(*name);
	*text = included ? malloc(included_len + 1) : NULL;
	if (!*text)
		return -ENOENT;
	memcpy(*text, included, included_len);
	*len = included_len;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *text = (const char *)data, *second = memchr(data, 0, len);
	size_t size = second ? (size_t)(second - text) : len;
	char err[TOPO_ERR];
	struct fabric *f;
	struct topo t;

	included = second ? second + 1 : NULL;
	included_len = second ? len - size - 1 : 0;
	if (topo_parse_files(&t, "f", text, size, open_included, err)) {
		MUST(strstr(err, ": expected ") || strstr(err, "No such file"));
		return 0;
	}
	check(&t);
	if (second && topo_set(&t, "s", second + 1, len - size - 1, err))
		MUST(strncmp(err, "s:", 2) == 0 && strstr(err, ": expected "));
	check(&t);
	if (t.nodes < 64) {
		MUST(fabric_new(&f, &t, &ops, NULL) == 0);
		look(f, &t);
		fabric_free(f);
	}
	topo_free(&t);
	return 0;
}
