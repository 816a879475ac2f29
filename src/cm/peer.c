/* SPDX-License-Identifier: BSD-2-Clause */
/* peer.c - finds out whether the peer's process still lives. When a process that uses a
 * kernel's RDMA stack is killed, the kernel sends DREQ; for urnic's connections nobody
 * does.
 *
 * If the peer is of this host, or at an adapter of the same fabric (c->near), its
 * connection of host/ closes. Another host is asked: our last message, REP or RTU, is
 * sent again from time to time. A peer that lives takes it for a duplicate. If other
 * processes of its host remain, the one that gets the message answers REJ (invalid
 * communication ID). If none remains, the host's kernel refuses the message (ICMP, port
 * unreachable). */
#include <errno.h>
#include <string.h>

#include "cm/cm_int.h"
#include "host/host.h"
#include "sys/addr.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/psn.h"
#include "wire/ib_hdr.h"
#include "wire/ib_pkt.h"

static const uint64_t LOOK_NS = 1000000, LOOK_MAX_NS = 1000000000;
/* ASK_NS: how often a connection's peer is asked. ASK_EACH_NS: the least interval between
 * two connections' questions, some 50 a second. HURRY_EACH_NS: the same, once a peer's
 * process was found to be gone. */
static const uint64_t ASK_NS = UINT64_C(5000000000), ASK_EACH_NS = 20000000,
		      HURRY_EACH_NS = 1000000;
/* A refusal arrives within this time. */
static const uint64_t REFUSAL_NS = 100000000;
/* One refusal proves nothing: when the process that has the port ends, another one takes
 * the port over. So the host is asked again after AGAIN_NS, and has to refuse a message
 * that left then or later. (After a few refusals Linux refuses only once a second, for
 * all processes together.) */
static const uint64_t AGAIN_NS = 1000000000, SUSPECT_NS = UINT64_C(30000000000);

/* --- peers of this host -------------------------------------------------- */

/* Sets c's timer to `at`, if that is sooner. */
static void look_at(struct conn *c, uint64_t at)
{
	if (!heap_has(&c->timer) || c->timer.at > at)
		(void)heap_set(&c->cm->timers, &c->timer, at);
}

/* The peer closed our connection of host/ to it, or none could be made. The peer may have
 * ended, or have no descriptors, so c looks again, ever more rarely. */
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
	source_sooner(&cm->source, 0);
	for (unsigned i = 0; i < cm->used; i++) {
		struct conn *c = conn_at(cm, i);

		if (c->near && id_slot(c->remote_id) == slot &&
		    (c->state == ST_ESTABLISHED || c->state == ST_DREQ_SENT ||
		     c->state == ST_DREQ_RCVD))
			look_again(c, now);
	}
}

/* --- peers of another host ----------------------------------------------- */

static void ask_later(struct conn *c, uint64_t now)
{
	struct cm *cm = c->cm;
	uint64_t ns = (cm->used - cm->free_n - cm->answered) * ASK_EACH_NS;

	if (ns < ASK_NS)
		ns = ASK_NS;
	ns -= rand_below(&cm->rng, ns / 4);
	(void)heap_set(&cm->timers, &c->timer, now + ns);
}

/* At most once a second, as each connection whose peer is then found to be gone comes
 * here again. */
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

/* Does c wait for an answer by that route, or may one come at any time? */
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
	case ST_ANSWERED:
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
	log_info("nobody at %s has UDP port %u any more, where that host's "
		 "RoCE programs receive: %u connections to it end",
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

/* Without a free entry nothing happens: the host's next refusal comes here again. */
static void suspect(struct cm *cm, const struct cm_route *route, uint64_t now)
{
	for (int i = 0; i < SUSPECTS; i++) {
		struct suspect *s = &cm->suspect[i];

		if (s->until)
			continue;
		/* The random part keeps suspects from being asked all at once. */
		*s = (struct suspect){ .route = *route,
				       .until = now + SUSPECT_NS,
				       .at = now + AGAIN_NS +
					     rand_below(&cm->rng, AGAIN_NS / 4) };
		if (s->at < cm->suspect_at)
			cm->suspect_at = s->at;
		return;
	}
}

/* Returns the connection that the refused MAD belongs to, or NULL. A stranger who invents
 * a refusal does not know its IDs. */
static struct conn *is_about(struct cm *cm, const uint8_t ip[16], const struct cm_msg *m)
{
	struct conn *c = conn_find(cm, m->local_id);

	return c && m->tid == c->tid && m->remote_id == c->remote_id &&
			       is_open(c, &c->route) && !memcmp(c->route.dst, ip, 16)
		       ? c
		       : NULL;
}

/* Parses a refused packet as the host quotes it, in which the ICRC may be missing. Sets m
 * to its MAD and *psn to its PSN, which identifies the packet. Returns 0 or -errno. */
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
		s->psn = cm->net->psn;
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

/* --- peers of any host --------------------------------------------------- */

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
