/* SPDX-License-Identifier: BSD-2-Clause */
/* conn_fix.h - for tests: the whole NIC with pairs of iWARP QPs that are joined by TCP
 * over loopback, or one QP whose peer is a plain socket of the test. */
#ifndef DRIVER_CONN_FIX_H
#define DRIVER_CONN_FIX_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "driver/conn.h"
#include "driver/nic.h"
#include "iwarp/iwarp.h"
#include "net/stream.h"
#include "net/stream_testing.h"
#include "sys/waiter_testing.h"
#include "verbs/core.h"
#include "verbs/event.h"
#include "verbs/mr.h"
#include "verbs/netport.h"
#include "verbs/qp.h"

enum {
	MEM = 4 << 20,
	PAIRS = 12,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC
};

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
	int stranger; /* socket of a peer that is no NIC; -1: none */
	_Atomic unsigned ended;
};

static inline void on_ready(void *arg)
{
	(void)arg;
}

static inline void on_ended(void *arg, enum iw_end how)
{
	struct world *w = arg;

	(void)how;
	w->ended++;
}

static const struct iwarp_user user = { on_ready, on_ended };

static inline void make_qp(struct world *w, int pair, int i)
{
	struct ibv_qp_init_attr_ex a = {
		.cap = { .max_send_wr = 64,
			 .max_recv_wr = 64,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = &w->pd->ibv,
	};
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .qp_access_flags = ALL };

	assert_int_equal(cq_create(&w->ctx, 200, NULL, NULL, &w->cq[pair][i]), 0);
	a.send_cq = a.recv_cq = (struct ibv_cq *)&w->cq[pair][i]->ex;
	assert_int_equal(qp_create(&w->ctx, &a, nic_transport(w->nic, w->dev),
				   &w->qp[pair][i]),
			 0);
	assert_int_equal(qp_modify(w->qp[pair][i], &init,
				   IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, nic_now()),
			 0);
}

static inline void attach(struct world *w, struct qp *qp, struct stream *s,
			  const struct iw_params *p)
{
	int rc;

	turn_take(&qp->core->turn);
	rc = iwarp_attach(qp, s, p, &user, w, nic_now());
	turn_give(&qp->core->turn);
	assert_int_equal(rc, 0);
}

static inline void connect_pair(struct world *w, int pair, bool crc)
{
	struct stream *s[2];
	int fd[2];

	tcp_pair(fd);
	for (int i = 1; i >= 0; i--) {
		struct iw_params p = { .initiator = i == 0,
				       .revision = 2,
				       .crc = crc,
				       .rtr = MPA_RTR_WRITE,
				       .ird = 16,
				       .ord = 16 };

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

/* Connects the second QP of the pair, as initiator, to a peer that is no NIC, and
 * returns that peer's socket. */
static inline int connect_stranger(struct world *w, int pair)
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

static inline struct world *open_world(void)
{
	struct netdev net = { .name = "lo",
			      .ifindex = 1,
			      .running = true,
			      .loopback = true,
			      .mtu = 65536,
			      .payload = 65452 };
	struct world *w = calloc(1, sizeof(*w));

	w->stranger = -1;
	assert_int_equal(nic_open(&w->nic), 0);
	assert_int_equal(device_create(&device_iwarp, &net, NULL, &w->dev), 0);
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
		assert_int_equal(mr_reg(w->pd, w->mem[i], MEM, (uintptr_t)w->mem[i], ALL,
					&w->mr[i]),
				 0);
	}
	for (size_t j = 0; j < MEM; j++)
		w->mem[0][j] = (uint8_t)(j * 7 + j / 251);
	return w;
}

static inline void close_world(struct world *w)
{
	for (int p = 0; p < PAIRS; p++) {
		for (int i = 0; i < 2; i++) {
			if (w->qp[p][i])
				assert_int_equal(qp_destroy(w->qp[p][i]), 0);
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

static inline void post(struct world *w, int pair, enum ibv_wr_opcode op, uint64_t id,
			size_t at, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)w->mem[0] + at, len, w->mr[0]->mkey.key };
	struct ibv_send_wr *bad, wr = {
		.wr_id = id,
		.opcode = op,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)w->mem[1] + at, w->mr[1]->mkey.key },
	};

	assert_int_equal(qp_post_send(w->qp[pair][0], &wr, &bad), 0);
	nic_post(w->nic, w->qp[pair][0], false);
}

static inline void post_recv(struct world *w, int pair, uint64_t id, size_t at,
			     uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)w->mem[1] + at, len, w->mr[1]->mkey.key };
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	assert_int_equal(qp_post_recv(w->qp[pair][1], &wr, &bad), 0);
}

/* Waits for a completion. polls: this thread polls; otherwise the engine thread must do
 * all the work. */
static inline struct ibv_wc wait_wc(struct world *w, int pair, int i, uint64_t id,
				    bool polls)
{
	struct ibv_wc wc;

	while (cq_poll(w->cq[pair][i], 1, &wc) == 0)
		if (polls)
			nic_poll(w->nic);
		else
			sched_yield();
	assert_int_equal(wc.wr_id, id);
	return wc;
}

#endif
