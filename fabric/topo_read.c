/* SPDX-License-Identifier: BSD-2-Clause */
/* topo_read.c - reads a topology line by line; topo_link.c then joins the ends of links.
 * See topo.h. */
#include "fabric/topo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/topo_own.h"

enum { FIRST_CA_GUID = 0x100000, FIRST_SWITCH_GUID = 0x200000 };

static int grow_nodes(struct topo_read *r)
{
	uint32_t cap = r->cap ? r->cap * 2 : 16;
	struct topo_node *node;

	if (r->t.nodes < r->cap)
		return 0;
	node = realloc(r->t.node, cap * sizeof(*node));
	if (!node)
		return -ENOMEM;
	r->t.node = node;
	r->cap = cap;
	return 0;
}

static struct topo_node *last_node(struct topo_read *r)
{
	return &r->t.node[r->t.nodes - 1];
}

/* The counter for missing GUIDs of a type of node; routers share the adapters'. */
static struct topo_count *count_of(struct topo_read *r, enum topo_type type)
{
	return &r->count[type == TOPO_SWITCH];
}

static void set_guids(struct topo_read *r, struct topo_node *n)
{
	struct topo_count *c = count_of(r, n->type);

	n->guid = c->next;
	c->next += n->type == TOPO_SWITCH ? 1 : n->ports + 1u;
	n->sys_guid = r->sys_guid ? r->sys_guid : n->guid;
	if (c->port)
		n->port[0].guid = c->port;
	r->sys_guid = c->port = 0;
	n->vendor = r->vendor;
	n->device = r->device;
}

/* Reads the comment of a node's line: "description" or plain words, then "enhanced port
 * 0", lid, lmc.  ibnetdiscover leaves out what it does not know. */
static void node_comment(struct topo_read *r, struct topo_node *n)
{
	struct topo_text desc;

	if (!text_comment(r))
		return;
	if (text_quoted(r, &desc) == 0 || text_until_words(r, &desc) == 0)
		text_copy(n->desc, sizeof(n->desc), desc);
	n->enhanced0 = text_has(r, "enhanced port 0");
	n->port[0].lid = (uint16_t)text_number_after(r, "lid ", 0xbfff);
	n->port[0].lmc = (uint8_t)text_number_after(r, "lmc ", 7);
}

static int node_line(struct topo_read *r, enum topo_type type)
{
	struct topo_node n = { .type = type, .line = r->line, .file = r->file };
	struct topo_text id;
	uint64_t ports;
	int rc;

	if (text_number(r, 10, TOPO_PORTS_MAX, &ports) || !ports)
		return topo_fail(r, "the number of ports, 1 to 254");
	if (text_quoted(r, &id) || !id.len)
		return topo_fail(r, "the node's name in quotes");
	if (!topo_node_name(r, id, n.id))
		return topo_fail(r, "a name of at most 63 characters, without # and @, "
				    "which names of modules and ports have");
	rc = r->t.nodes < TOPO_NODES_MAX ? grow_nodes(r) : -ENOMEM;
	if (rc)
		return rc;
	n.ports = (uint8_t)ports;
	n.port = calloc(ports + 1, sizeof(*n.port));
	if (!n.port)
		return -ENOMEM;
	snprintf(n.desc, sizeof(n.desc), "%s", n.id);
	set_guids(r, &n);
	node_comment(r, &n);
	r->t.node[r->t.nodes++] = n;
	r->in_node = true;
	return 0;
}

/* Reads the options w=, s= and e=: the enabled widths and speeds, in PortInfo's
 * codes. */
int topo_port_options(struct topo_read *r, struct topo_port *p)
{
	static const struct {
		char name;
		uint8_t max;
		const char *want;
	} options[] = {
		{ 'w', 31,
		  "a width: 1 (1x), 2 (4x), 4 (8x), 8 (12x), 16 (2x) or"
		  " their sum" },
		{ 's', 7, "a speed: 1 (SDR), 2 (DDR), 4 (QDR) or their sum" },
		{ 'e', 15,
		  "an extended speed: 1 (FDR), 2 (EDR), 4 (HDR), 8 (NDR)"
		  " or their sum" },
	};
	uint8_t *const to[] = { &p->width, &p->speed, &p->ext };

	while (!text_end(r)) {
		uint64_t v;
		unsigned i = 0;

		while (i < 3 && !text_option(r, options[i].name))
			i++;
		if (i == 3)
			return topo_fail(r, "w=, s=, e=, # or the end of the line");
		if (text_number(r, 0, options[i].max, &v) || !v)
			return topo_fail(r, options[i].want);
		*to[i] = (uint8_t)v;
	}
	return 0;
}

