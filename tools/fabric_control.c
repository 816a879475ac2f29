/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric_control.c - the fabric's end of fabric_control.h: answers requests. */
#include "fabric_control.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* PortInfo's PortState and PortPhysicalState. */
static const char *const states[] = { "none", "down", "init", "armed", "active" };
static const char *const phys[] = { "none",	"sleep",   "polling",	    "disabled",
				    "training", "link up", "error recovery" };

static const char *name_of(const char *const *names, size_t n, unsigned i)
{
	return i < n ? names[i] : "unknown";
}
#define NAME_OF(names, i) name_of(names, sizeof(names) / sizeof(names[0]), i)

/* Makes a JSON string; names of the topology file may hold bytes that are not UTF-8. */
static json_t *text(const char *s)
{
	json_t *j = json_string(s);
	char *plain = j ? NULL : strdup(s);

	for (char *at = plain; at && *at; at++)
		*at = (char)(*at & 0x80 ? '?' : *at);
	if (plain)
		j = json_string(plain);
	free(plain);
	return j;
}

static __attribute__((format(printf, 1, 2))) json_t *wrong(const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	return json_pack("{so}", "error", text(line));
}

static json_t *hex(uint64_t v)
{
	return json_sprintf("0x%016llx", (unsigned long long)v);
}

static bool has_lid(const struct topo_node *n, unsigned port)
{
	return n->type == TOPO_SWITCH ? port == 0 : port > 0;
}

/* The packets that wait at a port, by VL; NULL: none waits. */
static json_t *waiting_at(const struct fabric *f, uint64_t now, uint32_t node,
			  uint8_t port)
{
	struct fabric_wait w[FABRIC_WAITS];
	unsigned n = fabric_waiting(f, node, port, w);
	json_t *all = n ? json_array() : NULL;

	for (unsigned i = 0; i < n; i++) {
		bool stands = w[i].since && now > w[i].since;

		json_array_append_new(all,
				      json_pack("{si sb si si sf}", "vl", w[i].vl, "own",
						w[i].own, "packets", w[i].packets,
						"bytes", w[i].bytes, "seconds",
						stands ? (double)(now - w[i].since) / 1e9
						       : 0.0));
	}
	return all;
}

static json_t *port_status(const struct control *c, const struct fabric *f, uint64_t now,
			   uint32_t node, uint8_t port)
{
	const struct topo_node *n = &c->topo->node[node];
	const struct topo_port *t = &n->port[port];
	struct fabric_port_view v;
	char speed[FABRIC_SPEED];
	json_t *j, *waits;

	if (!fabric_port(f, node, port, &v))
		return NULL;
	fabric_speed(v.info, speed);
	j = json_pack("{si ss ss sf ss}", "port", port, "state",
		      NAME_OF(states, v.info->state), "physical",
		      NAME_OF(phys, v.info->phys_state), "rate",
		      fabric_rate(v.info) / 10.0, "speed", speed);
	if (has_lid(n, port)) {
		json_object_set_new(j, "lid", json_integer(v.info->lid));
		json_object_set_new(j, "sm_lid", json_integer(v.info->sm_lid));
		json_object_set_new(j, "manager", json_boolean(v.info->cap_mask & 2));
	}
	if (t->address)
		json_object_set_new(j, "address",
				    json_sprintf("%u.%u.%u.%u", t->address >> 24,
						 t->address >> 16 & 255,
						 t->address >> 8 & 255,
						 t->address & 255));
	if (t->peer_port) {
		json_object_set_new(j, "cable", json_boolean(v.plugged));
		json_object_set_new(j, "peer", text(c->topo->node[t->peer].id));
		json_object_set_new(j, "peer_port", json_integer(t->peer_port));
	}
	waits = waiting_at(f, now, node, port);
	if (waits)
		json_object_set_new(j, "waiting", waits);
	return j;
}

static json_t *node_status(const struct control *c, const struct fabric *f, uint64_t now,
			   uint32_t node)
{
	static const char *const types[] = { "none", "adapter", "switch", "router" };
	const struct topo_node *n = &c->topo->node[node];
	json_t *ports = json_array();

	for (unsigned i = 0; i <= n->ports; i++) {
		json_t *port = port_status(c, f, now, node, (uint8_t)i);

		if (port)
			json_array_append_new(ports, port);
	}
	return json_pack("{so ss so so so}", "id", text(n->id), "type",
			 NAME_OF(types, n->type), "description", text(n->desc), "guid",
			 hex(fabric_node(f, node)->guid), "ports", ports);
}

static json_t *status(const struct control *c, const struct fabric *f, uint64_t now)
{
	json_t *nodes = json_array();

	for (uint32_t i = 0; i < c->topo->nodes; i++)
		json_array_append_new(nodes, node_status(c, f, now, i));
	return json_pack("{ss so}", "fabric", c->name, "nodes", nodes);
}

/* Counts nodes and links; a link counts at that end which comes first. */
static json_t *summary(const struct control *c, const struct fabric *f)
{
	enum { ACTIVE = 4 };
	unsigned switches = 0, links = 0, active = 0;

	for (uint32_t i = 0; i < c->topo->nodes; i++) {
		const struct topo_node *n = &c->topo->node[i];

		switches += n->type == TOPO_SWITCH;
		for (unsigned k = 1; k <= n->ports; k++) {
			const struct topo_port *p = &n->port[k];
			struct fabric_port_view v;

			if (!p->peer_port || p->peer < i ||
			    (p->peer == i && p->peer_port < k))
				continue;
			links++;
			active += fabric_port(f, i, (uint8_t)k, &v) &&
				  v.info->state == ACTIVE;
		}
	}
	return json_pack("{ss si si si si si}", "fabric", c->name, "switches", switches,
			 "adapters", c->topo->nodes - switches, "links", links, "active",
			 active, "programs",
			 c->server ? plug_server_programs(c->server) : 0);
}

