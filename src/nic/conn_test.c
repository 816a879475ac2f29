/* SPDX-License-Identifier: BSD-2-Clause */
/* The whole NIC with iWARP QPs that are joined by TCP over loopback: driven by a
 * program that polls, and by the thread alone. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/core.h"
#include "core/device.h"
#include "core/event.h"
#include "core/mr.h"
#include "core/qp.h"
#include "iwarp/iwarp.h"
#include "link/stream.h"
#include "link/stream_testing.h"
#include "nic/conn.h"
#include "nic/nic.h"
#include "sys/clock.h"

enum { MEM = 4 << 20, PAIRS = 12,
       ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
	     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

struct world {
	struct nic *nic;
	struct device *dev;
	struct ibv_context ibv;
	struct context ctx;
	struct pd *pd;
	uint8_t *mem[2];
	struct mr *mr[2];
	struct cq *cq[PAIRS][2];
	struct qp *qp[PAIRS][2];
	int stranger;			/* a peer that is no NIC; -1: none */
	_Atomic unsigned ended;
};

static void on_ready(void *arg)
{
	(void)arg;
}

static void on_ended(void *arg, enum iw_end how)
{
	struct world *w = arg;

	(void)how;
	w->ended++;
}

static const struct iwarp_user user = { on_ready, on_ended };

static void make_qp(struct world *w, int pair, int i)
{
	struct ibv_qp_init_attr_ex a = {
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = &w->pd->ibv,
	};
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .qp_access_flags = ALL };

	assert_int_equal(cq_create(&w->ctx, 200, NULL, NULL, &w->cq[pair][i]), 0);
	a.send_cq = a.recv_cq = (struct ibv_cq *)&w->cq[pair][i]->ex;
	assert_int_equal(qp_create(&w->ctx, &a, nic_transport(w->nic, w->dev),
				   nic_now(), &w->qp[pair][i]), 0);
	assert_int_equal(qp_modify(w->qp[pair][i], &init, IBV_QP_STATE |
				   IBV_QP_ACCESS_FLAGS, nic_now()), 0);
}

static void attach(struct world *w, struct qp *qp, struct stream *s,
		   const struct iw_params *p)
{
	int rc;

	turn_take(&qp->core->turn);
	rc = iwarp_attach(qp, s, p, &user, w, nic_now());
	turn_give(&qp->core->turn);
	assert_int_equal(rc, 0);
}

static void connect_pair(struct world *w, int pair, bool crc)
{
	struct stream *s[2];
	int fd[2];

	tcp_pair(fd);
	for (int i = 1; i >= 0; i--) {
		struct iw_params p = { .initiator = i == 0, .revision = 2, .crc = crc,
				       .rtr = MPA_RTR_WRITE, .ird = 16, .ord = 16 };

		make_qp(w, pair, i);
		if (i && w->stranger == 0) {
			w->stranger = fd[1];
			continue;
		}
		assert_int_equal(stream_tcp_open(&s[i], fd[i]), 0);
		p.mss = s[i]->mss;
		attach(w, w->qp[pair][i], s[i], &p);
	}
}

/* The pair's second QP, an initiator, and a peer that is no NIC: its socket is
 * the caller's. */
static int connect_stranger(struct world *w, int pair)
{
	struct iw_params p = { .initiator = true, .revision = 2, .ird = 16, .ord = 16 };
	struct stream *s;
	int fd[2];

	tcp_pair(fd);
	make_qp(w, pair, 1);
	assert_int_equal(stream_tcp_open(&s, fd[1]), 0);
	p.mss = s->mss;
	attach(w, w->qp[pair][1], s, &p);
	return fd[0];
}

static struct world *open_world(void)
{
	struct netdev net = { .name = "lo", .ifindex = 1, .running = true,
			      .loopback = true, .mtu = 65536 };
	struct world *w = calloc(1, sizeof(*w));

	w->stranger = -1;
	assert_int_equal(nic_open(&w->nic), 0);
	assert_int_equal(device_create_iwarp(&net, NULL, &w->dev), 0);
	w->dev->core = w->ctx.core = nic_core(w->nic);
	w->ctx.dev = w->dev;
	w->ctx.ibv = &w->ibv;
	w->ibv.device = &w->dev->ibv;
	list_init(&w->ctx.node);
	assert_int_equal(event_queue_init(&w->ctx.async), 0);
	assert_int_equal(fcntl(w->ctx.async.fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(pd_alloc(w->ctx.core, &w->ibv, &w->pd), 0);
	for (int i = 0; i < 2; i++) {
		w->mem[i] = mmap(NULL, MEM, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_int_equal(mr_reg(w->pd, w->mem[i], MEM, (uintptr_t)w->mem[i],
					ALL, &w->mr[i]), 0);
	}
	for (size_t j = 0; j < MEM; j++)
		w->mem[0][j] = (uint8_t)(j * 7 + j / 251);
	return w;
}

static void close_world(struct world *w)
{
	for (int p = 0; p < PAIRS; p++) {
		for (int i = 0; i < 2; i++) {
			if (w->qp[p][i])
				assert_int_equal(qp_destroy(w->qp[p][i], nic_now()), 0);
			if (w->cq[p][i])
				assert_int_equal(cq_destroy(w->cq[p][i]), 0);
		}
	}
	if (w->stranger > 0)
		close(w->stranger);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(mr_dereg(w->mr[i]), 0);
		munmap(w->mem[i], MEM);
	}
	assert_int_equal(pd_free(w->pd), 0);
	event_queue_fini(&w->ctx.async);
	free(w->dev);
	nic_close(w->nic);
	free(w);
}

static void post(struct world *w, int pair, enum ibv_wr_opcode op, uint64_t id,
		 size_t at, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)w->mem[0] + at, len, w->mr[0]->mkey.key };
	struct ibv_send_wr *bad, wr = {
		.wr_id = id, .opcode = op, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)w->mem[1] + at, w->mr[1]->mkey.key },
	};

	assert_int_equal(qp_post_send(w->qp[pair][0], &wr, &bad), 0);
	nic_post(w->nic, w->qp[pair][0], false);
}

