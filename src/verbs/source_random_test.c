/* SPDX-License-Identifier: BSD-2-Clause */
/* source_random_test.c - a source and a peer that loses, repeats and forgets at random:
 * every request completes once, in order, and not before the peer has executed it and its
 * answer was placed. A seed repeats a run: sys/seeds_testing.h. */
#include "verbs/source.h"

#include "sys/rand.h"
#include "sys/seeds_testing.h"
#include "verbs/qp_fixture.h"

enum {
	NOW = 5,
	REQUESTS = 200, /* of a run */
	PARTS = 4,	/* most numbers of a request */
	BATCH = 6,
	READS = 3, /* outstanding */
	QUEUE = 64,
};

/* What goes from one end to the other: number psn, part `part` of request `index`. */
struct note {
	uint32_t psn, index, part;
	bool read;
};

struct notes {
	struct note v[QUEUE];
	unsigned n;
};

struct world {
	struct prng r;
	struct fix *f;
	struct qp *qp;
	struct send_source s;
	struct send_cursor at;
	uint32_t end[READS + 1]; /* of READ i % (READS + 1): the number behind it */
	struct {
		uint32_t parts, executed, placed;
		bool read, bad, direct;
	} req[REQUESTS];
	uint32_t posted, ended;
	struct notes out, back; /* requests; answers to READs */
	uint32_t expected;	/* the peer's, */
	uint32_t index, part;	/* of the request that it expects */
	bool failed, loses;
};

static bool chance(struct world *w, unsigned of_100)
{
	return rand_below(&w->r, 100) < of_100;
}

static void push(struct world *w, struct notes *to, struct note n)
{
	if (to->n < QUEUE && !(w->loses && chance(w, 10)))
		to->v[to->n++] = n;
}

static struct note pop(struct notes *from)
{
	const struct note n = from->v[0];

	memmove(from->v, from->v + 1, --from->n * sizeof(n));
	return n;
}

/* --- what holds between two calls ------------------------------------------------ */

static void check(const struct world *w)
{
	struct qp *qp = w->qp;
	const struct send_cursor *at = &w->at;
	uint32_t next =
		at->fresh == qp->sq.tail ? at->psn : sq_at(&qp->sq, qp->sq.tail)->psn;

	assert_true(at->cur - qp->sq.tail <= at->fresh - qp->sq.tail);
	assert_true(at->fresh - qp->sq.tail <= qp->sq.head - qp->sq.tail);
	assert_true(psn_off(at->psn, w->s.una) <= psn_off(at->max_psn, w->s.una));
	assert_true(at->reads - w->s.answered <= READS);
	if (at->fresh == qp->sq.tail)
		assert_int_equal(w->s.una, at->psn);
	for (uint32_t i = qp->sq.tail; i != at->fresh; i++) {
		const struct swqe *e = sq_at(&qp->sq, i);

		assert_int_equal(e->psn, next);
		next = psn_add(next, e->npkts);
		if (i == qp->sq.tail)
			assert_true(psn_off(w->s.una, e->psn) < e->npkts);
		if (i == at->cur)
			assert_true(psn_off(at->psn, e->psn) < e->npkts);
	}
	if (at->cur == at->fresh)
		assert_int_equal(at->psn, next);
}

/* --- the source ------------------------------------------------------------------- */

static void post(struct world *w)
{
	const uint32_t i = w->posted;
	struct ibv_send_wr wr = { .wr_id = i }, *bad;

	if (i == REQUESTS || w->qp->sq.head == sq_end(&w->qp->sq))
		return;
	w->req[i].parts = 1 + (uint32_t)rand_below(&w->r, PARTS);
	w->req[i].read = chance(w, 30);
	w->req[i].direct = !w->req[i].read && chance(w, 10);
	w->req[i].bad = w->loses && chance(w, 1);
	wr.opcode = w->req[i].read ? IBV_WR_RDMA_READ : IBV_WR_SEND;
	wr.send_flags = IBV_SEND_SIGNALED | (chance(w, 20) ? IBV_SEND_FENCE : 0);
	assert_int_equal(qp_post_send(w->qp, &wr, &bad), 0);
	w->posted++;
}

