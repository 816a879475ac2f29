/* SPDX-License-Identifier: BSD-2-Clause */
/* topo_link.c - checks names and GUIDs of a topology, and joins its links. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/topo_own.h"

int topo_add_end(struct topo_read *r, const struct topo_end *e)
{
	if (r->ends == r->end_cap) {
		uint32_t cap = r->end_cap ? r->end_cap * 2 : 64;
		struct topo_end *end = realloc(r->end, cap * sizeof(*end));

		if (!end)
			return -ENOMEM;
		r->end = end;
		r->end_cap = cap;
	}
	r->end[r->ends++] = *e;
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct topo_node *const *x = a, *const *y = b;
	int d = strcmp((*x)->id, (*y)->id);

	return d ? d : (*x > *y) - (*x < *y);
}

static int id_is(const void *id, const void *node)
{
	return strcmp(id, (*(const struct topo_node *const *)node)->id);
}

static int same_ids(struct topo_read *r, struct topo_node *const *sorted)
{
	for (uint32_t i = 1; i < r->t.nodes; i++) {
		if (strcmp(sorted[i]->id, sorted[i - 1]->id) == 0)
			return topo_fail_line(
				r, sorted[i]->file, sorted[i]->line,
				"expected a new name: %s:%u has a node \"%s\"",
				r->file_name[sorted[i - 1]->file], sorted[i - 1]->line,
				sorted[i]->id);
	}
	return 0;
}

/* Joins both ends of a link: they name each other, or one names the other, which names
 * none. */
static int link_ends(struct topo_read *r, const struct topo_end *e, struct topo_node *far)
{
	struct topo_node *near = &r->t.node[e->node];
	struct topo_port *p = &near->port[e->port], *q;
	uint32_t far_at = (uint32_t)(far - r->t.node);

	if (e->peer_port > far->ports)
		return topo_fail_line(r, e->file, e->line,
				      "expected a port that \"%s\" has, 1 to %u, not %u",
				      far->id, far->ports, e->peer_port);
	q = &far->port[e->peer_port];
	if (p == q)
		return topo_fail_line(
			r, e->file, e->line,
			"expected another port: \"%s\" port %u is linked to itself",
			near->id, e->port);
	if (p->peer_port && (p->peer != far_at || p->peer_port != e->peer_port))
		return topo_fail_line(
			r, e->file, e->line,
			"expected \"%s\"[%u], which \"%s\" port %u is linked to already",
			r->t.node[p->peer].id, p->peer_port, near->id, e->port);
	if (q->peer_port && (q->peer != e->node || q->peer_port != e->port))
		return topo_fail_line(
			r, e->file, e->line,
			"expected a free port: \"%s\" port %u is linked to \"%s\"[%u]",
			far->id, e->peer_port, r->t.node[q->peer].id, q->peer_port);
	p->peer = far_at;
	p->peer_port = e->peer_port;
	q->peer = e->node;
	q->peer_port = e->port;
	return 0;
}

/* Finds the node at the other end, by its name or by a port's alias.  Returns NULL with a
 * message in r->err if there is none. */
static struct topo_node *find_far(struct topo_read *r, struct topo_node **sorted,
				  struct topo_end *e)
{
	bool is_port = strchr(e->peer_id, '@');
	const struct topo_alias *a = is_port ? topo_find_alias(r, e->peer_id) : NULL;
	struct topo_node **far =
		is_port ? NULL
			: bsearch(e->peer_id, sorted, r->t.nodes, sizeof(*sorted), id_is);

	if (a)
		e->peer_port = a->port;
	if (a || far)
		return a ? &r->t.node[a->node] : *far;
	topo_fail_line(r, e->file, e->line, "expected the name of a %s, not \"%s\"",
		       is_port ? "port" : "node", e->peer_id);
	return NULL;
}

static int link_all(struct topo_read *r, struct topo_node **sorted)
{
	for (uint32_t i = 0; i < r->ends; i++) {
		struct topo_node *far = find_far(r, sorted, &r->end[i]);
		int rc = far ? link_ends(r, &r->end[i], far) : -EINVAL;

		if (rc)
			return rc;
	}
	return 0;
}

