/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault_judge.h"

#include <stdio.h>
#include <string.h>

#include "net/ip_addr.h"
#include "net/lid_addr.h"
#include "wire/aeth.h"
#include "wire/ib_hdr.h"
#include "wire/ib_opcode.h"

#define SECOND 1000000000ull

void fault_judge_init(struct fault_judge *j, const struct fault_spec *spec, int dir)
{
	*j = (struct fault_judge){ .spec = spec, .dir = dir };
	for (unsigned g = 0; g < FAULT_GROUPS_MAX; g++)
		rand_seed(&j->now.group[g].rng,
			  spec->seed + ((uint64_t)dir << 32) + ((uint64_t)g << 40));
}

/* --- for whom a group is ------------------------------------------------------------ */

static const struct bth *bth_of(const struct dgram *d)
{
	return d->iovcnt && d->iov[0].iov_len >= sizeof(struct bth) ? d->iov[0].iov_base
								    : NULL;
}

static unsigned ack_op(const struct dgram *d)
{
	const struct aeth *a =
		(const void *)((const uint8_t *)d->iov[0].iov_base + sizeof(struct bth));

	if (d->iov[0].iov_len < sizeof(struct bth) + sizeof(*a))
		return FAULT_ACK;
	switch (aeth_type(a->syndrome)) {
	case AETH_NAK:
		return FAULT_NAK;
	case AETH_RNR_NAK:
		return FAULT_RNR;
	case AETH_ACK:
	case AETH_RESERVED:
		break;
	}
	return FAULT_ACK;
}

static unsigned op_of(const struct dgram *d, const struct bth *bth)
{
	const struct ib_op *op = ib_op(bth->opcode);

	if (get_be24(bth->dest_qp) == 1)
		return FAULT_MAD;
	if (!op)
		return 0;
	switch ((enum ib_kind)op->kind) {
	case IB_SEND:
		return FAULT_SEND;
	case IB_WRITE:
		return FAULT_WRITE;
	case IB_READ:
		return FAULT_READ;
	case IB_CMP_SWAP:
	case IB_FETCH_ADD:
	case IB_ATOMIC_WRITE:
		return FAULT_ATOMIC;
	case IB_FLUSH:
		return FAULT_FLUSH;
	case IB_READ_RESP:
	case IB_ATOMIC_RESP:
		return FAULT_RESPONSE;
	case IB_ACK:
		return ack_op(d);
	case IB_CONGESTION:
		return FAULT_CNP;
	case IB_KINDS:
		break;
	}
	return 0;
}

static bool is_of_qp(const struct fault_judge *j, uint32_t qp, const struct dgram *d,
		     const struct bth *bth)
{
	return get_be24(bth->dest_qp) == qp ||
	       (j->dir == FAULT_TX && j->sends && j->sends(j->arg, qp, d));
}

static bool is_of_peer(const struct fault_judge *j, const struct fault_group *g,
		       const struct dgram *d)
{
	const bool tx = j->dir == FAULT_TX;
	const struct lid_addr *a = lid_addr(&d->addr);

	if (g->has_lid)
		return j->by_lid && (tx ? a->dlid : a->slid) == g->lid;
	if (j->by_lid)
		return a->grh && memcmp(tx ? a->dgid : a->sgid, g->ip, 16) == 0;
	return memcmp(tx ? ip_of(d)->to.ip : ip_of(d)->from.ip, g->ip, 16) == 0;
}

static bool is_time(const struct fault_group *g, uint64_t since)
{
	if (since < g->at)
		return false;
	since -= g->at;
	if (g->every)
		since %= g->every;
	return !g->len || since < g->len;
}

static bool is_for(const struct fault_judge *j, const struct fault_group *g,
		   const struct dgram *d, uint64_t since)
{
	const struct bth *bth = bth_of(d);

	if (!is_time(g, since) || ((g->has_ip || g->has_lid) && !is_of_peer(j, g, d)))
		return false;
	if ((g->has_qp || g->ops) && !bth)
		return false;
	return (!g->ops || (g->ops & op_of(d, bth))) &&
	       (!g->has_qp || is_of_qp(j, g->qp, d, bth));
}

/* --- what befalls it ------------------------------------------------------------------
 */

static bool is_nth(const struct fault_rules *r, uint64_t count)
{
	for (int i = 0; i < FAULT_NTH_MAX && r->nth[i]; i++)
		if (r->nth[i] == count)
			return true;
	return false;
}

/* A datagram is lost or not by the state that it finds. */
static bool is_lost_in_burst(const struct fault_rules *r, struct prng *rng, bool *bad)
{
	bool lost = rand_chance(rng, *bad ? r->burst.lost_bad : r->burst.lost_good);

	if (rand_chance(rng, *bad ? r->burst.to_good : r->burst.to_bad))
		*bad = !*bad;
	return lost;
}

static uint64_t delay_of(const struct fault_rules *r, struct prng *rng)
{
	return r->jitter_ns ? r->delay_ns - r->jitter_ns +
				      rand_below(rng, 2 * r->jitter_ns + 1)
			    : r->delay_ns;
}

static unsigned draw_fate(const struct fault_rules *r, struct prng *rng)
{
	unsigned what = 0;

	what |= rand_chance(rng, r->drop) ? FAULT_DROP : 0;
	what |= rand_chance(rng, r->dup) ? FAULT_DUP : 0;
	what |= rand_chance(rng, r->reorder) ? FAULT_REORDER : 0;
	what |= rand_chance(rng, r->delay) ? FAULT_DELAY : 0;
	what |= rand_chance(rng, r->corrupt) ? FAULT_CORRUPT : 0;
	what |= rand_chance(rng, r->ecn) ? FAULT_ECN : 0;
	return what;
}

