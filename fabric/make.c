/* SPDX-License-Identifier: BSD-2-Clause */
/* make.c - topologies by rule; see make.h. */
#include "fabric/make.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { ARGS = 4, ARG_MAX_ = 65536 };

struct maker {
	struct topo t;
	uint32_t cap;
	int rc; /* the first error */
	unsigned arg[ARGS];
};

static __attribute__((format(printf, 4, 5))) uint32_t node(struct maker *m,
							   enum topo_type type,
							   uint64_t ports,
							   const char *fmt, ...)
{
	struct topo_node *n;
	va_list ap;

	if (m->rc)
		return 0;
	if (m->t.nodes == TOPO_NODES_MAX || ports > TOPO_PORTS_MAX) {
		m->rc = -ERANGE;
		return 0;
	}
	if (m->t.nodes == m->cap) {
		m->cap = m->cap ? m->cap * 2 : 64;
		n = realloc(m->t.node, m->cap * sizeof(*n));
		if (!n) {
			m->rc = -ENOMEM;
			return 0;
		}
		m->t.node = n;
	}
	n = &m->t.node[m->t.nodes];
	*n = (struct topo_node){ .type = type, .ports = (uint8_t)(ports ? ports : 1) };
	n->port = calloc(n->ports + 1u, sizeof(*n->port));
	if (!n->port) {
		m->rc = -ENOMEM;
		return 0;
	}
	va_start(ap, fmt);
	vsnprintf(n->id, sizeof(n->id), fmt, ap);
	va_end(ap);
	return m->t.nodes++;
}

static uint8_t free_port(const struct topo_node *n)
{
	for (unsigned k = 1; k <= n->ports; k++) {
		if (!n->port[k].peer_port)
			return (uint8_t)k;
	}
	return 0;
}

/* Links the first free ports of a and b. */
static void cable(struct maker *m, uint32_t a, uint32_t b)
{
	struct topo_node *x = &m->t.node[a], *y = &m->t.node[b];
	uint8_t p, q;

	if (m->rc)
		return;
	p = free_port(x);
	x->port[p].peer_port = 1; /* marks the port as taken, in case b is a */
	q = free_port(y);
	x->port[p] = (struct topo_port){ .peer = b, .peer_port = q };
	y->port[q] = (struct topo_port){ .peer = a, .peer_port = p };
}

static void hosts(struct maker *m, uint32_t at, unsigned n, unsigned *count)
{
	for (unsigned i = 0; i < n && !m->rc; i++) {
		uint32_t h = node(m, TOPO_CA, 1, "H-node%u", (*count)++);

		cable(m, at, h);
	}
}

static void star(struct maker *m)
{
	unsigned count = 0;

	hosts(m, node(m, TOPO_SWITCH, m->arg[0], "S-switch"), m->arg[0], &count);
}

/* Makes x by y by z switches.  If wrap, opposite edges are linked in dimensions of 3 or
 * more. */
static void grid(struct maker *m, const unsigned dim[3], unsigned each, bool wrap)
{
	unsigned count = 0, step[3] = { 1, dim[0], dim[0] * dim[1] };
	uint64_t n = (uint64_t)dim[0] * dim[1] * dim[2];

	if (n > TOPO_NODES_MAX) {
		m->rc = -ERANGE;
		return;
	}
	for (unsigned i = 0; i < n; i++)
		node(m, TOPO_SWITCH, 6ull + each, "S-%u.%u.%u", i % dim[0],
		     i / dim[0] % dim[1], i / step[2]);
	for (unsigned i = 0; i < n && !m->rc; i++) {
		for (unsigned d = 0; d < 3; d++) {
			unsigned at = i / step[d] % dim[d];

			if (at + 1 < dim[d])
				cable(m, i, i + step[d]);
			else if (wrap && dim[d] > 2)
				cable(m, i, i - at * step[d]);
		}
	}
	for (unsigned i = 0; i < n; i++)
		hosts(m, i, each, &count);
}

static void ring(struct maker *m)
{
	grid(m, (const unsigned[]){ m->arg[0], 1, 1 }, m->arg[1] ? m->arg[1] : 1, true);
}

static void mesh(struct maker *m)
{
	grid(m, (const unsigned[]){ m->arg[0], m->arg[1], 1 }, m->arg[2] ? m->arg[2] : 1,
	     false);
}

static void torus(struct maker *m)
{
	grid(m, (const unsigned[]){ m->arg[0], m->arg[1], m->arg[2] ? m->arg[2] : 1 },
	     m->arg[3] ? m->arg[3] : 1, true);
}

static void clos(struct maker *m)
{
	unsigned leaves = m->arg[0], spines = m->arg[1], count = 0;

	for (unsigned s = 0; s < spines && !m->rc; s++)
		node(m, TOPO_SWITCH, leaves, "S-spine%u", s);
	for (unsigned l = 0; l < leaves && !m->rc; l++) {
		uint32_t leaf =
			node(m, TOPO_SWITCH, (uint64_t)spines + m->arg[2], "S-leaf%u", l);

		for (unsigned s = 0; s < spines; s++)
			cable(m, leaf, s);
		hosts(m, leaf, m->arg[2], &count);
	}
}

/* Level 0 has the adapters. A switch has a number of n-1 digits to the base k, and is
 * linked to the switches of the next level whose numbers differ in that level's digit
 * only. */
