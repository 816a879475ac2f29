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
#include "sys/closer.h"
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

/* Returns false if the socket has no room or the program has gone; the caller then ends
 * the connection. */
static bool answer(struct plug_conn *c, const void *what, size_t len)
{
	return message_send(c->fd, NULL, 0, what, len, -1, true) == 0;
}

static void refuse(struct plug_server *s, struct plug_conn *c, int rc)
{
	uint32_t status = (uint32_t)-rc;

	answer(c, &status, sizeof(status));
	plugged_end(s, c);
}

static void about_ca(struct plug_server *s, struct plug_conn *c)
{
	const struct topo_node *t = &s->topo->node[c->ca];
	const struct node_info *ni = fabric_node(s->fabric, c->ca);
	struct plug_ca a = {
		.ports = t->ports,
		.guid = ni->guid,
		.sys_guid = ni->system_guid,
		.vendor = ni->vendor_id,
		.device = ni->device_id,
	};

	ca_name(s, c->ca, a.name);
	snprintf(a.desc, sizeof(a.desc), "%s", t->desc);
	answer(c, &a, sizeof(a));
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
	answer(c, &a, sizeof(a));
	plugged_end(s, c);
}

static void move(struct plug_conn *c, enum conn_kind kind, struct list *to)
{
	list_del(&c->node);
	c->kind = kind;
	list_add_tail(to, &c->node);
}

static void open_file(struct plug_server *s, struct plug_conn *c)
{
	uint32_t status = 0;
	int rc = umad_open(s->umad, c->ca, c->port, c, &c->file);

	if (rc) {
		refuse(s, c, rc);
		return;
	}
	move(c, CONN_FILE, &s->files);
	if (!answer(c, &status, sizeof(status)))
		plugged_end(s, c);
}

/* Returns -1 if the connection now owns the pipe `passed`; otherwise `passed`, which the
 * caller closes. */
static int open_issm(struct plug_server *s, struct plug_conn *c, int passed)
{
	uint32_t status = 0;

	if (!issm_begin(s, c, passed)) {
		refuse(s, c, -EINVAL);
		return passed;
	}
	move(c, CONN_ISSM, &s->issms);
	if (!answer(c, &status, sizeof(status)))
		plugged_end(s, c);
	return -1;
}

static void open_control(struct plug_server *s, struct plug_conn *c)
{
	uint32_t status = 0;

	if (!s->answer) {
		refuse(s, c, -EOPNOTSUPP);
		return;
	}
	move(c, CONN_CONTROL, &s->controls);
	if (!answer(c, &status, sizeof(status)))
		plugged_end(s, c);
}

static void open_capture(struct plug_server *s, struct plug_conn *c, bool all)
{
	uint32_t status = 0;

	if (!capture_begin(c, all)) {
		refuse(s, c, -ENOMEM);
		return;
	}
	move(c, CONN_CAPTURE, &s->captures);
	if (!answer(c, &status, sizeof(status)))
		plugged_end(s, c);
}

static void attach(struct plug_server *s, struct plug_conn *c, uint32_t slot)
{
	int memory = attach_begin(s, c, slot);
	uint32_t status = 0;

	if (memory < 0) {
		refuse(s, c, memory);
		return;
	}
	move(c, CONN_ATTACHED, &s->attaches);
	if (message_send(c->fd, NULL, 0, &status, sizeof(status), memory, true))
		plugged_end(s, c);
	close(memory);
}

static void find_address(struct plug_server *s, struct plug_conn *c, const uint8_t ip[16])
{
	struct plug_found a = { 0 };

	if (!service_find(s, ip, a.gid)) {
		refuse(s, c, -EHOSTUNREACH);
		return;
	}
	answer(c, &a, sizeof(a));
	plugged_end(s, c);
}

static void serve(struct plug_server *s, struct plug_conn *c,
		  const struct plug_request *req)
{
	uint32_t status = 0;
	int rc = service_begin(s, c, req);

	if (rc) {
		refuse(s, c, rc);
		return;
	}
	move(c, CONN_SERVICE, &s->services);
	if (!answer(c, &status, sizeof(status)))
		plugged_end(s, c);
}