static uint64_t time_of(const struct fault_rules *r, uint64_t bytes)
{
	return (uint64_t)((unsigned __int128)bytes * 8 * SECOND / r->rate);
}

/* A bucket that holds one datagram: each goes when the rate has let those before it
 * through.  Returns false if too many bytes wait. */
static bool pass_rate(const struct fault_rules *r, uint64_t *free_at, uint32_t len,
		      uint64_t now, uint64_t *due)
{
	uint64_t start = *free_at > now ? *free_at : now;

	if (start - now > time_of(r, r->queue))
		return false;
	*free_at = start + time_of(r, len);
	*due = start;
	return true;
}

static void judge_group(struct fault_judge *j, unsigned n, uint64_t now,
			struct fault_fate *f)
{
	const struct fault_rules *r = &j->spec->group[n].rules[j->dir];
	uint64_t *seen = &j->now.group[n].seen;
	struct prng *rng = &j->now.group[n].rng;
	unsigned what = draw_fate(r, rng);
	uint64_t delay = r->delay ? delay_of(r, rng) : 0;

	++*seen;
	if ((r->burst.to_bad || r->burst.lost_good) &&
	    is_lost_in_burst(r, rng, &j->now.group[n].bad))
		what |= FAULT_DROP;
	if (is_nth(r, *seen))
		what |= FAULT_DROP;
	if (what & FAULT_DELAY && now + delay > f->due)
		f->due = now + delay;
	f->what |= what;
	if (what)
		f->group = n + 1;
}

/* What is lost before takes nothing of the rate; delays begin behind it. */
static void judge_rate(struct fault_judge *j, unsigned n, const struct dgram *d,
		       uint64_t now, struct fault_fate *f)
{
	const struct fault_rules *r = &j->spec->group[n].rules[j->dir];
	uint64_t due;

	if (!r->rate || f->what & FAULT_DROP)
		return;
	if (!pass_rate(r, &j->now.group[n].free_at, d->len, now, &due)) {
		f->what = FAULT_DROP | FAULT_FULL;
		f->group = n + 1;
		return;
	}
	if (due == now)
		return;
	f->group = n + 1;
	f->due = (f->due > now ? f->due : now) + (due - now);
	f->what |= FAULT_SLOW;
}

static void judge_events(struct fault_judge *j, const struct dgram *d,
			 struct fault_fate *f)
{
	const struct bth *bth = bth_of(d);
	const struct fault_flow *flow;

	if (!(j->spec->events || j->counts) || !bth)
		return;
	flow = fault_flow_step(&j->flows, bth, &j->now.step);
	if (flow) {
		f->qp = flow->qp;
		f->psn = flow->last;
		f->iteration = flow->iteration;
		f->response = flow->response;
	}
	for (unsigned i = 0; flow && i < j->spec->events; i++) {
		const struct fault_event *e = &j->spec->event[i];

		if ((j->dir == FAULT_TX ? e->not_tx : e->not_rx) ||
		    !fault_event_hits(e, flow))
			continue;
		f->what |= e->what;
		f->event = i + 1;
	}
}

struct fault_fate fault_judge(struct fault_judge *j, const struct dgram *d, uint64_t now,
			      uint64_t since)
{
	bool hit[FAULT_GROUPS_MAX] = { false };
	struct fault_fate f = { 0 };

	j->now.seen++;
	j->now.step = (struct fault_step){ 0 };
	judge_events(j, d, &f);
	for (unsigned n = 0; n < j->spec->groups; n++) {
		hit[n] = is_for(j, &j->spec->group[n], d, since);
		if (hit[n])
			judge_group(j, n, now, &f);
	}
	for (unsigned n = 0; n < j->spec->groups; n++)
		if (hit[n])
			judge_rate(j, n, d, now, &f);
	if (f.what & FAULT_DROP)
		f.what &= FAULT_DROP | FAULT_FULL;
	else if (f.what & (FAULT_DELAY | FAULT_SLOW))
		f.what &= ~(unsigned)FAULT_REORDER;
	return f;
}

void fault_judge_undo(struct fault_judge *j, const struct fault_state *was)
{
	fault_flow_back(&j->flows, &j->now.step);
	j->now = *was;
}

void fault_words(char *to, size_t size, unsigned what)
{
	static const char *const done[] = {
		"dropped",   "duplicated", "reordered",	       "delayed",
		"corrupted", "marked",	   "held by the rate", "beyond the rate's queue",
	};
	size_t n = 0;

	*to = '\0';
	for (unsigned i = 0; i < sizeof(done) / sizeof(done[0]); i++)
		if (what & 1u << i && n < size)
			n += (size_t)snprintf(to + n, size - n, "%s%s", n ? ", " : "",
					      done[i]);
}

void fault_note(char *to, size_t size, const struct fault_fate *fate)
{
	static const char *const names[] = {
		"drop", "dup", "reorder", "delay", "corrupt", "ecn", "rate", "full",
	};
	const char *sep = "fault=";
	size_t n = 0;

	*to = '\0';
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!(fate->what & 1u << i) || n >= size)
			continue;
		n += (size_t)snprintf(to + n, size - n, "%s%s", sep, names[i]);
		sep = ",";
	}
	if (fate->event && n < size)
		n += (size_t)snprintf(to + n, size - n, " event=%u", fate->event);
	if (fate->group && n < size)
		n += (size_t)snprintf(to + n, size - n, " group=%u", fate->group);
	if (fate->iteration && n < size)
		snprintf(to + n, size - n, " qp=0x%06x psn=%u iteration=%u%s", fate->qp,
			 fate->psn, fate->iteration, fate->response ? " response" : "");
}