/* --- which node, which port ------------------------------------------------- */

/* Reads the request's node and port.  If `all`, both may be missing; -1 then means all.
 * Returns NULL, or an answer that says the error. */
static json_t *which(const struct control *c, const json_t *ask, bool all, int64_t *node,
		     int *port)
{
	const json_t *n = json_object_get(ask, "node"), *p = json_object_get(ask, "port");
	uint32_t found;
	int rc;

	*node = *port = -1;
	if ((n && !json_is_string(n)) || (p && !json_is_integer(p)) || (p && !n) ||
	    (!all && (!n || !p)))
		return wrong("expected \"node\" with a name and \"port\" with a number");
	if (!n)
		return NULL;
	rc = topo_find_node(c->topo, json_string_value(n), &found);
	if (rc)
		return wrong("%s '%.80s' in fabric %s; urnic fabric status lists them",
			     rc == -ENOTUNIQ ? "more than one node is called"
					     : "there is no node",
			     json_string_value(n), c->name);
	*node = found;
	if (!p)
		return NULL;
	if (json_integer_value(p) < (c->topo->node[found].type != TOPO_SWITCH) ||
	    json_integer_value(p) > c->topo->node[found].ports)
		return wrong("%s has no port %lld, but 1 to %u", c->topo->node[found].id,
			     (long long)json_integer_value(p),
			     c->topo->node[found].ports);
	*port = (int)json_integer_value(p);
	return NULL;
}

/* --- counters ----------------------------------------------------------------- */

static json_t *port_counters(const struct control *c, const struct fabric *f,
			     uint32_t node, uint8_t port)
{
	struct fabric_port_view v;
	json_t *j = json_object();

	fabric_port(f, node, port, &v);
#define COUNTER(member, name)                                                            \
	json_object_set_new(j, name, json_integer((json_int_t)v.count->member));
#include "fabric_counter.def"
#undef COUNTER
	return json_pack("{so si so}", "node", text(c->topo->node[node].id), "port", port,
			 "counters", j);
}

/* Answers with the counters of the named port, or of all ports that have a cable. */
static json_t *counters(const struct control *c, const struct fabric *f,
			const json_t *ask)
{
	json_t *all, *bad;
	int64_t node;
	int port;

	bad = which(c, ask, true, &node, &port);
	if (bad)
		return bad;
	all = json_array();
	for (uint32_t i = 0; i < c->topo->nodes; i++) {
		const struct topo_node *n = &c->topo->node[i];

		for (unsigned k = 0; k <= n->ports && (node < 0 || node == i); k++) {
			if (port < 0 ? n->port[k].peer_port : (unsigned)port == k)
				json_array_append_new(all,
						      port_counters(c, f, i, (uint8_t)k));
		}
	}
	return json_pack("{so}", "ports", all);
}

/* --- links -------------------------------------------------------------------- */

static json_t *set_link(const struct control *c, struct fabric *f, uint64_t now,
			const json_t *ask)
{
	const json_t *up = json_object_get(ask, "up");
	const struct topo_node *n;
	json_t *bad;
	int64_t node;
	int port;

	bad = which(c, ask, false, &node, &port);
	if (bad)
		return bad;
	if (!json_is_boolean(up))
		return wrong("expected \"up\" with true or false");
	n = &c->topo->node[node];
	if (!n->port[port].peer_port)
		return wrong("there is no cable at port %d of %s", port, n->id);
	fabric_cable(f, (uint32_t)node, (uint8_t)port, json_is_true(up), now);
	return json_pack("{so si so si so}", "node", text(n->id), "port", port, "peer",
			 text(c->topo->node[n->port[port].peer].id), "peer_port",
			 n->port[port].peer_port, "cable",
			 json_boolean(json_is_true(up)));
}

static json_t *answer_request(const struct control *c, struct fabric *f, uint64_t now,
			      const char *ask, size_t len)
{
	json_error_t err;
	json_t *j = json_loadb(ask, len, JSON_REJECT_DUPLICATES, &err), *out;
	const char *what = json_string_value(json_object_get(j, "ask"));

	if (!j)
		out = wrong("byte %d: %s", err.position, err.text);
	else if (!what)
		out = wrong("expected an object with \"ask\"");
	else if (strcmp(what, "status") == 0)
		out = status(c, f, now);
	else if (strcmp(what, "summary") == 0)
		out = summary(c, f);
	else if (strcmp(what, "counters") == 0)
		out = counters(c, f, j);
	else if (strcmp(what, "link") == 0)
		out = set_link(c, f, now, j);
	else
		out = wrong("\"ask\" is status, summary, counters or link, not '%.40s'",
			    what);
	json_decref(j);
	return out;
}

char *control_answer(void *ctx, struct fabric *f, uint64_t now, const char *ask,
		     size_t ask_len, size_t *len)
{
	json_t *j = answer_request(ctx, f, now, ask, ask_len);
	char *out = json_dumps(j, JSON_COMPACT);

	json_decref(j);
	*len = out ? strlen(out) : 0;
	return out;
}
