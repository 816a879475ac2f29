/* SPDX-License-Identifier: BSD-2-Clause */
/* The whole NIC with iWARP QPs that are joined by TCP over loopback, driven by a polling
 * program or by the engine thread alone. */
#include "driver/conn_fix.h"
#include "driver/nic_own.h"
#include "verbs/await.h"

static void until_ended(const struct world *w, unsigned n)
{
	while (w->ended < n)
		sched_yield();
	assert_int_equal(w->ended, n);
}

/* Waits until the engine's thread has nothing to do. */
static void until_it_sleeps(void)
{
	while (!others_sleep())
		sched_yield();
}

static void work(bool polls, bool crc)
{
	struct world *w = open_world();

	connect_pair(w, 0, crc);
	for (uint64_t id = 1; id <= 5; id++) {
		uint32_t len = id == 5 ? MEM - 4096 : (uint32_t)(id * 3000);

		memset(w->mem[1], 0, MEM);
		post_recv(w, 0, 100, 0, 0);
		post(w, 0, IBV_WR_RDMA_WRITE, id, 64, len);
		post(w, 0, IBV_WR_SEND, 50, 0, 0);
		assert_int_equal(wait_wc(w, 0, 1, 100, polls).status, IBV_WC_SUCCESS);
		assert_memory_equal(w->mem[0] + 64, w->mem[1] + 64, len);
		assert_int_equal(wait_wc(w, 0, 0, id, polls).status, IBV_WC_SUCCESS);
		assert_int_equal(wait_wc(w, 0, 0, 50, polls).status, IBV_WC_SUCCESS);
		w->mem[1][64] ^= 1;
		post(w, 0, IBV_WR_RDMA_READ, 60, 64, len);
		assert_int_equal(wait_wc(w, 0, 0, 60, polls).status, IBV_WC_SUCCESS);
		assert_memory_equal(w->mem[0] + 64, w->mem[1] + 64, len);
	}
	close_world(w);
}

static void a_program_that_polls(void **state)
{
	(void)state;
	work(true, false);
	work(true, true);
}

static void the_thread_alone(void **state)
{
	(void)state;
	work(false, false);
	work(false, true);
}

/* More connections than the engine reads one by one. */
/* A connection that stays empty is looked at rarely, but not where everything that has
 * come must be taken in. */
static void one_that_rests_is_heard(void **state)
{
	struct world *w = open_world();
	const uint64_t now = nic_now();
	int first, second;
	struct source *conns;

	(void)state;
	first = connect_stranger(w, 0);
	second = connect_stranger(w, 1);
	turn_take(&w->ctx.core->turn);
	for (int i = 0; i < 100; i++)
		(void)conns_input(w->nic->conns, now);
	close(second);
	/* The FIN comes within close(), by loopback. */
	assert_int_equal(conns_input(w->nic->conns, now), 0);
	conns = conns_source(w->nic->conns);
	assert_int_equal(conns->ops->input(conns, SOURCE_ALL, NULL, now), 1);
	turn_give(&w->ctx.core->turn);
	close(first);
	until_ended(w, 2);
	close_world(w);
}

static void many_connections(void **state)
{
	struct world *w = open_world();

	(void)state;
	for (int p = 0; p < PAIRS; p++)
		connect_pair(w, p, false);
	for (uint64_t round = 0; round < 3; round++) {
		for (int p = 0; p < PAIRS; p++)
			post_recv(w, p, 100 + round, (size_t)p * 200000, 200000);
		for (int p = 0; p < PAIRS; p++)
			post(w, p, IBV_WR_SEND, round, (size_t)p * 200000, 200000);
		for (int p = 0; p < PAIRS; p++) {
			wait_wc(w, p, 1, 100 + round, round & 1);
			wait_wc(w, p, 0, round, round & 1);
		}
		assert_memory_equal(w->mem[0], w->mem[1], PAIRS * 200000);
	}
	close_world(w);
}

static void kicked(void *arg)
{
	++*(int *)arg;
}

