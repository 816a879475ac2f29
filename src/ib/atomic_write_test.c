/* SPDX-License-Identifier: BSD-2-Clause */
/* ATOMIC WRITE (annex A19): 8 bytes in one step, answered as a READ of 0 bytes. */
#include "ib/fix.h"

#include "verbs/post.h"

static const struct way {
	const char *name;
	struct sim_conf conf;
} ways[] = {
	{ "IPv4", { 0 } },
	{ "IPv6", { .ipv6 = true } },
	{ "with loss", { .fault = "drop=0.1,dup=0.1,seed=8" } },
	{ "one host", { .same_host = true } },
	{ "one host, pipe only", { .same_host = true, .pipe_only = true } },
};

enum { AT = 4096 };

static struct ibv_send_wr request(struct fix *f, size_t at, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = {
		.wr_id = 5,
		.opcode = IBV_WR_ATOMIC_WRITE,
		.sg_list = sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};

	wr.wr.rdma.remote_addr = f->mr[1]->mkey.base + at;
	wr.wr.rdma.rkey = f->mr[1]->mkey.key;
	return wr;
}

static void write_value(struct fix *f, size_t at, uint64_t value)
{
	/* inline: the lkey is ignored, and the value may change at once */
	struct ibv_sge sge = { (uintptr_t)&value, sizeof(value), 0 };
	struct ibv_send_wr wr = request(f, at, &sge);

	sim_send(f->p.qp[0], &wr);
	value = 0;
}

static uint64_t word(const struct fix *f, int side, size_t at)
{
	uint64_t v;

	memcpy(&v, f->mem[side] + at, sizeof(v));
	return v;
}

static void values_arrive(struct fix *f)
{
	const uint8_t before = f->mem[1][AT - 1], behind = f->mem[1][AT + 8 * 40];

	for (uint64_t i = 0; i < 40; i++) {
		struct ibv_wc wc;

		write_value(f, AT + 8 * i, i * 0x0123456789abcdef);
		wc = fix_wc(f, 0, 5, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_ATOMIC_WRITE);
		assert_int_equal(word(f, 1, AT + 8 * i), i * 0x0123456789abcdef);
	}
	assert_int_equal(f->mem[1][AT - 1], before);
	assert_int_equal(f->mem[1][AT + 8 * 40], behind);
}

/* As many atomic writes as the peer takes at once, and READs that see those before
 * them. */
static void they_keep_their_order(struct fix *f)
{
	unsigned n = 0;

	for (uint64_t i = 1; i <= 30; i++) {
		write_value(f, AT, i);
		fix_post(f, IBV_WR_RDMA_READ, 6, AT, 8, 0);
		while (++n % 8 == 0 || i == 30) {
			struct ibv_wc wc;

			if (!sim_wait(f->s, f->p.cq[0], 100 * MS, &wc))
				break;
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
		}
	}
	assert_int_equal(word(f, 1, AT), 30);
	assert_int_equal(word(f, 0, AT), 30);
}

static void they_can_be_built(struct fix *f)
{
	struct qp *qp = f->p.qp[0];
	uint64_t value = 77;
	struct swqe *w;

	post_start(qp);
	qp->send_ops = IBV_QP_EX_WITH_ATOMIC_WRITE;
	qp->ex.wr_id = 9;
	qp->ex.wr_flags = IBV_SEND_SIGNALED;
	w = post_draft(qp, IBV_WR_ATOMIC_WRITE);
	assert_non_null(w);
	w->rkey = f->mr[1]->mkey.key;
	w->remote_addr = f->mr[1]->mkey.base + AT;
	post_value(qp, &value);
	value = 0;
	assert_int_equal(post_complete(qp), 0);
	due_add(qp->core, qp);
	fix_wc(f, 0, 9, IBV_WC_SUCCESS);
	assert_int_equal(word(f, 1, AT), 77);
}

static void refused(struct fix *f, enum ibv_wc_status status, int event)
{
	fix_wc(f, 0, 5, status);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	assert_int_equal(sim_event(f->s, 1), event);
}

