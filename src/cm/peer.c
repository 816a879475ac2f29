/* SPDX-License-Identifier: BSD-2-Clause */
/* peer.c - does the peer's process live?  For a process that is killed a kernel
 * would send DREQ; nobody does for ours.
 *
 * On this host, where all programs of a fabric are, too, the connection of host/ closes
 * (near).  Another host is asked: what we sent last, REP or RTU, goes out again from
 * time to time, which to a peer that lives is a duplicate.  Where other processes run,
 * the one that gets it answers REJ (invalid communication ID); where none does, the
 * kernel refuses it (ICMP). */
#include <errno.h>
#include <string.h>

#include "cm/cm_int.h"
#include "core/core.h"
#include "core/psn.h"
#include "host/host.h"
#include "sys/addr_text.h"
#include "sys/log.h"
#include "wire/ib_hdr.h"
#include "wire/ib_pkt.h"

static const uint64_t LOOK_NS = 1000000, LOOK_MAX_NS = 1000000000;
/* A connection is asked after so often, but all together no more than some 50 times a
 * second. */
static const uint64_t ASK_NS = UINT64_C(5000000000), ASK_EACH_NS = 20000000,
		      HURRY_EACH_NS = 1000000;
/* A refusal has come by then. */
static const uint64_t REFUSAL_NS = 100000000;
/* One proves nothing: where the process ends that has the port, another takes it.  So
 * the host is asked again, and has to refuse something that left a second later or
 * more.  (Linux refuses once a second, after a few, whichever
 * process asks.) */
static const uint64_t AGAIN_NS = 1000000000, SUSPECT_NS = UINT64_C(30000000000);

/* --- of this host -------------------------------------------------------- */

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

bool route_is_local(const struct cm *cm, const struct cm_route *route)
{
	return !memcmp(route->src, route->dst, 16) ||
	       (cm->site && cm->site->same_host && cm->site->same_host(route->dst));
}

void cm_gone(struct cm *cm, uint16_t slot, uint64_t now)
{
	for (unsigned i = 0; i < cm->used; i++) {
		struct conn *c = conn_at(cm, i);

		if (c->near && id_slot(c->remote_id) == slot &&
		    (c->state == ST_ESTABLISHED || c->state == ST_DREQ_SENT ||
		     c->state == ST_DREQ_RCVD))
			look_again(c, now);
	}
}

/* --- of another ---------------------------------------------------------- */

static void ask_later(struct conn *c, uint64_t now)
{
	struct cm *cm = c->cm;
	uint64_t ns = (cm->used - cm->free_n) * ASK_EACH_NS;

	if (ns < ASK_NS)
		ns = ASK_NS;
	ns -= rand_below(&cm->rng, ns / 4);
	(void)heap_set(&cm->timers, &c->timer, now + ns);
}

/* Once a second: what comes of it calls here again. */
void peer_process_gone(struct conn *gone, uint64_t now)
{
	struct cm *cm = gone->cm;
	unsigned n = 0;

	if (now < cm->hurry_at)
		return;
	cm->hurry_at = now + AGAIN_NS;
	for (unsigned i = 0; i < cm->used; i++) {
		struct conn *c = conn_at(cm, i);

		if (c->state == ST_ESTABLISHED && !c->near && c != gone &&
		    id_slot(c->remote_id) == id_slot(gone->remote_id) &&
		    route_same(&c->route, &gone->route))
			look_at(c, now + HURRY_EACH_NS * n++);
	}
}

/* Does c wait for an answer by that route, or would it? */
static bool is_open(const struct conn *c, const struct cm_route *route)
{
	switch (c->state) {
	case ST_REQ_SENT:
	case ST_REP_SENT:
	case ST_ESTABLISHED:
	case ST_DREQ_SENT:
	case ST_SIDR_SENT:
		return !c->near && route_same(&c->route, route);
	case ST_FREE:
	case ST_IDLE:
	case ST_REP_RCVD:
	case ST_REQ_RCVD:
	case ST_DREQ_RCVD:
	case ST_TIMEWAIT:
	case ST_SIDR_RCVD:
	case CONN_STATES:
		break;
	}
	return false;
}

static struct conn *next_open(struct cm *cm, const struct cm_route *route, unsigned *i)
{
	while (*i < cm->used) {
		struct conn *c = conn_at(cm, (*i)++);

		if (is_open(c, route))
			return c;
	}
	return NULL;
}

static void host_is_gone(struct cm *cm, const struct cm_route *route, uint64_t now)
{
	char peer[INET6_ADDRSTRLEN];
	struct conn *c;
	unsigned n = 0;

	for (unsigned i = 0; (c = next_open(cm, route, &i)); n++)
		ibcm_nobody(c, now);
	log_info("nobody at %s has UDP port %u, where RoCE programs of that host are "
		 "found; connections that end: %u",
		 addr_text(route->dst, peer), cm->udp_port, n);
}

static struct suspect *suspect_of(struct cm *cm, const struct cm_route *route)
{
	for (int i = 0; i < SUSPECTS; i++) {
		struct suspect *s = &cm->suspect[i];

		if (s->until && route_same(&s->route, route))
			return s;
	}
	return NULL;
}