/* Without a connection there is no descriptor to watch. */
static void no_connection(void **state)
{
	struct conns *cs;
	struct core core;
	int kicks = 0;

	(void)state;
	assert_int_equal(core_init(&core, 1), 0);
	assert_int_equal(conns_open(&cs, &core, kicked, &kicks), 0);
	assert_int_equal(conns_fd(cs), -1);
	assert_false(conns_input(cs, 1));
	conns_close(cs);
	core_fini(&core);
	assert_int_equal(kicks, 0);
}

/* One QP goes to ERR: its peer is flushed, and other connections go on. */
static void one_ends(void **state)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	struct world *w = open_world();

	(void)state;
	connect_pair(w, 0, false);
	connect_pair(w, 1, false);
	post_recv(w, 0, 100, 0, 10);
	assert_int_equal(qp_modify(w->qp[0][0], &a, IBV_QP_STATE, nic_now()), 0);
	nic_post(w->nic, w->qp[0][0], false);
	assert_int_equal(wait_wc(w, 0, 1, 100, false).status, IBV_WC_WR_FLUSH_ERR);
	post(w, 1, IBV_WR_RDMA_READ, 5, 0, 100000);
	assert_int_equal(wait_wc(w, 1, 0, 5, false).status, IBV_WC_SUCCESS);
	until_ended(w, 2);
	close_world(w);
}

static void exchange(struct world *w, int pairs)
{
	for (int polls = 0; polls < 2; polls++) {
		memset(w->mem[1], 0, (size_t)pairs * 200000);
		for (int p = 0; p < pairs; p++)
			post_recv(w, p, 100, (size_t)p * 200000, 200000);
		for (int p = 0; p < pairs; p++)
			post(w, p, IBV_WR_SEND, 1, (size_t)p * 200000, 200000);
		for (int p = 0; p < pairs; p++) {
			wait_wc(w, p, 1, 100, polls);
			wait_wc(w, p, 0, 1, polls);
		}
		assert_memory_equal(w->mem[0], w->mem[1], (size_t)pairs * 200000);
	}
}

/* The engine thread sleeps on the sockets of a few connections one by one, and on more
 * connections as an epoll set. */
static void few_and_many_and_few(void **state)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	struct world *w = open_world();

	(void)state;
	for (int p = 0; p < 4; p++) {
		connect_pair(w, p, false);
		exchange(w, p + 1);
	}
	for (int p = 3; p >= 1; p--) {
		assert_int_equal(qp_modify(w->qp[p][0], &a, IBV_QP_STATE, nic_now()), 0);
		nic_post(w->nic, w->qp[p][0], false);
		until_ended(w, 2 * (4 - (unsigned)p));
		exchange(w, p);
	}
	close_world(w);
}

/* A connection whose socket the engine thread sleeps on is closed all the same. */
static void closed_while_it_is_slept_on(void **state)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };
	struct world *w = open_world();
	struct pollfd p = { .events = POLLIN };

	(void)state;
	w->stranger = 0;
	connect_pair(w, 0, false);
	until_it_sleeps();
	assert_int_equal(qp_modify(w->qp[0][0], &a, IBV_QP_STATE, nic_now()), 0);
	p.fd = w->stranger;
	assert_int_equal(poll(&p, 1, -1), 1);
	close_world(w);
}

/* A connection is added while the engine thread sleeps on the socket of another one. */
static void one_comes_while_another_is_slept_on(void **state)
{
	struct world *w = open_world();
	int fd[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		fd[i] = connect_stranger(w, i);
		until_it_sleeps();
	}
	for (int i = 1; i >= 0; i--) {
		close(fd[i]);
		until_ended(w, 2 - (unsigned)i);
	}
	close_world(w);
}