static void odd_places_are_refused(struct fix *f)
{
	const uint64_t was = word(f, 1, AT);

	write_value(f, AT + 4, 1);
	refused(f, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(word(f, 1, AT), was);
}

static void rights_count(struct fix *f)
{
	f->p.qp[1]->attr.qp_access_flags &= ~(unsigned)IBV_ACCESS_REMOTE_WRITE;
	write_value(f, AT, 1);
	refused(f, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

static void keys_count(struct fix *f)
{
	uint64_t value = 1;
	struct ibv_sge sge = { (uintptr_t)&value, 8, 0 };
	struct ibv_send_wr wr = request(f, AT, &sge);

	wr.wr.rdma.rkey ^= 0xff;
	sim_send(f->p.qp[0], &wr);
	refused(f, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

static void they_count_as_atomics(struct fix *f)
{
	f->p.qp[1]->attr.max_dest_rd_atomic = 0;
	write_value(f, AT, 1);
	refused(f, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

static void who_may_send_none_sends_none(struct fix *f)
{
	f->p.qp[0]->attr.max_rd_atomic = 0;
	write_value(f, AT, 1);
	fix_wc(f, 0, 5, IBV_WC_LOC_QP_OP_ERR);
}

static void lengths_other_than_8_are_not_posted(struct fix *f)
{
	uint64_t value[2] = { 1, 2 };
	struct ibv_sge sge[2] = { { (uintptr_t)value, 7, 0 },
				  { (uintptr_t)value, 2, 0 } };
	struct ibv_send_wr wr = request(f, AT, sge), *bad;

	assert_int_equal(qp_post_send(f->p.qp[0], &wr, &bad), -EINVAL);
	wr.num_sge = 0;
	assert_int_equal(qp_post_send(f->p.qp[0], &wr, &bad), -EINVAL);
	wr.num_sge = -1;
	assert_int_equal(qp_post_send(f->p.qp[0], &wr, &bad), -EINVAL);
	wr.num_sge = 1;
	sge[0].length = 16;
	assert_int_equal(qp_post_send(f->p.qp[0], &wr, &bad), -EINVAL);
	wr.send_flags |= IBV_SEND_INLINE;
	assert_int_equal(qp_post_send(f->p.qp[0], &wr, &bad), -EINVAL);
	sge[0].length = 8;
	sim_send(f->p.qp[0], &wr);
	fix_wc(f, 0, 5, IBV_WC_SUCCESS);
	assert_int_equal(word(f, 1, AT), 1);
}

static void run(void (*test)(struct fix *f))
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct fix *f = fix_open(IBV_QPT_RC, &ways[i].conf);

		print_message("           %s\n", ways[i].name);
		test(f);
		fix_close(f);
	}
}

/* The response is lost: the duplicate does not overwrite what the peer's program has
 * written since. */
static void a_duplicate_writes_nothing(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_lose(f, 1, "READ_RESP_ONLY", 1);
	write_value(f, AT, 1);
	while (fix_count(f, 1, "READ_RESP_ONLY") == 0)
		assert_true(sim_step(f->s));
	assert_int_equal(word(f, 1, AT), 1);
	memset(f->mem[1] + AT, 0, 8);
	fix_wc(f, 0, 5, IBV_WC_SUCCESS);
	assert_int_equal(fix_count(f, 0, "ATOMIC_WRITE"), 2);
	assert_int_equal(word(f, 1, AT), 0);
	fix_close(f);
}

/* The packet is as the annex has it, and as rdma_rxe sends it. */
static void on_the_wire(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	const struct sim_packet *p;

	(void)state;
	write_value(f, AT, 3);
	fix_wc(f, 0, 5, IBV_WC_SUCCESS);
	p = fix_saw(f, 0, 0, "ATOMIC_WRITE", 0);
	assert_int_equal(p->f.opcode, 0x1d);
	assert_int_equal(p->f.dma_len, 8);
	assert_int_equal(p->payload, 8);
	p = fix_saw(f, 1, 1, "READ_RESP_ONLY", 0);
	assert_int_equal(p->payload, 0);
	fix_close(f);
}

#define TESTS                                                                            \
	X(values_arrive)                                                                 \
	X(they_keep_their_order)                                                         \
	X(they_can_be_built)                                                             \
	X(odd_places_are_refused)                                                        \
	X(rights_count)                                                                  \
	X(keys_count)                                                                    \
	X(they_count_as_atomics)                                                         \
	X(who_may_send_none_sends_none)                                                  \
	X(lengths_other_than_8_are_not_posted)

#define X(name)                                                                          \
	static void test_##name(void **state)                                            \
	{                                                                                \
		(void)state;                                                             \
		run(name);                                                               \
	}
TESTS
#undef X

int main(void)
{
	const struct CMUnitTest tests[] = {
#define X(name) cmocka_unit_test(test_##name),
		TESTS
#undef X
			cmocka_unit_test(a_duplicate_writes_nothing),
		cmocka_unit_test(on_the_wire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
