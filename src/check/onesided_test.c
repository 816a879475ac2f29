/* SPDX-License-Identifier: BSD-2-Clause */
/* onesided_test.c - requests that meet in memory; race_test.c has the orders themselves.
 */
#include "check/fix.h"
#include "verbs/mr.h"

enum {
	KEY = 77,
	MEMORY = 8192,
	RKEY = 5,
	FAR = 0x40000,
	LEN = 256,
	OTHER_QPN = 0x223344
};

static uint8_t at[MEMORY];
static struct mr mr;
static struct qp second;
static uint64_t id;

static struct ibv_qp *qp_at(int i)
{
	return i ? &second.ex.qp_base : &fix.qp.ex.qp_base;
}

/* From `from' to FAR + to. Inline, so that each call is a place of its own. */
static inline __attribute__((always_inline)) void post(int qp, enum ibv_wr_opcode op,
						       unsigned from, unsigned to,
						       unsigned flags)
{
	struct ibv_sge sge = { (uintptr_t)at + from, LEN, KEY };
	struct ibv_send_wr *bad, wr = { .wr_id = ++id,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = op,
					.send_flags = flags };

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = FAR + to;
		wr.wr.atomic.rkey = RKEY;
	} else {
		wr.wr.rdma.remote_addr = FAR + to;
		wr.wr.rdma.rkey = RKEY;
	}
	assert_int_equal(ibv_post_send(qp_at(qp), &wr, &bad), fix.rc);
}

static void reap(int qp, uint64_t wr_id)
{
	struct ibv_wc wc;

	fix.wc[0] = (struct ibv_wc){
		.wr_id = wr_id,
		.opcode = IBV_WC_RDMA_WRITE,
		.qp_num = qp_at(qp)->qp_num,
	};
	fix.n = 1;
	assert_int_equal(ibv_poll_cq((struct ibv_cq *)&fix.cq.ex, 1, &wc), 1);
}

/* Both queue pairs begin anew, connected to QP dest of the peer at gid. */
static void connect_to(int qp, uint8_t gid, uint32_t dest)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET, .dest_qp_num = dest };
	struct qp *of = qp ? &second : &fix.qp;

	checks->modified(&of->live, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTR;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.dgid.raw[15] = gid;
	checks->modified(&of->live, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN);
}

static int begin(void **state)
{
	(void)state;
	connect_to(0, 1, 0x100001);
	connect_to(1, 1, 0x100002);
	memset(at, 0, sizeof(at));
	return 0;
}

#define WRITE(qp, to, flags) post(qp, IBV_WR_RDMA_WRITE, 0, to, flags)
#define RACES(call)	     FIX_FINDS("one-sided-race", call)

static void two_writes(void **state)
{
	(void)state;
	WRITE(0, 0, IBV_SEND_SIGNALED);
	RACES(WRITE(1, LEN - 1, 0));
	assert_non_null(strstr(fix.log, "meets the RDMA_WRITE of QP 0x123456"));
}

static void two_writes_in_order(void **state)
{
	(void)state;
	WRITE(0, 0, IBV_SEND_SIGNALED);
	reap(0, id);
	FIX_FINDS_NOTHING(WRITE(1, 0, 0));
}

static void other_memory(void **state)
{
	(void)state;
	WRITE(0, 0, 0);
	FIX_FINDS_NOTHING(WRITE(1, LEN, 0));
	connect_to(1, 2, 0x100002); /* another host */
	FIX_FINDS_NOTHING(WRITE(1, 0, 0));
}

static void a_peer_that_is_not_known(void **state)
{
	(void)state;
	fix_qp()->peer = 0;
	WRITE(0, 0, 0);
	FIX_FINDS_NOTHING(WRITE(1, 0, 0));
	FIX_FINDS_NOTHING(WRITE(0, 0, 0));
}

static void of_each_kind(void **state)
{
	(void)state;
	post(0, IBV_WR_RDMA_READ, LEN, 0, 0);
	RACES(WRITE(1, 0, 0));
	begin(state);
	WRITE(0, 0, 0);
	RACES(post(1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, LEN - 8, 0));
	begin(state);
	WRITE(0, 0, 0);
	RACES(post(1, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 0));
	FIX_FINDS_NOTHING(post(0, IBV_WR_SEND, 0, 0, 0));
}

static void messages_order(void **state)
{
	(void)state;
	WRITE(0, 0, 0);
	post(0, IBV_WR_SEND, 0, 0, 0);
	FIX_FINDS_NOTHING(WRITE(1, 0, 0));
	begin(state);
	WRITE(0, 0, 0);
	assert_int_equal(fix_recv(9), 0);
	fix_reap(9, IBV_WC_RECV, IBV_WC_SUCCESS);
	FIX_FINDS_NOTHING(WRITE(1, 0, 0));
	begin(state);
	WRITE(0, 0, 0);
	checks->wrote(at, 1, false);
	checks->wrote(at, 1, true);
	FIX_FINDS_NOTHING(WRITE(1, 0, 0));
}

/* What was refused was never done. */
static void refused(void **state)
{
	(void)state;
	fix.rc = EINVAL;
	WRITE(0, 0, 0);
	fix.rc = 0;
	FIX_FINDS_NOTHING(WRITE(1, 0, 0));
}