/* Reads the comment of a port's line: # "description" lid 5 4xQDR, or at an adapter
 * # lid 2 lmc 0 "..." lid 5 4xQDR.  The last word is the link's rate. */
static void port_comment(struct topo_read *r, const struct topo_node *n,
			 struct topo_port *p)
{
	if (!text_comment(r))
		return;
	if (n->type != TOPO_SWITCH && text_starts(r, "lid ")) {
		p->lid = (uint16_t)text_number_after(r, "lid ", 0xbfff);
		p->lmc = (uint8_t)text_number_after(r, "lmc ", 7);
	}
	if (!p->width && !p->speed && !p->ext)
		text_rate(r, p);
}

static int remote_end(struct topo_read *r, struct topo_end *e)
{
	struct topo_text id;
	uint64_t port = 1;

	if (text_quoted(r, &id) || !id.len)
		return topo_fail(r, "the name of the node at the other end, in quotes");
	if (!topo_peer_name(r, id, e->peer_id))
		return topo_fail(r, "a name of at most 63 characters");
	if (text_char(r, '[') &&
	    (text_number(r, 10, TOPO_PORTS_MAX, &port) || !port || !text_char(r, ']')))
		return topo_fail(r, "the port at the other end, as [1]");
	e->peer_port = (uint8_t)port;
	return 0;
}

static int port_line(struct topo_read *r)
{
	struct topo_end e = { .line = r->line, .file = r->file, .node = r->t.nodes - 1 };
	struct topo_node *n = last_node(r);
	struct topo_port *p;
	uint64_t port, guid;
	int rc;

	if (text_number(r, 10, n->ports, &port) || !port)
		return topo_fail(r, "a port of this node, counted from 1");
	if (!text_char(r, ']'))
		return topo_fail(r, "]");
	p = &n->port[port];
	e.port = (uint8_t)port;
	if (text_char(r, '(')) {
		if (text_number(r, 16, UINT64_MAX, &guid) || !guid || !text_char(r, ')'))
			return topo_fail(r, "the port's GUID, as (2c903000013)");
		if (n->type != TOPO_SWITCH)
			p->guid = guid;
	}
	rc = remote_end(r, &e);
	if (rc)
		return rc;
	if (text_char(r, '(') &&
	    (text_number(r, 16, UINT64_MAX, &guid) || !text_char(r, ')')))
		return topo_fail(r, "the other port's GUID, as (2c903000013)");
	rc = topo_port_options(r, p);
	if (rc)
		return rc;
	port_comment(r, n, p);
	return topo_add_end(r, &e);
}

/* Reads the rest of caguid=0x2c9(2c91) or the like; "+=" adds to the last value set by
 * "=". */
static int guid_line(struct topo_read *r, enum topo_type type)
{
	struct topo_count *c = count_of(r, type);
	bool add = text_char(r, '+');
	uint64_t v;

	if (!add && !text_char(r, '='))
		return topo_fail(r, "= or +");
	if (text_number(r, 0, UINT64_MAX, &v) || (!add && !v))
		return topo_fail(r, "a GUID, as 0x2c903000013");
	if (!add)
		c->base = v;
	c->next = add ? c->base + v : v;
	c->port = 0;
	if (text_char(r, '(') &&
	    (text_number(r, 16, UINT64_MAX, &c->port) || !text_char(r, ')')))
		return topo_fail(r, "the port's GUID, as (2c903000013)");
	return 0;
}

static int number_line(struct topo_read *r, uint64_t *to, uint64_t max)
{
	uint64_t v;

	if (!text_char(r, '='))
		return topo_fail(r, "=");
	if (text_number(r, 0, max, &v))
		return topo_fail(r, "a number, as 0x2c9");
	*to = v;
	return 0;
}