/* Sets the enabled rates of ports: those written at the port's own end, or else at the
 * other end, or else those of the file's width=, speed= and extspeed= lines. */
static void set_rates(struct topo_read *r)
{
	for (uint32_t i = 0; i < r->t.nodes; i++) {
		struct topo_node *n = &r->t.node[i];

		for (unsigned k = 1; k <= n->ports; k++) {
			struct topo_port *p = &n->port[k], *q;

			if (p->width || p->speed || p->ext || !p->peer_port)
				continue;
			q = &r->t.node[p->peer].port[p->peer_port];
			if (!q->width && !q->speed && !q->ext)
				q = &r->usual;
			p->width = q->width;
			p->speed = q->speed;
			p->ext = q->ext;
		}
	}
}

struct guid_of {
	uint64_t guid;
	const struct topo_node *node;
};

static int by_guid(const void *a, const void *b)
{
	const struct guid_of *x = a, *y = b;

	if (x->guid != y->guid)
		return x->guid < y->guid ? -1 : 1;
	return (x->node > y->node) - (x->node < y->node);
}

static uint32_t port_guids(struct topo_node *n, struct guid_of *to)
{
	uint32_t count = 0;

	if (n->type == TOPO_SWITCH) {
		if (!n->port[0].guid)
			n->port[0].guid = n->guid;
		to[count++] = (struct guid_of){ n->port[0].guid, n };
		return count;
	}
	for (unsigned k = 1; k <= n->ports; k++) {
		if (!n->port[k].guid && k == 1 && n->port[0].guid)
			n->port[k].guid = n->port[0].guid;
		if (!n->port[k].guid)
			n->port[k].guid = n->guid + k;
		to[count++] = (struct guid_of){ n->port[k].guid, n };
	}
	return count;
}

/* Fails if two entries of `all' have the same GUID. The caller checks nodes and ports
 * apart, because a node may share its GUID with one of its ports: a switch, as a rule,
 * with its port 0. */
static int same_guids(struct topo_read *r, struct guid_of *all, uint32_t n)
{
	qsort(all, n, sizeof(*all), by_guid);
	for (uint32_t i = 1; i < n; i++) {
		if (all[i].guid == all[i - 1].guid)
			return topo_fail_line(r, all[i].node->file, all[i].node->line,
					      "expected another GUID: 0x%" PRIx64
					      " is \"%s\"'s",
					      all[i].guid, all[i - 1].node->id);
	}
	return 0;
}

static int set_guids(struct topo_read *r)
{
	struct guid_of *all;
	uint32_t n = 0, max = 0;
	int rc;

	for (uint32_t i = 0; i < r->t.nodes; i++)
		max += r->t.node[i].ports + 1u;
	all = calloc(max, sizeof(*all));
	if (!all)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->t.nodes; i++)
		all[n++] = (struct guid_of){ r->t.node[i].guid, &r->t.node[i] };
	rc = same_guids(r, all, n);
	n = 0;
	for (uint32_t i = 0; !rc && i < r->t.nodes; i++)
		n += port_guids(&r->t.node[i], all + n);
	if (!rc)
		rc = same_guids(r, all, n);
	free(all);
	return rc;
}

int topo_join(struct topo_read *r)
{
	struct topo_node **sorted;
	int rc;

	if (!r->t.nodes)
		return topo_fail_line(r, 0, r->line ? r->line : 1,
				      "expected at least one node (Switch, Ca)");
	sorted = calloc(r->t.nodes, sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->t.nodes; i++)
		sorted[i] = &r->t.node[i];
	qsort(sorted, r->t.nodes, sizeof(*sorted), by_id);
	rc = same_ids(r, sorted);
	if (!rc)
		rc = topo_sort_aliases(r);
	if (!rc)
		rc = link_all(r, sorted);
	free(sorted);
	if (rc)
		return rc;
	set_rates(r);
	return set_guids(r);
}