/* A connection that always has input leaves the other ones their share. */
static void each_gets_its_share(void **state)
{
	struct world *w = open_world();
	unsigned done[2] = { 0 };
	struct ibv_wc wc;

	(void)state;
	connect_pair(w, 0, false);
	connect_pair(w, 1, false);
	for (uint64_t i = 0; i < 2; i++)
		post(w, 0, IBV_WR_RDMA_READ, i, 0, 64);
	post(w, 1, IBV_WR_RDMA_READ, 0, 1000, 8);
	while (done[1] < 1000) {
		nic_poll(w->nic);
		for (int p = 0; p < 2; p++)
			while (cq_poll(w->cq[p][0], 1, &wc) == 1) {
				assert_int_equal(wc.status, IBV_WC_SUCCESS);
				done[p]++;
				post(w, p, IBV_WR_RDMA_READ, 0, 1000, 8);
			}
	}
	/* The first QP has two READs outstanding, the second has one. */
	assert_in_range(done[0], 1000, 5000);
	close_world(w);
}

/* Nobody reads at the other end: its QP waits, no other does, and no processor
 * is burnt: the thread sleeps. */
static void a_peer_that_stalls(void **state)
{
	struct world *w = open_world();

	(void)state;
	w->stranger = 0;
	connect_pair(w, 0, false);
	assert_true(w->stranger > 0);
	connect_pair(w, 1, false);
	for (uint64_t i = 0; i < 60; i++)
		post(w, 0, IBV_WR_RDMA_WRITE, i, 0, MEM);
	post(w, 1, IBV_WR_RDMA_READ, 5, 0, 100000);
	assert_int_equal(wait_wc(w, 1, 0, 5, false).status, IBV_WC_SUCCESS);
	until_it_sleeps();
	assert_int_equal(w->qp[0][0]->state, IBV_QPS_RTS);
	close_world(w);
}

/* A peer that does not speak iWARP ends its own QP only. */
static void a_peer_that_sends_garbage(void **state)
{
	struct world *w = open_world();
	char much[4096];

	(void)state;
	memset(much, 0xa5, sizeof(much));
	w->stranger = 0;
	connect_pair(w, 0, false);
	connect_pair(w, 1, false);
	post(w, 0, IBV_WR_RDMA_READ, 1, 0, 100);
	for (int i = 0; i < 100; i++)
		(void)!send(w->stranger, much, sizeof(much), MSG_DONTWAIT | MSG_NOSIGNAL);
	assert_int_equal(wait_wc(w, 0, 0, 1, false).status, IBV_WC_WR_FLUSH_ERR);
	post(w, 1, IBV_WR_RDMA_READ, 5, 0, 100000);
	assert_int_equal(wait_wc(w, 1, 0, 5, false).status, IBV_WC_SUCCESS);
	close_world(w);
}

/* A peer sends as many valid FPDUs without effect as the socket takes: other connections
 * are served all the same. */
static void a_peer_that_floods(void **state)
{
	static const uint8_t nothing[20] = { 0, 14, 0xc1, 0x40 };
	static uint8_t flood[20 * 3000];
	struct world *w = open_world();
	ssize_t sent = 0;

	(void)state;
	for (size_t at = 0; at < sizeof(flood); at += 20)
		memcpy(flood + at, nothing, 20);
	w->stranger = 0;
	connect_pair(w, 0, false);
	connect_pair(w, 1, false);
	for (uint64_t i = 0; i < 100; i++) {
		for (int k = 0; k < 20; k++) {
			/* An FPDU that was cut off is continued. */
			ssize_t n = send(w->stranger, flood + sent % 20,
					 sizeof(flood) - 20, MSG_DONTWAIT | MSG_NOSIGNAL);

			if (n > 0)
				sent += n;
		}
		post(w, 1, IBV_WR_RDMA_READ, i, 0, 1000);
		assert_int_equal(wait_wc(w, 1, 0, i, i & 1).status, IBV_WC_SUCCESS);
	}
	assert_true(sent > 1 << 20);
	assert_int_equal(w->qp[0][0]->state, IBV_QPS_RTS);
	close_world(w);
}