static int id_line(struct topo_read *r, uint32_t *to, uint64_t max)
{
	uint64_t v = 0;
	int rc = number_line(r, &v, max);

	*to = (uint32_t)v;
	return rc;
}

static int usual(struct topo_read *r, uint8_t *to, uint64_t max)
{
	uint64_t v = 0;
	int rc = number_line(r, &v, max);

	*to = (uint8_t)v;
	return rc;
}

/* Reads a line that begins a node, or stands between two nodes. */
static int other_line(struct topo_read *r)
{
	if (text_word(r, "Switch"))
		return node_line(r, TOPO_SWITCH);
	if (text_word(r, "Ca") || text_word(r, "Hca"))
		return node_line(r, TOPO_CA);
	if (text_word(r, "Rt"))
		return node_line(r, TOPO_ROUTER);
	if (text_word(r, "switchguid"))
		return guid_line(r, TOPO_SWITCH);
	if (text_word(r, "caguid") || text_word(r, "hcaguids") || text_word(r, "rtguid"))
		return guid_line(r, TOPO_CA);
	if (text_word(r, "sysimgguid"))
		return number_line(r, &r->sys_guid, UINT64_MAX);
	if (text_word(r, "vendid"))
		return id_line(r, &r->vendor, 0xffffff);
	if (text_word(r, "devid"))
		return id_line(r, &r->device, 0xffff);
	if (text_word(r, "width"))
		return usual(r, &r->usual.width, 31);
	if (text_word(r, "speed"))
		return usual(r, &r->usual.speed, 7);
	if (text_word(r, "extspeed"))
		return usual(r, &r->usual.ext, 15);
	if (text_word(r, "module"))
		return topo_module_line(r);
	if (text_word(r, "include"))
		return topo_include_line(r);
	if (text_word(r, "do"))
		return topo_fail_at_start(
			r, "a node or a GUID (do is for ibsim's console only)");
	if (text_word(r, "Chassis") || text_word(r, "Non-Chassis"))
		return 0; /* ibnetdiscover -g */
	return topo_fail_at_start(r, "Switch, Ca, Rt, switchguid=, caguid=,"
				     " sysimgguid=, vendid=, devid=, width=, speed=,"
				     " extspeed= or #");
}

static int line(struct topo_read *r)
{
	if (text_end(r)) {
		if (!text_comment(r))
			r->in_node = false; /* an empty line */
		return 0;
	}
	if (text_char(r, '['))
		return r->in_node
			       ? port_line(r)
			       : topo_fail_at_start(r,
						    "a node (Switch, Ca, Rt) before its"
						    " ports");
	if (text_char(r, '@'))
		return r->in_node
			       ? topo_alias_line(r)
			       : topo_fail_at_start(r,
						    "a node (Switch, Ca, Rt) before its"
						    " ports");
	r->in_node = false;
	return other_line(r);
}

int topo_lines(struct topo_read *r, const char *text, size_t len)
{
	int rc = 0;

	while (!rc && text_next_line(r, &text, &len))
		rc = line(r);
	return rc;
}

int topo_parse_files(struct topo *out, const char *name, const char *text, size_t len,
		     topo_open *open, char err[TOPO_ERR])
{
	struct topo_read r = {
		.name = name,
		.file_name = { name },
		.files = 1,
		.open = open,
		.err = err,
		.count = { { FIRST_CA_GUID, FIRST_CA_GUID, 0 },
			   { FIRST_SWITCH_GUID, FIRST_SWITCH_GUID, 0 } },
	};
	int rc;

	err[0] = '\0';
	rc = topo_lines(&r, text, len);
	if (!rc)
		rc = topo_join(&r);
	free(r.end);
	free(r.alias);
	topo_end_files(&r);
	if (rc)
		topo_free(&r.t);
	else
		*out = r.t;
	return rc;
}

int topo_parse(struct topo *out, const char *name, const char *text, size_t len,
	       char err[TOPO_ERR])
{
	return topo_parse_files(out, name, text, len, NULL, err);
}