static void end(struct world *w)
{
	qp_is_held(w->qp);
	send_end(w->qp, &w->s, &w->at, w->s.fail_status, w->s.fail_verr, NOW);
	qp_fail(w->qp, false, -1, NOW);
	w->failed = true;
	send_stop(w->qp, &w->s, &w->at);
}

/* Plans what may be sent from c on; the peer gets as much of it as the link takes. */
static void output(struct world *w)
{
	static const struct send_limits limits = { .reads = READS, .bytes = 100 };
	struct send_cursor c = w->at, after[BATCH];
	struct qp *qp = w->qp;
	struct note plan[BATCH];
	unsigned n = 0, took;

	qp_is_held(qp);
	while (n < BATCH && send_any(qp, &w->s, &c)) {
		struct swqe *e = sq_at(&qp->sq, c.cur);
		const uint32_t i = c.cur;

		if (!send_has_begun(&c)) {
			if (send_may(qp, &w->s, &c, e, &limits) != SEND_GO)
				break;
			if (w->req[i].bad) {
				if (!n)
					send_refuse(&w->s, IBV_WC_LOC_PROT_ERR,
						    VERR_LOCAL_KEY);
				break;
			}
			if (w->req[i].direct) {
				if (n || qp->sq.tail != i)
					break;
				send_skip(&w->at);
				w->req[i].executed = w->req[i].parts;
				sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE, NOW);
				c = w->at;
				continue;
			}
			send_begin(&c, e, w->req[i].parts);
		}
		if (w->req[i].read) {
			if (!send_may_read(&w->s, &c, &limits))
				break;
			w->end[c.reads++ % (READS + 1)] = psn_add(c.psn, 1);
		}
		plan[n] =
			(struct note){ c.psn, i, psn_off(c.psn, e->psn), w->req[i].read };
		send_move(&w->s, &c, e, 1);
		after[n++] = c;
	}
	took = (unsigned)rand_below(&w->r, n + 1);
	for (unsigned k = 0; k < took; k++)
		push(w, &w->out, plan[k]);
	if (took)
		w->at = after[took - 1];
}

static void back(struct world *w)
{
	uint32_t to = w->s.una;

	to = psn_add(to, (uint32_t)rand_below(&w->r, psn_off(w->at.psn, to) + 1));
	if (!send_rewind(w->qp, &w->s, &w->at, to))
		return;
	while (w->at.reads != w->s.answered &&
	       psn_diff(w->end[(w->at.reads - 1) % (READS + 1)], to) > 0)
		w->at.reads--;
}

/* Everything before number `to` was executed. Returns whether no answer is missing. */
static bool advance(struct world *w, uint32_t to)
{
	const uint32_t start = w->s.una;
	struct send_part part;

	qp_is_held(w->qp);
	while (send_part(w->qp, &w->s, &w->at, to, &part))
		assert_true(send_took(w->qp, &w->s, &part, NOW));
	while (w->s.answered != w->at.reads &&
	       psn_diff(w->end[w->s.answered % (READS + 1)], w->s.una) <= 0)
		w->s.answered++;
	if (w->s.una != start)
		send_caught_up(w->qp, &w->s, &w->at, start);
	return !part.missing;
}

static void hear_ack(struct world *w)
{
	const uint32_t n = psn_off(w->expected, w->s.una);

	/* what was acknowledged long ago, or by what has been answered */
	if (n > psn_off(w->at.max_psn, w->s.una) || advance(w, w->expected))
		return;
	if (chance(w, 50))
		back(w);
}

