/* SPDX-License-Identifier: BSD-2-Clause */
/* request.c - carries out the requests of programs to their fabric.  Every value in a
 * request is checked before use. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/port/message.h"
#include "fabric/port/server.h"
#include "fabric/port/server_own.h"
#include "sys/log.h"

static_assert((int)PLUG_HDR == (int)UMAD_HDR, "ib_user_mad");

/* The verbs device's name: "ib_" and the node's id, or its index if the id is too long or
 * has characters that a device's name must not have. */
static void ca_name(const struct plug_server *s, uint32_t ca, char to[PLUG_CA_NAME])
{
	const char *id = s->topo->node[ca].id;
	size_t n;

	if (strncmp(id, "H-", 2) == 0)
		id += 2;
	for (n = 0; isalnum((unsigned char)id[n]) || (id[n] && strchr("._-", id[n])); n++)
		;
	if (!id[n] && n && n <= PLUG_CA_NAME - 4)
		snprintf(to, PLUG_CA_NAME, "ib_%.16s", id);
	else
		snprintf(to, PLUG_CA_NAME, "ib_%u", ca);
}

/* Sends the answer; a program that does not take it loses its connection. */
static void answer_request(struct plug_server *s, struct plug_conn *c,
			   enum plug_type type, const void *what, size_t len, int pass)
{
	if (plug_say(c->fd, type, what, len, pass, false))
		plugged_end(s, c);
}

static void grant(struct plug_server *s, struct plug_conn *c)
{
	uint32_t status = 0;

	answer_request(s, c, PLUG_STATUS, &status, sizeof(status), -1);
}

void plug_refuse(struct plug_server *s, struct plug_conn *c, int rc)
{
	uint32_t status = (uint32_t)-rc;

	answer_request(s, c, PLUG_STATUS, &status, sizeof(status), -1);
	plugged_end(s, c);
}

static void about_ca(struct plug_server *s, struct plug_conn *c)
{
	const struct topo_node *t = &s->topo->node[c->ca];
	const struct node_info *ni = fabric_node(s->fabric, c->ca);
	struct plug_ca a;

	memset(&a, 0, sizeof(a));
	a.ports = t->ports;
	a.guid = ni->guid;
	a.sys_guid = ni->system_guid;
	a.vendor = ni->vendor_id;
	a.device = ni->device_id;
	ca_name(s, c->ca, a.name);
	snprintf(a.desc, sizeof(a.desc), "%s", t->desc);
	answer_request(s, c, PLUG_CA_IS, &a, sizeof(a), -1);
	plugged_end(s, c);
}

void plug_about_port(struct plug_server *s, uint32_t ca, uint8_t port,
		     struct plug_port *to)
{
	const struct port_info *pi;
	struct fabric_port_view v;

	memset(to, 0,
	       sizeof(*to)); /* with the padding: tell_port() compares by memcmp() */
	fabric_port(s->fabric, ca, port, &v);
	pi = v.info;
	to->state = pi->state;
	to->phys_state = pi->phys_state;
	to->rate = fabric_rate(pi) / 10;
	to->lid = pi->lid;
	to->lmc = pi->lmc;
	to->sm_lid = pi->sm_lid;
	to->sm_sl = pi->sm_sl;
	to->cap_mask = pi->cap_mask;
	to->prefix = pi->gid_prefix;
	to->guid = v.guid;
	to->pkeys = v.pkeys < PLUG_PKEYS ? v.pkeys : PLUG_PKEYS;
	memcpy(to->pkey, v.pkey, to->pkeys * sizeof(to->pkey[0]));
	to->mtu = pi->mtu;
	to->mtu_cap = pi->mtu_cap;
	to->width = pi->width_active;
	to->speed = pi->speed_active;
	to->ext_speed = pi->ext_active;
	to->vls = pi->oper_vls;
	to->subnet_timeout = pi->subnet_timeout;
	to->reregisters = v.reregisters;
	to->address = s->topo->node[ca].port[port].address;
	for (unsigned i = 0; i < PLUG_GUIDS; i++)
		to->guids[i] = v.guids[i];
}

static void about_port(struct plug_server *s, struct plug_conn *c)
{
	struct plug_port a;

	plug_about_port(s, c->ca, c->port, &a);
	answer_request(s, c, PLUG_PORT_IS, &a, sizeof(a), -1);
	plugged_end(s, c);
}

static void move_conn(struct plug_conn *c, enum conn_kind kind, struct list *to)
{
	list_del(&c->node);
	c->kind = kind;
	list_add_tail(to, &c->node);
}

static void open_file(struct plug_server *s, struct plug_conn *c)
{
	int rc = umad_open(s->umad, c->ca, c->port, c, &c->file);

	if (rc) {
		plug_refuse(s, c, rc);
		return;
	}
	move_conn(c, CONN_FILE, &s->files);
	grant(s, c);
}

/* The connection takes the pipe over that has come. */
static void open_issm(struct plug_server *s, struct plug_conn *c, struct msg *m)
{
	if (!issm_begin(s, c, m->fd[0])) {
		plug_refuse(s, c, -EINVAL);
		return;
	}
	m->fd[0] = -1;
	move_conn(c, CONN_ISSM, &s->issms);
	grant(s, c);
}

static void open_control(struct plug_server *s, struct plug_conn *c)
{
	if (!s->answer) {
		plug_refuse(s, c, -EOPNOTSUPP);
		return;
	}
	move_conn(c, CONN_CONTROL, &s->controls);
	grant(s, c);
}

