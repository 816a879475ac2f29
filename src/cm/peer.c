/* SPDX-License-Identifier: BSD-2-Clause */
/* peer.c - does the peer's process live?  For a process that is killed a kernel
 * would send DREQ; nobody does for ours.
 *
 * On this host the connection of host/ closes (near).  Another host is asked: what
 * we sent last, REP or RTU, goes out again from time to time, which to a peer that
 * lives is a duplicate.  Where other processes run, the one that gets it answers
 * REJ (invalid communication ID); where none does, the kernel refuses it (ICMP). */
#include <errno.h>
#include <string.h>

#include "cm/cm_int.h"
#include "core/core.h"
#include "host/host.h"
#include "sys/addr_text.h"
#include "sys/dgram.h"
#include "sys/log.h"

static const uint64_t LOOK_NS = 1000000, LOOK_MAX_NS = 1000000000;
/* A connection is asked after so often, but all together no more than 50 times a
 * second. */
static const uint64_t ASK_NS = UINT64_C(5000000000), ASK_EACH_NS = 20000000;
/* A refusal has come by then.  One proves nothing: where the process ends that has
 * the port, another takes it.  So a host is asked again, and has to refuse that too.
 * (Linux refuses once a second, after a few.) */
static const uint64_t REFUSAL_NS = 100000000, AGAIN_NS = 1000000000,
		      SILENT_NS = UINT64_C(2500000000);

/* --- of this host ------------------------------------------------------------------ */

/* Sooner than c's own timer would. */
static void look_at(struct conn *c, uint64_t at)
{
	if (!heap_has(&c->timer) || c->timer.at > at)
		(void)heap_set(&c->cm->timers, &c->timer, at);
}

/* The peer closed our connection to it, or none could be made: it may have ended,
 * or have no descriptors.  That is asked for again, ever more rarely. */
static void look_again(struct conn *c, uint64_t now)
{
	look_at(c, now + c->look_ns);
	c->look_ns = c->look_ns ? c->look_ns * 2 : LOOK_NS;
	if (c->look_ns > LOOK_MAX_NS)
		c->look_ns = LOOK_MAX_NS;
}

static bool is_here(const struct conn *c)
{
	struct cm *cm = c->cm;

	return c->near || (cm->host && (!memcmp(c->way.src, c->way.dst, 16) ||
					cm->site->is_here(c->way.dst)));
}

void cm_gone(struct core *core, uint16_t slot, uint64_t now)
{
	struct cm *cm = core->cm;

	for (unsigned i = 0; cm && i < cm->used; i++) {
		struct conn *c = conn_at(cm, i);

		if (c->near && id_slot(c->remote_id) == slot &&
		    (c->state == ST_ESTABLISHED || c->state == ST_DREQ_SENT ||
		     c->state == ST_DREQ_RCVD))
			look_again(c, now);
	}
}

/* --- of another -------------------------------------------------------------------- */

static void ask_later(struct conn *c, uint64_t now)
{
	struct cm *cm = c->cm;
	uint64_t ns = (cm->used - cm->free_n) * ASK_EACH_NS;

	if (ns < ASK_NS)
		ns = ASK_NS;
	ns -= rand_below(&cm->rng, ns / 4);
	(void)heap_set(&cm->timers, &c->timer, now + ns);
}

/* Does c wait for an answer from that host, or would it? */
static bool is_open(const struct conn *c, const uint8_t ip[16])
{
	switch (c->state) {
	case ST_REQ_SENT: case ST_REP_SENT: case ST_ESTABLISHED: case ST_DREQ_SENT:
	case ST_SIDR_SENT:
		return !c->near && !memcmp(c->way.dst, ip, 16);
	case ST_FREE: case ST_IDLE: case ST_REP_RCVD: case ST_REQ_RCVD:
	case ST_DREQ_RCVD: case ST_TIMEWAIT: case ST_SIDR_RCVD: case CONN_STATES:
		break;
	}
	return false;
}

static struct conn *next_open(struct cm *cm, const uint8_t ip[16], unsigned *i)
{
	while (*i < cm->used) {
		struct conn *c = conn_at(cm, (*i)++);

		if (is_open(c, ip))
			return c;
	}
	return NULL;
}

static void host_is_gone(struct cm *cm, const uint8_t ip[16], uint64_t now)
{
	char peer[INET6_ADDRSTRLEN];
	struct conn *c;
	unsigned n = 0;

	for (unsigned i = 0; (c = next_open(cm, ip, &i)); n++)
		ibcm_nobody(c, now);
	log_info("nobody at %s has UDP port %u, where RoCE programs of that host are "
		 "found: %u connections end", addr_text(ip, peer), cm->core->udp_port,
		 n);
}

/* One host at a time is suspected, and one refusal counts each time it is asked. */
static void refused(struct cm *cm, const uint8_t ip[16], uint64_t now)
{
	struct suspect *s = &cm->suspect;

	if (!s->suspected) {
		memcpy(s->ip, ip, 16);
		s->suspected = true;
		s->asked = false;
		s->at = now + AGAIN_NS;
	} else if (s->asked && !memcmp(s->ip, ip, 16)) {
		s->suspected = false;
		host_is_gone(cm, ip, now);
	}
}

static void look_for_refusals(struct cm *cm, uint64_t now)
{
	enum { AT_ONCE = 32 };
	uint8_t ip[16];

	cm->look_at = NEVER;
	for (int i = 0; i < AT_ONCE && cm->site->refused(cm->core, ip); i++)
		refused(cm, ip, now);
}

/* No refusal came: it lives. */
static void ask_suspect(struct cm *cm, uint64_t now)
{
	struct suspect *s = &cm->suspect;
	unsigned i = 0;
	struct conn *c = s->asked ? NULL : next_open(cm, s->ip, &i);

	s->suspected = c;
	if (!c)
		return;
	s->asked = true;
	s->at = now + SILENT_NS;
	send_again(c);
}

void peer_run(struct cm *cm, uint64_t now)
{
	if (now >= cm->look_at)
		look_for_refusals(cm, now);
	if (cm->suspect.suspected && now >= cm->suspect.at)
		ask_suspect(cm, now);
}

void peer_sent(struct cm *cm, uint64_t now)
{
	if (cm->look_at == NEVER && cm->site && cm->site->refused)
		cm->look_at = now + REFUSAL_NS;
}

void peer_heard(struct cm *cm, const uint8_t ip[16])
{
	if (cm->suspect.suspected && !memcmp(cm->suspect.ip, ip, 16))
		cm->suspect.suspected = false;
}

uint64_t peer_deadline(const struct cm *cm)
{
	uint64_t at = cm->suspect.suspected ? cm->suspect.at : NEVER;

	return at < cm->look_at ? at : cm->look_at;
}

/* --- both ---------------------------------------------------------------------------- */

bool conn_watch(struct conn *c, uint64_t now)
{
	struct cm *cm = c->cm;
	uint16_t slot = id_slot(c->remote_id);
	int rc;

	if (!is_here(c)) {
		ask_later(c, now);
		return true;
	}
	if (slot == cm->core->slot)
		return true;
	c->near = true;
	rc = host_connect(cm->host, slot);
	if (rc == -ESRCH)
		ibcm_disconnected(c, now);
	else if (rc)
		look_again(c, now);
	return rc != -ESRCH;
}

void conn_look(struct conn *c, uint64_t now)
{
	answered(c);
	if (c->near) {
		(void)conn_watch(c, now);
	} else if (c->state == ST_ESTABLISHED) {
		send_again(c);
		ask_later(c, now);
	}
}