static void hear_answer(struct world *w, struct note n)
{
	struct qp *qp = w->qp;

	if (psn_off(n.psn, w->s.una) >= psn_off(w->at.max_psn, w->s.una))
		return;
	if (!advance(w, n.psn)) /* an earlier answer was lost */
		return;
	if (n.psn != w->s.una)
		return;
	assert_int_equal(n.index, qp->sq.tail);
	sq_at(&qp->sq, n.index)->done++;
	w->req[n.index].placed++;
	assert_true(advance(w, psn_add(n.psn, 1)));
}

/* --- the peer ---------------------------------------------------------------------- */

static void execute(struct world *w, struct note n)
{
	if (psn_diff(n.psn, w->expected) > 0)
		return; /* something before it is lost */
	if (n.psn == w->expected) {
		while (w->req[w->index].direct)
			w->index++;
		assert_int_equal(n.index, w->index);
		assert_int_equal(n.part, w->part);
		w->req[w->index].executed++;
		w->expected = psn_add(w->expected, 1);
		if (++w->part == w->req[w->index].parts) {
			w->index++;
			w->part = 0;
		}
	}
	if (n.read)
		push(w, &w->back, n);
}

/* --- a run -------------------------------------------------------------------------- */

static void poll(struct world *w)
{
	struct ibv_wc wc;

	while (cq_poll(w->f->scq, 1, &wc) == 1) {
		const uint32_t i = w->ended++;

		assert_int_equal(wc.wr_id, i);
		if (wc.status == IBV_WC_SUCCESS) {
			assert_int_equal(w->req[i].executed, w->req[i].parts);
			if (w->req[i].read)
				assert_int_equal(w->req[i].placed, w->req[i].parts);
		} else if (wc.status == IBV_WC_LOC_PROT_ERR) {
			assert_true(w->req[i].bad);
		} else {
			assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
			assert_true(w->failed);
		}
	}
}

static void step(struct world *w)
{
	switch (rand_below(&w->r, 6)) {
	case 0:
		post(w);
		break;
	case 1:
		output(w);
		break;
	case 2:
		if (w->out.n)
			execute(w, pop(&w->out));
		break;
	case 3:
		if (w->back.n)
			hear_answer(w, pop(&w->back));
		break;
	case 4:
		if (chance(w, 20))
			hear_ack(w);
		break;
	case 5:
		if (chance(w, w->loses ? 5 : 2))
			back(w);
		break;
	}
	if (send_fails(w->qp, &w->s, &w->at))
		end(w);
	if (!w->failed)
		check(w);
	poll(w);
}

/* Returns whether the QP has failed. */
static bool run(uint64_t seed)
{
	struct world *w = test_calloc(1, sizeof(*w));
	uint32_t first;
	bool failed;

	rand_seed(&w->r, seed);
	w->f = fix_open(64);
	w->qp = fix_qp(w->f, IBV_QPT_RC);
	fix_bring(w->qp, IBV_QPS_RTS);
	first = chance(w, 50) ? PSN_MASK - (uint32_t)rand_below(&w->r, 100) : 0;
	send_reset(w->qp, &w->s, &w->at, first);
	w->expected = first;
	w->loses = true;
	for (int i = 0; i < 4000 && !w->failed; i++)
		step(w);
	w->loses = false;
	for (int i = 0; i < 400000 && w->ended != w->posted; i++)
		step(w);
	assert_int_equal(w->ended, w->posted);
	failed = w->failed;
	assert_int_equal(qp_destroy(w->qp), 0);
	fix_close(w->f);
	test_free(w);
	return failed;
}

static void at_random(void **state)
{
	const struct seeds s = seeds_chosen(200);
	unsigned failed = 0;

	(void)state;
	for (uint64_t seed = s.first; seed <= s.last; seed++) {
		seed_show(seed);
		failed += run(seed);
	}
	if (s.all)
		assert_in_range(failed, 1, s.last - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(at_random) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
