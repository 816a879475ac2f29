/* SPDX-License-Identifier: BSD-2-Clause */
/* What a QP tells its peer's process of how it was set up. */
#include "shm/fix.h"
#include "sys/checks.h"

static struct {
	unsigned n;
	uint32_t qpn, peer;
	struct check_end end;
} heard;

static void note_end(uint32_t qpn, uint32_t peer, const struct check_end *its)
{
	heard.n++;
	heard.qpn = qpn;
	heard.peer = peer;
	heard.end = *its;
}

static bool say_end(uint32_t qpn, struct check_end *its)
{
	*its = (struct check_end){ .sq_psn = qpn, .sends = true };
	return true;
}

static const struct check_hooks hooks = { .end = say_end, .meets = note_end };

static struct fix *listen_to_pair(enum ibv_qp_type type)
{
	struct fix *f = pair_open(type, NULL);

	memset(&heard, 0, sizeof(heard));
	checks_ends = true;
	checks = &hooks;
	return f;
}

static void leave_pair(struct fix *f)
{
	checks_ends = false;
	checks = NULL;
	fix_close(f);
}

static void the_later_one_is_heard(void **state)
{
	struct fix *f = listen_to_pair(IBV_QPT_RC);

	(void)state;
	f->conf.psn[0] = 0x123;
	f->conf.psn[1] = 0x456;
	fix_modify(f, 0, IBV_QPS_RESET);
	pair_again(f, 1); /* 0 is not ready */
	fix_quiet(f);
	assert_int_equal(heard.n, 0);
	pair_again(f, 0);
	fix_quiet(f);
	assert_int_equal(heard.n, 1);
	assert_int_equal(heard.qpn, f->p.qp[1]->qpn);
	assert_int_equal(heard.peer, f->p.qp[0]->qpn);
	assert_true(heard.end.sends);
	assert_int_equal(heard.end.sq_psn, f->p.qp[0]->qpn);
	leave_pair(f);
}

/* UC has one, too, but neither READs nor an order to keep. */
static void unreliable_ones_say_nothing(void **state)
{
	struct fix *f = listen_to_pair(IBV_QPT_UC);

	(void)state;
	pair_again(f, 0);
	fix_quiet(f);
	assert_int_equal(heard.n, 0);
	leave_pair(f);
}

static void write_end(struct fix *f, uint32_t len)
{
	struct core *core = &f->s->node[0].core;
	struct peer *p = pair_peer(f, 0);
	struct rec *r;

	turn_take(&core->turn);
	r = ring_reserve(&p->out, REC_HEAD + len);
	assert_non_null(r);
	memset(r, 0xff, REC_HEAD + len);
	r->kind = REC_END;
	r->flags = 0;
	r->dst = f->p.qp[1]->qpn;
	ring_publish(&p->out, r, REC_HEAD + len);
	peer_wrote(p);
	peers_flush(peers_of(core));
	turn_give(&core->turn);
	pair_run(f, 1000000);
}

/* Of a QP that is not the peer's; and what no urnic writes. */
static void hostile_ones(void **state)
{
	struct fix *f = listen_to_pair(IBV_QPT_RC);

	(void)state;
	write_end(f, sizeof(struct check_end));
	assert_int_equal(heard.n, 0);
	assert_int_equal(pair_peer(f, 1)->state, PEER_UP);
	write_end(f, 4);
	assert_int_not_equal(pair_peer(f, 1)->state, PEER_UP);
	leave_pair(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_later_one_is_heard),
		cmocka_unit_test(unreliable_ones_say_nothing),
		cmocka_unit_test(hostile_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
