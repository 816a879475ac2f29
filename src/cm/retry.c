/* SPDX-License-Identifier: BSD-2-Clause */
/* retry.c - MADs on their way out, and the MADs that are sent again until they are
 * answered: after each response timeout of the peer, as often as the peer allows
 * (12.9.8.4).
 *
 * Within the first timeout a MAD is also sent again after 64 ms, 128 ms and so on. The
 * timeout is seconds, as the peer's program may take that long, but a lost packet must
 * not cost seconds. A peer that has the MAD already treats the copy as a duplicate. Each
 * of these delays is shortened by a random part, up to a half; otherwise a thousand
 * requests that were too many at once would collide again at each repetition. */
#include <string.h>

#include "cm/cm_int.h"

static const uint64_t QUICK_NS = 64000000, LEAST_NS = 16000000;
static const uint64_t PATIENCE_NS = UINT64_C(600000000000);
enum { TIMEOUT_MAX = 21 }; /* exponent: 8.6 s */

uint64_t cm_interval(uint8_t n)
{
	return UINT64_C(4096) << (n & 31);
}

/* A MAD for the process with this slot is first forwarded to it within the host. A MAD
 * that is sent again has slot 0, and goes by the wire. */
static void transmit_mad(struct cm *cm, const struct cm_route *route, uint16_t slot,
			 const uint8_t *mad)
{
	if ((slot && forward_to_peer(cm, slot, route, mad)) ||
	    gsi_send(cm, route, mad) == 0)
		cm->counter[CM_TX]++;
	else
		cm->counter[CM_TX_FULL]++;
}

void send_mad(struct cm *cm, const struct cm_route *route, const struct cm_msg *m)
{
	uint8_t mad[MAD_LEN];

	cm_mad_build(mad, m);
	transmit_mad(cm, route, id_slot(m->remote_id), mad);
}

void send_kept(struct conn *c, const struct cm_msg *m)
{
	cm_mad_build(c->mad, m);
	transmit_mad(c->cm, &c->route, id_slot(m->remote_id), c->mad);
}

void send_again(struct conn *c)
{
	c->cm->counter[CM_TX_AGAIN]++;
	transmit_mad(c->cm, &c->route, 0, c->mad);
}

static uint64_t try_ns(const struct conn *c)
{
	uint8_t n = c->peer_timeout < TIMEOUT_MAX ? c->peer_timeout : TIMEOUT_MAX;
	uint64_t ns = cm_interval(n);

	return ns > LEAST_NS ? ns : LEAST_NS;
}

static void set_timer(struct conn *c, uint64_t now)
{
	uint64_t at = c->full_at, quick = c->quick;

	if (quick)
		quick -= rand_below(&c->cm->rng, quick / 2);
	if (quick && now + quick < at)
		at = now + quick;
	(void)heap_set(&c->cm->timers, &c->timer,
		       at); /* the heap has room for every connection's timer */
}

void send_until_answered(struct conn *c, const struct cm_msg *m, uint8_t timeout,
			 unsigned retries, uint64_t now)
{
	c->peer_timeout = timeout;
	c->retries = retries;
	c->quick = QUICK_NS;
	c->full_at = now + try_ns(c);
	c->patience = now + PATIENCE_NS;
	send_kept(c, m);
	set_timer(c, now);
}

void answered(struct conn *c)
{
	heap_del(&c->cm->timers, &c->timer);
}

/* An MRA postpones the end of the try, as the peer's program needs time. The answer that
 * then follows may be lost, and an RTU is not sent again by itself, so the MAD is still
 * repeated meanwhile, ever more rarely. c->patience bounds the postponements: a peer
 * cannot keep a connection half open for ever. */
void put_off(struct conn *c, uint8_t service_timeout, uint64_t now)
{
	uint8_t n = service_timeout < SERVICE_TIMEOUT ? service_timeout : SERVICE_TIMEOUT;

	if (now >= c->patience)
		return;
	if (!c->quick)
		c->quick = QUICK_NS;
	c->full_at = now + cm_interval(n) + try_ns(c);
	if (c->full_at > c->patience)
		c->full_at = c->patience;
	set_timer(c, now);
}

bool retry_run(struct conn *c, uint64_t now)
{
	if (now < c->full_at) {
		c->quick *= 2;
	} else {
		if (c->retries == 0)
			return false;
		c->retries--;
		c->quick = 0;
		c->full_at = now + try_ns(c);
	}
	send_again(c);
	set_timer(c, now);
	return true;
}