static void fattree(struct maker *m)
{
	unsigned k = m->arg[0], n = m->arg[1], count = 0;
	uint64_t row = 1, digit = 1;

	for (unsigned i = 1; i < n && row <= TOPO_NODES_MAX; i++)
		row *= k;
	if (row * n > TOPO_NODES_MAX) {
		m->rc = -ERANGE;
		return;
	}
	for (unsigned l = 0; l < n; l++) {
		for (unsigned w = 0; w < row; w++)
			node(m, TOPO_SWITCH, l + 1 < n ? 2ull * k : k, "S-%u.%u", l, w);
	}
	for (unsigned l = 0; l + 1 < n && !m->rc; l++, digit *= k) {
		for (unsigned w = 0; w < row; w++) {
			uint64_t base = w - w / digit % k * digit;

			for (unsigned d = 0; d < k; d++)
				cable(m, (uint32_t)(l * row + w),
				      (uint32_t)((l + 1) * row + base + d * digit));
		}
	}
	for (unsigned w = 0; w < row; w++)
		hosts(m, w, k, &count);
}

static void dragonfly(struct maker *m)
{
	unsigned a = m->arg[0], h = m->arg[1], p = m->arg[2], count = 0;
	uint64_t out = (uint64_t)a * h, groups = out + 1;

	if (groups * a > TOPO_NODES_MAX) {
		m->rc = -ERANGE;
		return;
	}
	for (unsigned i = 0; i < groups * a; i++)
		node(m, TOPO_SWITCH, (uint64_t)a - 1 + h + p, "S-%u.%u", i / a, i % a);
	for (unsigned i = 0; i < groups * a; i++) {
		for (unsigned j = i + 1; j % a && !m->rc; j++)
			cable(m, i, j);
	}
	/* link q of group g goes to group g + q + 1, whose link back is the
	 * (out - 1 - q)th */
	for (uint64_t g = 0; g < groups && !m->rc; g++) {
		for (uint64_t q = 0; q < out; q++) {
			uint64_t to = (g + q + 1) % groups;

			if (to > g)
				cable(m, (uint32_t)(g * a + q / h),
				      (uint32_t)(to * a + (out - 1 - q) / h));
		}
	}
	for (unsigned i = 0; i < groups * a; i++)
		hosts(m, i, p, &count);
}

static const struct rule {
	const char *name, *form;
	unsigned least, most; /* numbers */
	void (*make)(struct maker *m);
} rules[] = {
	{ "star", "star:n", 1, 1, star },
	{ "ring", "ring:n[,h]", 1, 2, ring },
	{ "mesh", "mesh:x,y[,h]", 2, 3, mesh },
	{ "torus", "torus:x,y[,z[,h]]", 2, 4, torus },
	{ "clos", "clos:leaves,spines,h", 3, 3, clos },
	{ "fattree", "fattree:k,n", 2, 2, fattree },
	{ "dragonfly", "dragonfly:a,h,p", 3, 3, dragonfly },
};

static const struct rule *find_rule(const char *spec)
{
	for (unsigned i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		size_t n = strlen(rules[i].name);

		if (strncmp(spec, rules[i].name, n) == 0 && spec[n] == ':')
			return &rules[i];
	}
	return NULL;
}

bool make_is(const char *spec)
{
	return find_rule(spec) != NULL;
}

/* Reads the numbers after the colon, each 1 to 65536. */
static bool numbers(const struct rule *r, const char *at, unsigned to[ARGS])
{
	unsigned n = 0;

	at += strlen(r->name);
	while (*at == (n ? ',' : ':') && n < r->most) {
		char *end;
		unsigned long v;

		if (!isdigit((unsigned char)at[1]))
			return false;
		v = strtoul(at + 1, &end, 10);
		if (!v || v > ARG_MAX_)
			return false;
		to[n++] = (unsigned)v;
		at = end;
	}
	return !*at && n >= r->least;
}

int make_topo(struct topo *out, const char *spec, char err[TOPO_ERR])
{
	const struct rule *r = find_rule(spec);
	struct maker m = { 0 };

	if (!r || !numbers(r, spec, m.arg)) {
		snprintf(err, TOPO_ERR, "%.60s: expected %s with numbers from 1 on", spec,
			 r ? r->form
			   : "star:, ring:, mesh:, torus:, clos:,"
			     " fattree: or dragonfly:");
		return -EINVAL;
	}
	r->make(&m);
	if (!m.rc) {
		*out = m.t;
		return 0;
	}
	topo_free(&m.t);
	if (m.rc != -ERANGE)
		return m.rc;
	snprintf(err, TOPO_ERR,
		 "%.60s: expected at most %d nodes, and %d ports of a"
		 " switch",
		 spec, TOPO_NODES_MAX, TOPO_PORTS_MAX);
	return -EINVAL;
}

void make_print(FILE *f, const struct topo *t)
{
	for (uint32_t i = 0; i < t->nodes; i++) {
		const struct topo_node *n = &t->node[i];

		fprintf(f, "%s\t%u \"%s\"\n", n->type == TOPO_SWITCH ? "Switch" : "Ca",
			n->ports, n->id);
		for (unsigned k = 1; k <= n->ports; k++) {
			const struct topo_port *p = &n->port[k];

			if (p->peer_port)
				fprintf(f, "[%u]\t\"%s\"[%u]\n", k, t->node[p->peer].id,
					p->peer_port);
		}
		fputc('\n', f);
	}
}