static void post_recv(struct world *w, int pair, uint64_t id, size_t at, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)w->mem[1] + at, len, w->mr[1]->mkey.key };
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	assert_int_equal(qp_post_recv(w->qp[pair][1], &wr, &bad), 0);
}

/* polls: else the thread has to do all by itself. */
static struct ibv_wc wait_wc(struct world *w, int pair, int i, uint64_t id, bool polls)
{
	uint64_t end = clock_ns() + 20000000000u;
	struct ibv_wc wc;

	while (cq_poll(w->cq[pair][i], 1, &wc) == 0) {
		assert_true(clock_ns() < end);
		if (polls)
			nic_poll(w->nic);
		else
			usleep(200);
	}
	assert_int_equal(wc.wr_id, id);
	return wc;
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

/* More than are asked one by one. */
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

/* Who has no connection has nothing to be watched. */
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

/* One ends: its peer is flushed, others work on. */
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
	for (int i = 0; w->ended < 2 && i < 5000; i++)
		usleep(1000);
	assert_int_equal(w->ended, 2);
	close_world(w);
}

static void exchange(struct world *w, int pairs)
{
	for (int sleeps = 0; sleeps < 2; sleeps++) {
		for (int p = 0; p < pairs; p++)
			post_recv(w, p, 100, (size_t)p * 200000, 200000);
		for (int p = 0; p < pairs; p++)
			post(w, p, IBV_WR_SEND, 1, (size_t)p * 200000, 200000);
		for (int p = 0; p < pairs; p++) {
			wait_wc(w, p, 1, 100, sleeps);
			wait_wc(w, p, 0, 1, sleeps);
		}
	}
}

/* A few are slept on and asked one by one, more than that as a set. */
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
		for (int i = 0; w->ended < 2u * (4u - (unsigned)p) && i < 5000; i++)
			usleep(1000);
		assert_int_equal(w->ended, 2 * (4 - p));
		exchange(w, p);
	}
	close_world(w);
}

/* Nobody reads at the other end: its QP waits, no other does, and no processor
 * is burnt. */
static void a_peer_that_stalls(void **state)
{
	struct timespec before, after;
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
	usleep(50000);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	usleep(200000);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	assert_true((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec -
		    before.tv_nsec < 50000000);
	assert_int_equal(w->qp[0][0]->state, IBV_QPS_RTS);
	close_world(w);
}

/* What is not iWARP at all ends its own QP. */
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

/* As many FPDUs as the socket takes, which are right and mean nothing: others
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
			/* What is cut off goes on where it was. */
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

/* As many FPDUs that mean nothing as all but the last socket take. */
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

/* More than a turn takes: what the last one gets is there a few turns later. */
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

/* What has been received counts, though nothing can be sent any more: a peer says
 * why, and resets. */
static void a_terminate_and_a_reset(void **state)
{
	/* RDMAP, protection, bounds; M, D, R; of a READ request, MSN 1. */
	static const uint8_t term[2 + 70 + 4] = {
		[1] = 70, 0x41, 0x47, [11] = 2, [15] = 1,
		[20] = 0x01, 0x01, 0xe0, [25] = 46, 0x41, 0x41, [35] = 1, [39] = 1,
	};
	static const struct linger reset = { 1, 0 };

	(void)state;
	for (int i = 0; i < 10; i++) {
		struct world *w = open_world();
		struct ibv_sge sge = { (uintptr_t)w->mem[0], 100, w->mr[0]->mkey.key };
		struct ibv_send_wr *bad, wr = {
			.wr_id = 1, .opcode = IBV_WR_RDMA_READ, .sg_list = &sge,
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
		assert_int_equal(wait_wc(w, 0, 1, 1, true).status,
				 IBV_WC_REM_ACCESS_ERR);
		close_world(w);
	}
}

/* Memory that is unmapped while registered: the kernel finds it. */
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
		cmocka_unit_test(no_connection),
		cmocka_unit_test(one_ends),
		cmocka_unit_test(few_and_many_and_few),
		cmocka_unit_test(a_peer_that_stalls),
		cmocka_unit_test(a_peer_that_sends_garbage),
		cmocka_unit_test(a_peer_that_floods),
		cmocka_unit_test(many_peers_that_flood),
		cmocka_unit_test(a_terminate_and_a_reset),
		cmocka_unit_test(memory_goes_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