/* Fills all sockets but the last with valid FPDUs without effect. */
static void flood(const int fd[PAIRS], size_t sent[PAIRS])
{
	static const uint8_t nothing[20] = { 0, 14, 0xc1, 0x40 };
	static uint8_t much[20 * 50000];

	for (size_t at = 0; at < sizeof(much); at += 20)
		memcpy(much + at, nothing, 20);
	for (int p = 0; p < PAIRS - 1; p++) {
		ssize_t n = send(fd[p], much + sent[p] % 20, sizeof(much) - 20,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		sent[p] += n > 0 ? (size_t)n : 0;
	}
}

/* More input than one turn takes: input of the last connection is received a few turns
 * later. */
static void many_peers_that_flood(void **state)
{
	uint8_t msg[24] = { 0, 18, 0x41, 0x43 };
	struct world *w = open_world();
	size_t sent[PAIRS] = { 0 };
	const int last = PAIRS - 1;
	int fd[PAIRS];
	struct ibv_wc wc;

	(void)state;
	for (int p = 0; p < PAIRS; p++)
		fd[p] = connect_stranger(w, p);
	for (uint8_t msn = 1; msn <= 5; msn++) {
		unsigned turns = 0;

		post_recv(w, last, msn, 0, 0);
		flood(fd, sent);
		msg[15] = msn;
		assert_int_equal(send(fd[last], msg, 24, 0), 24);
		while (cq_poll(w->cq[last][1], 1, &wc) == 0) {
			assert_in_range(turns, 0, 30);
			flood(fd, sent);
			turns += nic_poll(w->nic);
		}
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	for (int p = 0; p < PAIRS; p++)
		close(fd[p]);
	close_world(w);
}

/* Input counts although nothing can be sent any more: the peer sends a Terminate and
 * then resets the connection. */
static void a_terminate_and_a_reset(void **state)
{
	/* RDMAP, remote protection error, base or bounds violation; header control bits
	 * M, D, R; the Terminate of a READ request with MSN 1. */
	static const uint8_t term[2 + 70 + 4] = {
		[1] = 70, 0x41,	     0x47, [11] = 2, [15] = 1, [20] = 0x01, 0x01,
		0xe0,	  [25] = 46, 0x41, 0x41,     [35] = 1, [39] = 1,
	};
	static const struct linger reset = { 1, 0 };

	(void)state;
	for (int i = 0; i < 10; i++) {
		struct world *w = open_world();
		struct ibv_sge sge = { (uintptr_t)w->mem[0], 100, w->mr[0]->mkey.key };
		struct ibv_send_wr *bad, wr = { .wr_id = 1,
						.opcode = IBV_WR_RDMA_READ,
						.sg_list = &sge,
						.num_sge = 1 };
		int fd = connect_stranger(w, 0);
		uint8_t request[52];

		assert_int_equal(qp_post_send(w->qp[0][1], &wr, &bad), 0);
		nic_post(w->nic, w->qp[0][1], false);
		assert_int_equal(recv(fd, request, 52, MSG_WAITALL), 52);
		assert_int_equal(send(fd, term, sizeof(term), 0), sizeof(term));
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(fd);
		wr.opcode = IBV_WR_RDMA_WRITE;
		assert_int_equal(qp_post_send(w->qp[0][1], &wr, &bad), 0);
		nic_post(w->nic, w->qp[0][1], false);
		assert_int_equal(wait_wc(w, 0, 1, 1, true).status, IBV_WC_REM_ACCESS_ERR);
		close_world(w);
	}
}

static void until_it_awaits(struct qp *qp)
{
	bool awaits = false;

	while (!awaits) {
		lock_take(&qp->lock);
		awaits = qp_awaits_recv(qp);
		lock_give(&qp->lock);
		sched_yield();
	}
}

/* Posts a receive that a message may wait for. */
static void post_late(struct world *w, int pair, uint64_t id, size_t at, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)w->mem[1] + at, len, w->mr[1]->mkey.key };
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };
	int rc = qp_post_recv(w->qp[pair][1], &wr, &bad);

	assert_in_range(rc, 0, 1);
	if (rc)
		nic_called(w->nic, false);
}

/* Messages come before their receives are posted, and more than the sockets hold. Nobody
 * is busy with them meanwhile, and another connection goes on. */