static void in_error(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	(void)state;
	WRITE(0, 0, 0);
	checks->modified(&fix.qp.live, &attr, IBV_QP_STATE);
	FIX_FINDS_NOTHING(WRITE(1, 0, 0));
}

/* --- buffer-read-early ----------------------------------------------------------------
 */

#define EARLY(call) FIX_FINDS("buffer-read-early", call)

static void an_answer_is_sent_on(void **state)
{
	(void)state;
	post(0, IBV_WR_RDMA_READ, 100, 0, IBV_SEND_SIGNALED);
	FIX_FINDS_NOTHING(post(0, IBV_WR_SEND, 100 + LEN, 0, 0));
	EARLY(post(0, IBV_WR_SEND, 0, 0, 0));
	assert_non_null(strstr(fix.log, "no IBV_SEND_FENCE"));
	EARLY(post(1, IBV_WR_RDMA_WRITE, 0, 4096, 0));
	assert_null(strstr(fix.log, "no IBV_SEND_FENCE"));
	FIX_FINDS_NOTHING(post(0, IBV_WR_SEND, 0, 0, IBV_SEND_FENCE));
	FIX_FINDS_NOTHING(post(0, IBV_WR_SEND, 0, 0, 0)); /* behind the fence */
}

static void an_answer_is_there(void **state)
{
	(void)state;
	post(0, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, IBV_SEND_SIGNALED);
	reap(0, id);
	FIX_FINDS_NOTHING(post(1, IBV_WR_SEND, 0, 0, 0));
}

/* --- announce-before-done -------------------------------------------------------------
 */

static void put(uint64_t v, unsigned where)
{
	memcpy(at + where, &v, sizeof(v));
}

#define ANNOUNCES(call) FIX_FINDS("announce-before-done", call)

static void a_send_names_the_place(void **state)
{
	uint64_t w;

	(void)state;
	put(FAR, 4);
	WRITE(0, 0, IBV_SEND_SIGNALED);
	w = id;
	FIX_FINDS_NOTHING(post(1, IBV_WR_SEND, 0, 0, 0)); /* not yet */
	ANNOUNCES(reap(0, w));
	put(__builtin_bswap64(FAR), 4);
	WRITE(0, 0, IBV_SEND_SIGNALED);
	w = id;
	post(1, IBV_WR_SEND, 0, 0, 0);
	ANNOUNCES(reap(0, w));
}

static void it_was_complete(void **state)
{
	(void)state;
	put(FAR, 0);
	WRITE(0, 0, IBV_SEND_SIGNALED);
	reap(0, id);
	post(1, IBV_WR_SEND, 0, 0, IBV_SEND_SIGNALED);
	WRITE(0, 4096, IBV_SEND_SIGNALED);
	FIX_FINDS_NOTHING(reap(0, id));
}

static void its_own_queue_tells(void **state)
{
	uint64_t w;

	(void)state;
	put(FAR, 0);
	WRITE(0, 0, IBV_SEND_SIGNALED);
	w = id;
	post(1, IBV_WR_SEND, 0, 0, 0);
	post(0, IBV_WR_SEND, 0, 0, 0);
	FIX_FINDS_NOTHING(reap(0, w));
}

static void other_peers_and_own_memory(void **state)
{
	uint64_t w;

	(void)state;
	put(FAR, 0);
	connect_to(1, 1, 0x500002); /* another process there */
	WRITE(0, 0, IBV_SEND_SIGNALED);
	w = id;
	post(1, IBV_WR_SEND, 0, 0, 0);
	FIX_FINDS_NOTHING(reap(0, w));
	begin(state);
	put((uintptr_t)at, 0); /* as in a symmetric heap */
	WRITE(0, (unsigned)((uintptr_t)at - FAR), IBV_SEND_SIGNALED);
	w = id;
	post(1, IBV_WR_SEND, 0, 0, 0);
	FIX_FINDS_NOTHING(reap(0, w));
}

/* --- the end --------------------------------------------------------------------------
 */

static void a_queue_ends(void **state)
{
	(void)state;
	WRITE(1, 0, 0);
	object_gone(&second.live, LIVE_QP);
	FIX_FINDS_NOTHING(WRITE(0, 0, 0));
}

static void make_second(void)
{
	second = fix.qp;
	memset(&second.live, 0, sizeof(second.live));
	second.qpn = second.ex.qp_base.qp_num = OTHER_QPN;
	object_made(&second.live, LIVE_QP);
	checks->ready(&second.live, LIVE_QP);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(two_writes),
		TEST(two_writes_in_order),
		TEST(other_memory),
		TEST(a_peer_that_is_not_known),
		TEST(of_each_kind),
		TEST(messages_order),
		TEST(refused),
		TEST(in_error),
		TEST(an_answer_is_sent_on),
		TEST(an_answer_is_there),
		TEST(a_send_names_the_place),
		TEST(it_was_complete),
		TEST(its_own_queue_tells),
		TEST(other_peers_and_own_memory),
		TEST(a_queue_ends), /* the last */
	};

	fix_open("one-sided-race,buffer-read-early,announce-before-done");
	make_second();
	mr.mkey = (struct mkey){
		.key = KEY, .base = (uintptr_t)at, .length = MEMORY, .host = at
	};
	object_made(&mr.live, LIVE_MR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
