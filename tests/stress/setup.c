/* SPDX-License-Identifier: BSD-2-Clause */
/* setup.c - memory, verbs objects, and the connections of the QPs to the peer's. */
#include <err.h>
#include <string.h>
#include <sys/mman.h>

#include "peer.h"
#include "stress.h"

void *memory(uint64_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		err(1, "mmap of %llu bytes", (unsigned long long)len);
	return p;
}

static uint64_t slot_room(int slot) /* one slot in SLOTS takes the largest messages */
{
	return slot == 0 || opt.max < (256 << 10) ? opt.max : 256 << 10;
}

void lay_out(void)
{
	uint64_t arena = WORDS * 8, local = 64;

	for (int q = 0; q < opt.qps; q++) {
		for (int i = 0; i < SLOTS; i++) {
			struct slot *slot = &s.conn[q].slot[i];

			slot->room = slot_room(i);
			slot->arena = arena;
			arena += slot->room;
			slot->out = (uint8_t *)(uintptr_t)local;
			slot->back = slot->out + slot->room;
			local += 2 * slot->room + 64;
			local &= ~63ull;
		}
		s.conn[q].recv = (uint8_t *)(uintptr_t)local;
		local += RECVS * opt.max_send;
	}
	s.arena_len = arena + 64;
	s.local_len = local + 64;
	s.arena = memory(s.arena_len);
	s.local = memory(s.local_len);
	for (int q = 0; q < opt.qps; q++) {
		for (int i = 0; i < SLOTS; i++) {
			s.conn[q].slot[i].out += (uintptr_t)s.local;
			s.conn[q].slot[i].back += (uintptr_t)s.local;
		}
		s.conn[q].recv += (uintptr_t)s.local;
	}
}

void open_device(void)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (!list || n == 0)
		errx(1, "no RDMA device");
	for (int i = 0; i < n && !s.ctx; i++)
		if (!opt.dev || !strcmp(ibv_get_device_name(list[i]), opt.dev))
			s.ctx = ibv_open_device(list[i]);
	if (!s.ctx)
		errx(1, "cannot open %s", opt.dev ? opt.dev : "the first device");
	ibv_free_device_list(list);
	if (opt.gid < 0)
		opt.gid = 1;
	if (ibv_query_gid(s.ctx, 1, opt.gid, &s.mine.gid))
		err(1, "GID %d", opt.gid);
}

void make_objects(void)
{
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	s.pd = ibv_alloc_pd(s.ctx);
	s.mr_arena = s.pd ? ibv_reg_mr(s.pd, s.arena, s.arena_len, all) : NULL;
	s.mr_local = s.pd ? ibv_reg_mr(s.pd, s.local, s.local_len, IBV_ACCESS_LOCAL_WRITE)
			  : NULL;
	if (!s.mr_arena || !s.mr_local)
		err(1, "memory regions");
	s.cq = ibv_create_cq(s.ctx, opt.qps * (RECVS + 4 * SLOTS), NULL, NULL, 0);
	if (!s.cq)
		err(1, "completion queue");
	for (int q = 0; q < opt.qps; q++) {
		struct ibv_qp_init_attr init = {
			.send_cq = s.cq,
			.recv_cq = s.cq,
			.qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = 8 * SLOTS,
				 .max_recv_wr = RECVS,
				 .max_send_sge = SGES,
				 .max_recv_sge = 1 },
		};
		struct ibv_qp_attr attr = {
			.qp_state = IBV_QPS_INIT,
			.port_num = 1,
			.qp_access_flags = all,
		};

		s.conn[q].qp = ibv_create_qp(s.pd, &init);
		if (!s.conn[q].qp ||
		    ibv_modify_qp(s.conn[q].qp, &attr,
				  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					  IBV_QP_ACCESS_FLAGS))
			err(1, "queue pair");
		s.mine.qpn[q] = s.conn[q].qp->qp_num;
	}
	s.mine.psn = (uint32_t)rnd(1 << 24);
	s.mine.rkey = s.mr_arena->rkey;
	s.mine.arena = (uintptr_t)s.arena;
	s.mine.qps = opt.qps;
	s.mine.max = opt.max;
	s.mine.max_send = opt.max_send;
}

void post_recv(int q, int i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)s.conn[q].recv + (uint64_t)i * opt.max_send,
		.length = (uint32_t)opt.max_send,
		.lkey = s.mr_local->lkey,
	};
	struct ibv_recv_wr wr = {
		.wr_id = 1u << 31 | (unsigned)q << 16 | (unsigned)i,
		.sg_list = &sge, .num_sge = 1,
	}, *bad;

	if (ibv_post_recv(s.conn[q].qp, &wr, &bad))
		err(1, "post_recv");
}

static void join(int q, enum ibv_mtu mtu)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = s.theirs.qpn[q],
		.rq_psn = s.theirs.psn, .max_dest_rd_atomic = 16, .min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = {
			.dgid = s.theirs.gid, .sgid_index = (uint8_t)opt.gid, .hop_limit = 64 } },
	}, rts = {
		/* 2 s of silence: the peer shares its processors with others */
		.qp_state = IBV_QPS_RTS, .timeout = 16, .retry_cnt = 7, .rnr_retry = 7,
		.sq_psn = s.mine.psn, .max_rd_atomic = 16,
	};

	if (ibv_modify_qp(s.conn[q].qp, &rtr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER))
		err(1, "RTR");
	for (int i = 0; i < RECVS; i++)
		post_recv(q, i);
	if (ibv_modify_qp(s.conn[q].qp, &rts,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				  IBV_QP_MAX_QP_RD_ATOMIC))
		err(1, "RTS");
}

void join_all(void)
{
	struct ibv_port_attr port;
	char go = 'g';

	if (ibv_query_port(s.ctx, 1, &port))
		err(1, "port");
	peer_swap(s.sock, &s.mine, &s.theirs, sizeof(s.mine));
	if (s.mine.qps != s.theirs.qps || s.mine.max != s.theirs.max ||
	    s.mine.max_send != s.theirs.max_send)
		errx(1, "give both sides the same --qps, --max and --max-send");
	for (int q = 0; q < opt.qps; q++)
		join(q, opt.mtu ? (enum ibv_mtu)opt.mtu : port.active_mtu);
	peer_swap(s.sock, &go, &go, 1);
}