static void open_capture(struct plug_server *s, struct plug_conn *c, bool all)
{
	if (!capture_begin(c, all)) {
		plug_refuse(s, c, -ENOMEM);
		return;
	}
	move_conn(c, CONN_CAPTURE, &s->captures);
	grant(s, c);
}

static void attach_program(struct plug_server *s, struct plug_conn *c, uint32_t slot)
{
	int memory = attach_begin(s, c, slot);
	uint32_t status = 0;

	if (memory < 0) {
		plug_refuse(s, c, memory);
		return;
	}
	move_conn(c, CONN_ATTACHED, &s->attaches);
	answer_request(s, c, PLUG_STATUS, &status, sizeof(status), memory);
	close(memory);
}

static void find_address(struct plug_server *s, struct plug_conn *c, const uint8_t ip[16])
{
	uint8_t gid[16];

	if (!service_find(s, ip, gid)) {
		plug_refuse(s, c, -EHOSTUNREACH);
		return;
	}
	answer_request(s, c, PLUG_GID_IS, gid, sizeof(gid), -1);
	plugged_end(s, c);
}

static void serve_request(struct plug_server *s, struct plug_conn *c,
			  const struct plug_request *req)
{
	int rc = service_begin(s, c, req);

	if (rc) {
		plug_refuse(s, c, rc);
		return;
	}
	move_conn(c, CONN_SERVICE, &s->services);
	grant(s, c);
}

void plug_asked(struct plug_server *s, struct plug_conn *c, const struct msg *m)
{
	size_t n = 0;
	char *text;

	fabric_run(s->fabric, s->now); /* so that the answer describes the present */
	text = s->answer(s->answer_ctx, s->fabric, s->now, m->body, m->len, &n);
	if (text)
		answer_request(s, c, PLUG_TEXT, text, n, -1);
	else
		plugged_end(s, c);
	free(text);
}

/* Sets c->ca and c->port from the request.  Returns 0 or -ENODEV. */
static int find_port(const struct plug_server *s, struct plug_conn *c,
		     const struct plug_request *req)
{
	char name[PLUG_HCA];

	if (req->op == PLUG_CONTROL)
		return 0;
	memcpy(name, req->hca, sizeof(name));
	name[sizeof(name) - 1] = '\0';
	if (req->op == PLUG_CAPTURE && !name[0])
		return req->port ? -ENODEV : 0;
	if (req->op == PLUG_CAPTURE ? topo_find_node(s->topo, name, &c->ca)
				    : topo_find_ca(s->topo, name, &c->ca))
		return -ENODEV;
	if (req->op == PLUG_CA)
		return 0;
	if ((!req->port && req->op != PLUG_CAPTURE) ||
	    req->port > s->topo->node[c->ca].ports)
		return -ENODEV;
	c->port = (uint8_t)req->port;
	return 0;
}

void plug_first(struct plug_server *s, struct plug_conn *c, struct msg *m)
{
	struct plug_request req;
	int rc;

	memcpy(&req, m->body, sizeof(req));
	rc = find_port(s, c, &req);
	if (rc)
		plug_refuse(s, c, rc);
	else if (req.op == PLUG_CA)
		about_ca(s, c);
	else if (req.op == PLUG_PORT)
		about_port(s, c);
	else if (req.op == PLUG_OPEN)
		open_file(s, c);
	else if (req.op == PLUG_CONTROL)
		open_control(s, c);
	else if (req.op == PLUG_CAPTURE)
		open_capture(s, c, !req.hca[0]);
	else if (req.op == PLUG_ATTACH)
		attach_program(s, c, req.slot);
	else if (req.op == PLUG_FIND)
		find_address(s, c, req.ip);
	else if (req.op == PLUG_SERVICE)
		serve_request(s, c, &req);
	else if (req.op == PLUG_ISSM)
		open_issm(s, c, m);
	else
		plug_refuse(s, c, -EPROTO);
}

void plug_agent(struct plug_conn *c, const struct msg *m)
{
	struct plug_register r;
	int32_t agent;

	memcpy(&r, m->body, sizeof(r));
	if (r.say == PLUG_REGISTER)
		agent = umad_register(c->file,
				      &(struct umad_reg){ .class = r.class,
							  .version = r.version,
							  .rmpp = r.rmpp,
							  .own_rmpp = r.own_rmpp != 0,
							  .oui = r.oui,
							  .methods = { r.methods[0],
								       r.methods[1] } });
	else
		agent = umad_unregister(c->file, r.agent);
	/* The program waits for the answer on the socket that it passed.  If it passed
	 * anything else, the send fails and only that program is harmed. */
	(void)plug_say(m->fd[0], PLUG_AGENT_IS, &agent, sizeof(agent), -1, false);
}

void plug_mad(struct plug_server *s, struct plug_conn *c, const struct msg *m)
{
	uint8_t *lies = m->memory < 0 ? NULL : malloc(m->len);
	const uint8_t *msg = lies ? lies : m->body;
	int rc;

	if (m->memory >= 0 && (!lies || msg_read(m, 0, lies, m->len))) {
		log_info("fabric: process %d sent a message of %zu bytes that cannot be "
			 "read: its connection is closed",
			 (int)c->pid, m->len);
		plugged_end(s, c);
	} else {
		rc = umad_write(c->file, msg, m->len, s->now);
		if (rc)
			umad_refuse(c->file, msg, m->len, (uint32_t)-rc);
	}
	free(lies);
}
