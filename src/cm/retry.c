/* SPDX-License-Identifier: BSD-2-Clause */
/* retry.c - MADs on their way out, and those that are sent until they are
 * answered (12.9.8.4, in words: after the peer's response timeout, as often as
 * it allows).
 *
 * Within the first timeout a MAD goes out again after 64 ms, 128 ms ..., or up to
 * half as long before: the timeout is seconds, as the peer's program may take so
 * long, and a loss must not.  A peer that has it already takes it for a duplicate.
 * Were these times not scattered, a thousand requests that were too many at once
 * would be so each time. */
#include <string.h>

#include "cm/cm_int.h"

static const uint64_t QUICK_NS = 64000000, LEAST_NS = 16000000;
static const uint64_t PATIENCE_NS = UINT64_C(600000000000);
enum { TIMEOUT_MAX = 21 }; /* 8.6 s */

uint64_t cm_interval(uint8_t n)
{
	return UINT64_C(4096) << (n & 31);
}

/* A MAD for slot's process is forwarded to it at first, and goes by the wire when it is
 * sent again. */
static void put(struct cm *cm, const struct cm_route *route, uint16_t slot,
		const uint8_t *mad)
{
	if (forward_to_peer(cm, slot, route, mad) || gsi_send(cm, route, mad) == 0)
		cm->counter[CM_TX]++;
	else
		cm->counter[CM_TX_FULL]++;
}

void send_mad(struct cm *cm, const struct cm_route *route, const struct cm_msg *m)
{
	uint8_t mad[MAD_LEN];

	cm_mad_build(mad, m);
	put(cm, route, id_slot(m->remote_id), mad);
}

void send_again(struct conn *c)
{
	c->cm->counter[CM_TX_AGAIN]++;
	put(c->cm, &c->route, 0, c->mad);
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
	(void)heap_set(&c->cm->timers, &c->timer, at); /* has room for all */
}

void send_until_answered(struct conn *c, const struct cm_msg *m, uint8_t timeout,
			 unsigned retries, uint64_t now)
{
	cm_mad_build(c->mad, m);
	c->peer_timeout = timeout;
	c->retries = retries;
	c->quick = QUICK_NS;
	c->full_at = now + try_ns(c);
	c->patience = now + PATIENCE_NS;
	put(c->cm, &c->route, id_slot(m->remote_id), c->mad);
	set_timer(c, now);
}

void answered(struct conn *c)
{
	heap_del(&c->cm->timers, &c->timer);
}

/* An MRA is about the program; what it answers may be lost, an RTU for good.  So
 * in between the peer is still asked, ever more rarely.  There is an end to it: a
 * peer cannot keep a connection half open for good. */
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