void plug_asked(struct plug_server *s, struct plug_conn *c, const uint8_t *msg,
		size_t len)
{
	size_t n = 0;
	char *text;

	fabric_run(s->fabric, s->now); /* so that the answer describes the present */
	text = s->answer(s->answer_ctx, s->fabric, s->now, (const char *)msg, len, &n);
	if (!text || message_send_any(c->fd, NULL, 0, text, n, true))
		plugged_end(s, c);
	free(text);
}

/* Sets c->ca and c->port from the request.  Returns 0 or -ENODEV. */
static int find(const struct plug_server *s, struct plug_conn *c,
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

void plug_first(struct plug_server *s, struct plug_conn *c,
		const struct plug_request *req, int passed)
{
	int rc = req->version == PLUG_VERSION ? find(s, c, req) : -EPROTO;

	if (rc)
		refuse(s, c, rc);
	else if (req->op == PLUG_CA)
		about_ca(s, c);
	else if (req->op == PLUG_PORT)
		about_port(s, c);
	else if (req->op == PLUG_OPEN)
		open_file(s, c);
	else if (req->op == PLUG_CONTROL)
		open_control(s, c);
	else if (req->op == PLUG_CAPTURE)
		open_capture(s, c, !req->hca[0]);
	else if (req->op == PLUG_ATTACH)
		attach(s, c, req->slot);
	else if (req->op == PLUG_FIND)
		find_address(s, c, req->ip);
	else if (req->op == PLUG_SERVICE)
		serve(s, c, req);
	else if (req->op == PLUG_ISSM)
		passed = open_issm(s, c, passed);
	else
		refuse(s, c, -EPROTO);
	closer_put(c->uid, passed);
}

static void wrong(struct plug_server *s, struct plug_conn *c, const char *what,
		  size_t len)
{
	log_info("fabric: process %d sent %s (%zu bytes): its connection is closed",
		 (int)c->pid, what, len);
	plugged_end(s, c);
}

static void agents(struct plug_server *s, struct plug_conn *c, const uint8_t *msg,
		   size_t len, int passed)
{
	struct plug_register r;
	struct plug_registered done;

	if (len != sizeof(r) || passed < 0) {
		wrong(s, c, "a registration of the wrong length", len);
		return;
	}
	memcpy(&r, msg, sizeof(r));
	if (r.say == PLUG_REGISTER)
		done.agent =
			umad_register(c->file,
				      &(struct umad_reg){ .class = r.class,
							  .version = r.version,
							  .rmpp = r.rmpp,
							  .own_rmpp = r.own_rmpp != 0,
							  .oui = r.oui,
							  .methods = { r.methods[0],
								       r.methods[1] } });
	else
		done.agent = umad_unregister(c->file, r.agent);
	/* The program waits for the answer on the socket that it passed.  If it passed
	 * anything else, the send fails and only that program is harmed. */
	message_send(passed, NULL, 0, &done, sizeof(done), -1, true);
}

static void mad(struct plug_server *s, struct plug_conn *c, const uint8_t *msg,
		size_t len)
{
	int rc;

	if (len < UMAD_HDR) {
		wrong(s, c, "a message without a header", len);
		return;
	}
	rc = umad_write(c->file, msg, len, s->now);
	if (rc)
		umad_refuse(c->file, msg, len, (uint32_t)-rc);
}

/* Takes a message that the program has put into the memfd `passed`. */
static void long_mad(struct plug_server *s, struct plug_conn *c, int passed)
{
	long len = message_length(passed);
	uint8_t *msg = len > 0 && len <= UMAD_MESSAGE_MAX ? malloc((size_t)len) : NULL;

	if (msg && message_read(passed, msg, (size_t)len) == 0)
		mad(s, c, msg, (size_t)len);
	else
		wrong(s, c, "a long message that cannot be read", (size_t)len);
	free(msg);
}

void plug_said(struct plug_server *s, struct plug_conn *c, const uint8_t *msg, size_t len,
	       int passed)
{
	uint32_t say = 0;

	if (len >= sizeof(say))
		memcpy(&say, msg, sizeof(say));
	if (say == PLUG_MAD && passed >= 0)
		long_mad(s, c, passed);
	else if (say == PLUG_MAD)
		mad(s, c, msg + sizeof(say), len - sizeof(say));
	else if (say == PLUG_REGISTER || say == PLUG_UNREGISTER)
		agents(s, c, msg, len, passed);
	else
		wrong(s, c, "an unknown message", len);
	closer_put(c->uid, passed);
}