static void receives_come_late(int pairs, bool polls)
{
	enum { MESSAGES = 8, LEN = MEM / MESSAGES };
	struct world *w = open_world();

	for (int p = 0; p < pairs; p++)
		connect_pair(w, p, false);
	for (uint64_t i = 0; i < MESSAGES; i++)
		post(w, 0, IBV_WR_SEND, i, i * LEN, LEN);
	until_it_awaits(w->qp[0][1]);
	until_it_sleeps();
	post(w, 1, IBV_WR_RDMA_READ, 50, 0, 0);
	wait_wc(w, 1, 0, 50, polls);
	for (uint64_t i = 0; i < MESSAGES; i++) {
		post_late(w, 0, 100 + i, i * LEN, LEN);
		assert_int_equal(wait_wc(w, 0, 1, 100 + i, polls).status, IBV_WC_SUCCESS);
	}
	for (uint64_t i = 0; i < MESSAGES; i++)
		wait_wc(w, 0, 0, i, polls);
	assert_memory_equal(w->mem[0], w->mem[1], MEM);
	close_world(w);
}

static void late_receives(void **state)
{
	(void)state;
	for (int polls = 0; polls < 2; polls++) {
		receives_come_late(2, polls);
		receives_come_late(PAIRS, polls);
	}
}

/* The owner is told of an end before the QP is in its new state. */
static enum ibv_qp_state state_of(struct qp *qp)
{
	enum ibv_qp_state state;

	lock_take(&qp->lock);
	state = qp->state;
	lock_give(&qp->lock);
	return state;
}

/* The connection is reset while a message waits: that is noticed at once. */
static void a_reset_while_a_message_waits(void **state)
{
	static const uint8_t send_fpdu[2 + 18 + 4] = {
		[1] = 18, 0x41, 0x43, [15] = 1 /* MSN */
	};
	static const struct linger reset = { 1, 0 };

	(void)state;
	for (int more = 0; more < 2; more++) {
		struct world *w = open_world();
		int fd = connect_stranger(w, 0);
		uint64_t before;

		for (int p = 1; more && p < PAIRS; p++)
			connect_pair(w, p, false);
		assert_int_equal(send(fd, send_fpdu, sizeof(send_fpdu), 0),
				 sizeof(send_fpdu));
		until_it_awaits(w->qp[0][1]);
		assert_int_equal(send(fd, send_fpdu, 7, 0), 7);
		until_it_sleeps();
		before = nic_now();
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(fd);
		until_ended(w, 1);
		assert_int_equal(state_of(w->qp[0][1]), IBV_QPS_ERR);
		assert_true(nic_now() - before < 500000000);
		close_world(w);
	}
}

/* Registered memory is unmapped: the kernel reports that when the memory is sent. */
static void memory_goes_away(void **state)
{
	struct world *w = open_world();
	struct ibv_wc wc;

	(void)state;
	connect_pair(w, 0, false);
	munmap(w->mem[0] + MEM / 2, MEM / 2);
	post(w, 0, IBV_WR_RDMA_WRITE, 1, 0, 1000);
	post(w, 0, IBV_WR_RDMA_WRITE, 2, 0, MEM);
	assert_int_equal(wait_wc(w, 0, 0, 1, false).status, IBV_WC_SUCCESS);
	wc = wait_wc(w, 0, 0, 2, false);
	assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(wc.vendor_err, VERR_LOCAL_FAULT);
	close_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_that_polls),
		cmocka_unit_test(the_thread_alone),
		cmocka_unit_test(many_connections),
		cmocka_unit_test(one_that_rests_is_heard),
		cmocka_unit_test(no_connection),
		cmocka_unit_test(one_ends),
		cmocka_unit_test(few_and_many_and_few),
		cmocka_unit_test(closed_while_it_is_slept_on),
		cmocka_unit_test(one_comes_while_another_is_slept_on),
		cmocka_unit_test(each_gets_its_share),
		cmocka_unit_test(a_peer_that_stalls),
		cmocka_unit_test(a_peer_that_sends_garbage),
		cmocka_unit_test(a_peer_that_floods),
		cmocka_unit_test(many_peers_that_flood),
		cmocka_unit_test(a_terminate_and_a_reset),
		cmocka_unit_test(late_receives),
		cmocka_unit_test(a_reset_while_a_message_waits),
		cmocka_unit_test(memory_goes_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
