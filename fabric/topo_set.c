/* SPDX-License-Identifier: BSD-2-Clause */
/* topo_set.c - reads the file of settings of a topology; topo.h shows its form. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "fabric/topo_own.h"

/* The section: which ports the following lines are about. */
struct section {
	bool is;
	uint32_t node;
	uint8_t port; /* 0: all ports of the node */
};

/* Reads a word, up to a blank, a comment or the character `stop`. */
static struct topo_text read_word(struct topo_read *r, char stop)
{
	struct topo_text w = { r->at, 0 };

	while (r->at < r->stop && !isspace((unsigned char)*r->at) && *r->at != stop &&
	       *r->at != '#' && *r->at != ';')
		r->at++;
	w.len = (size_t)(r->at - w.at);
	return w;
}

static bool line_ends(struct topo_read *r)
{
	return text_end(r) || *r->at == ';';
}

static int node_name(struct topo_read *r, struct section *s)
{
	char name[TOPO_DESC + 1];
	const char *was;
	struct topo_text w;
	int rc;

	if (line_ends(r))
		return topo_fail(r, "the name of a node");
	was = r->at;
	if (text_quoted(r, &w))
		w = read_word(r, ']');
	if (w.len && w.len < sizeof(name)) {
		text_copy(name, sizeof(name), w);
		rc = topo_find_node(&r->t, name, &s->node);
		if (!rc)
			return 0;
		r->at = was;
		if (rc == -ENOTUNIQ)
			return topo_fail(r, "a name that only one node has");
	}
	r->at = was;
	return topo_fail(r, "the name of a node of the topology");
}

/* Reads the rest of [NODE] or [NODE PORT], after the '['. */
static int section(struct topo_read *r, struct section *s)
{
	uint64_t port = 0;
	int rc = node_name(r, s);

	if (rc)
		return rc;
	if (!text_char(r, ']')) {
		const struct topo_node *n = &r->t.node[s->node];
		const char *was = r->at;

		if (text_number(r, 10, n->ports, &port) || !port) {
			r->at = was;
			return topo_fail(r, "the number of a port of that node, or ']'");
		}
		if (!text_char(r, ']'))
			return topo_fail(r, "']'");
	}
	s->port = (uint8_t)port;
	s->is = true;
	return line_ends(r) ? 0 : topo_fail(r, "the end of the line");
}

static void set_rate(struct topo_port *to, const struct topo_port *rate)
{
	to->width = rate->width;
	to->speed = rate->speed;
	to->ext = rate->ext;
}

/* Reads the value of `rate` and sets it at both ends of each link. */
static int rate(struct topo_read *r, const struct section *s)
{
	struct topo_node *n = &r->t.node[s->node];
	struct topo_port to = { 0 };
	const char *was = r->at;
	struct topo_text w = read_word(r, '\0');

	if (!text_rate_word(w, &to)) {
		r->at = was;
		return topo_fail(r, "a rate such as 4xEDR");
	}
	for (unsigned i = 1; i <= n->ports; i++) {
		struct topo_port *p = &n->port[i];

		if (s->port && s->port != i)
			continue;
		set_rate(p, &to);
		if (p->peer_port)
			set_rate(&r->t.node[p->peer].port[p->peer_port], &to);
	}
	return 0;
}

static bool is_taken(const struct topo *t, uint32_t address, const struct topo_port *by)
{
	for (uint32_t i = 0; i < t->nodes; i++) {
		for (unsigned k = 1; k <= t->node[i].ports; k++) {
			const struct topo_port *p = &t->node[i].port[k];

			if (p != by && p->address == address)
				return true;
		}
	}
	return false;
}

static int set_address(struct topo_read *r, const struct section *s)
{
	struct topo_node *n = &r->t.node[s->node];
	struct topo_port *p = &n->port[s->port ? s->port : 1];
	const char *was = r->at;
	struct topo_text w;
	char text[INET_ADDRSTRLEN];
	struct in_addr a;

	if (n->type != TOPO_CA || !n->ports) {
		r->at = r->start;
		return topo_fail(r, "an address only in the section of an adapter");
	}
	w = read_word(r, '\0');
	text_copy(text, sizeof(text), w);
	if (w.len >= sizeof(text) || inet_pton(AF_INET, text, &a) != 1 || !a.s_addr) {
		r->at = was;
		return topo_fail(r, "an IPv4 address");
	}
	if (is_taken(&r->t, ntohl(a.s_addr), p)) {
		r->at = was;
		return topo_fail(r, "an address that no other adapter has");
	}
	p->address = ntohl(a.s_addr);
	return 0;
}

static int setting(struct topo_read *r, const struct section *s)
{
	static const struct {
		const char *key;
		int (*read)(struct topo_read *r, const struct section *s);
	} keys[] = { { "rate", rate }, { "address", set_address } };

	for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		int rc;

		if (!text_word(r, keys[i].key))
			continue;
		if (!s->is)
			return topo_fail_at_start(r, "a section, [NODE] or [NODE PORT]");
		if (!text_char(r, '='))
			return topo_fail(r, "'='");
		if (line_ends(r))
			return topo_fail(r, "a value");
		rc = keys[i].read(r, s);
		if (rc)
			return rc;
		return line_ends(r) ? 0 : topo_fail(r, "the end of the line");
	}
	return topo_fail(r, s->is ? "rate, address or a section"
				  : "a section, [NODE] or [NODE PORT]");
}

int topo_set(struct topo *t, const char *name, const char *text, size_t len,
	     char err[TOPO_ERR])
{
	struct topo_read r = { .t = *t, .name = name, .err = err };
	struct section s = { 0 };
	int rc = 0;

	err[0] = '\0';
	while (!rc && text_next_line(&r, &text, &len)) {
		if (line_ends(&r))
			continue;
		rc = text_char(&r, '[') ? section(&r, &s) : setting(&r, &s);
	}
	return rc;
}
