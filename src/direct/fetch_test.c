/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that long SENDs come from, mapped by their receiver: B sends, A fetches. The
 * mapping gives A no right that the region does not. */
#include "direct/shared_fix.h"

enum { LONG = 40000, LOCAL = IBV_ACCESS_LOCAL_WRITE };

/* B sends LONG bytes of its file to the beginning of A's memory. */
static void send_long(struct shared *s, uint64_t id)
{
	struct ibv_sge from = sim_sge(s->mr, 11, LONG),
		       to = sim_sge(s->f->mr[0], 0, LONG);
	struct ibv_send_wr wr = { .wr_id = id,
				  .opcode = IBV_WR_SEND,
				  .sg_list = &from,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	sim_recv(s->f->p.qp[0], id, &to, 1);
	sim_send(s->f->p.qp[1], &wr);
}

static void comes(struct shared *s, uint64_t id)
{
	assert_int_equal(fix_wc(s->f, 0, id, IBV_WC_SUCCESS).byte_len, LONG);
	fix_wc(s->f, 1, id, IBV_WC_SUCCESS);
	assert_memory_equal(s->f->mem[0], s->at + 11, LONG);
}

static struct shared fetched_often(void)
{
	struct shared s = share(LOCAL, MAP_SHARED);

	for (size_t i = 0; i < LEN; i++)
		s.at[i] = (uint8_t)(i * 13 + i / 255);
	for (uint64_t i = 0; i < USES; i++) {
		send_long(&s, i);
		comes(&s, i);
		fix_quiet(s.f);
	}
	assert_non_null(map_of(&s));
	return s;
}

static uint64_t fetched(const struct shared *s)
{
	return pair_peer(s->f, 0)->lane.direct;
}

static void the_same_bytes(void **state)
{
	struct shared s = fetched_often();
	uint64_t before = fetched(&s);

	(void)state;
	memset(s.at, 0x5a, LEN);
	send_long(&s, 1);
	comes(&s, 1);
	assert_int_equal(fetched(&s), before + 2); /* the third packet is short */
	unshare_(&s);
}

/* What is mapped to be sent from is not for WRITEs, READs and atomics. */
static void it_grants_no_access(void **state)
{
	static const enum ibv_wr_opcode op[] = {
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(op) / sizeof(op[0]); i++) {
		struct shared s = fetched_often();

		s.at[0] = 1;
		s.f->mem[0][100] = 2;
		post(&s, op[i], 1, 100, 0, 8);
		fix_wc(s.f, 0, 1, IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(s.at[0], 1);
		assert_int_equal(s.f->mem[0][100], 2);
		unshare_(&s);
	}
}

/* B truncates its file: its SEND fails by B's own fault, and A's receive stays. */
static void a_file_that_is_truncated(void **state)
{
	struct shared s = fetched_often();

	(void)state;
	assert_int_equal(ftruncate(s.fd, 0), 0);
	send_long(&s, 1);
	fix_wc(s.f, 1, 1, IBV_WC_LOC_PROT_ERR);
	fix_no_wc(s.f, 0);
	assert_int_equal(s.f->p.qp[0]->state, IBV_QPS_RTS);
	unshare_(&s);
}

/* Another region takes the place of one that has gone: its bytes come, not those of the
 * old mapping. */
static void another_region_at_its_place(void **state)
{
	struct shared s = fetched_often();
	uint8_t *other = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	memset(other, 0x77, LEN);
	assert_int_equal(mr_dereg(s.mr), 0);
	munmap(s.at, LEN);
	s.at = other;
	s.mr = sim_mr(s.f->s, 1, other, LEN, LOCAL);
	send_long(&s, 1);
	comes(&s, 1);
	unshare_(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_bytes),
		cmocka_unit_test(it_grants_no_access),
		cmocka_unit_test(a_file_that_is_truncated),
		cmocka_unit_test(another_region_at_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