/* If there is no room its next refusal will do. */
static void suspect(struct cm *cm, const struct cm_route *route, uint64_t now)
{
	for (int i = 0; i < SUSPECTS; i++) {
		struct suspect *s = &cm->suspect[i];

		if (s->until)
			continue;
		/* Not all at once. */
		*s = (struct suspect){ .route = *route,
				       .until = now + SUSPECT_NS,
				       .at = now + AGAIN_NS +
					     rand_below(&cm->rng, AGAIN_NS / 4) };
		if (s->at < cm->suspect_at)
			cm->suspect_at = s->at;
		return;
	}
}

/* The connection whose MAD that is.  A stranger that makes a refusal up does not know
 * its IDs. */
static struct conn *is_about(struct cm *cm, const uint8_t ip[16], const struct cm_msg *m)
{
	struct conn *c = conn_find(cm, m->local_id);

	return c && m->tid == c->tid && m->remote_id == c->remote_id &&
			       is_open(c, &c->route) && !memcmp(c->route.dst, ip, 16)
		       ? c
		       : NULL;
}

/* Of a packet, as a host quotes it that refused it, the MAD, and the PSN, by which one is
 * told from the next.  The ICRC may be missing. */
static int parse_quote(const void *quote, size_t len, uint32_t *psn, struct cm_msg *m)
{
	enum { LEN = sizeof(struct bth) + sizeof(struct deth) + MAD_LEN };
	struct ib_pkt pkt;

	if (len < LEN || ib_parse(&pkt, quote, LEN) || !ib_has(&pkt, IB_DETH) ||
	    pkt.f.dest_qp != QP_GSI || pkt.payload_len != MAD_LEN)
		return -EPROTO;
	*psn = pkt.f.psn;
	return cm_mad_parse(m, pkt.payload, MAD_LEN);
}

static void look_for_refusals(struct cm *cm, uint64_t now)
{
	enum { AT_ONCE = 64 };
	uint8_t ip[16], quote[QUOTE_MAX];
	struct suspect *s;
	struct cm_msg m;
	struct conn *c;
	uint32_t psn;
	size_t len;

	for (int i = 0; i < AT_ONCE; i++) {
		len = cm->site->refused(cm->core, ip, quote, sizeof(quote));
		if (len == 0)
			break;
		if (parse_quote(quote, len, &psn, &m) || !(c = is_about(cm, ip, &m)))
			continue;
		s = suspect_of(cm, &c->route);
		if (!s) {
			suspect(cm, &c->route, now);
		} else if (s->asked && psn_diff(psn, s->psn) >= 0) {
			s->until = 0;
			host_is_gone(cm, &s->route, now);
		}
	}
}

static void ask_suspect(struct cm *cm, struct suspect *s, uint64_t now)
{
	unsigned i = 0;
	struct conn *c = now < s->until ? next_open(cm, &s->route, &i) : NULL;

	if (!c) {
		s->until = 0;
		return;
	}
	if (!s->asked)
		s->psn = qp1_psn(cm->net.qp1);
	s->asked = true;
	s->at = now + AGAIN_NS;
	send_again(c);
}

static void run_suspects(struct cm *cm, uint64_t now)
{
	cm->suspect_at = NEVER;
	for (int i = 0; i < SUSPECTS; i++) {
		struct suspect *s = &cm->suspect[i];

		if (s->until && now >= s->at)
			ask_suspect(cm, s, now);
		if (s->until && s->at < cm->suspect_at)
			cm->suspect_at = s->at;
	}
}

void peer_run(struct cm *cm, uint64_t now)
{
	if (cm->sent && cm->look_at == NEVER && cm->site && cm->site->refused)
		cm->look_at = now + REFUSAL_NS;
	cm->sent = false;
	if (now >= cm->look_at) {
		cm->look_at = NEVER;
		look_for_refusals(cm, now);
	}
	if (now >= cm->suspect_at)
		run_suspects(cm, now);
}

void peer_heard(struct cm *cm, const struct cm_route *route)
{
	struct suspect *s = cm->suspect_at == NEVER ? NULL : suspect_of(cm, route);

	if (s)
		s->until = 0;
}

uint64_t peer_deadline(const struct cm *cm)
{
	if (cm->sent && cm->look_at == NEVER)
		return 0;
	return cm->look_at < cm->suspect_at ? cm->look_at : cm->suspect_at;
}

/* --- both ---------------------------------------------------------------- */

bool conn_watch(struct conn *c, uint64_t now)
{
	struct cm *cm = c->cm;
	uint16_t slot = id_slot(c->remote_id);
	int rc;

	if (!c->near && !c->route.dlid && !route_is_local(cm, &c->route)) {
		ask_later(c, now);
		return true;
	}
	c->near = true;
	if (!cm->host || slot == cm->core->slot)
		return true;
	rc = host_connect(cm->host, slot);
	if (rc == -ESRCH && host_is_free(cm->host, slot) && ibcm_disconnected(c, now))
		return false;
	if (rc)
		look_again(c, now);
	return true;
}

void conn_look(struct conn *c, uint64_t now)
{
	bool ask = c->state == ST_ESTABLISHED && (!c->near || c->doubted);

	answered(c);
	if (c->near && !conn_watch(c, now))
		return;
	if (ask)
		send_again(c);
	if (ask && !c->near)
		ask_later(c, now);
	c->doubted = false;
}

bool conn_doubt(struct conn *c, uint64_t now)
{
	c->doubted = c->near;
	if (c->near)
		look_at(c, now + LOOK_NS);
	return c->near;
}
