/* SPDX-License-Identifier: BSD-2-Clause */
/* hangs.c - does one thing wrong, as programs do, and waits until its standard input
 * ends: hangs -d DEVICE WHAT.  Two QPs of this process are connected with each other. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MUST(cond)                                                                       \
	do {                                                                             \
		if (!(cond)) {                                                           \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__,    \
				#cond, errno);                                           \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

enum { MSG = 64, FOR_EVER = 0, PSN = 7 };

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq[2];
static struct ibv_qp *qp[2];
static struct ibv_mr *mr;
static union ibv_gid gid;
static char buf[2 * MSG];

/* --- two QPs -------------------------------------------------------------- */

static void open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	MUST(list);
	for (int i = 0; list[i] && !ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	MUST(ctx);
	ibv_free_device_list(list);
	MUST(ibv_query_gid(ctx, 1, 1, &gid) == 0);
	pd = ibv_alloc_pd(ctx);
	channel = ibv_create_comp_channel(ctx);
	mr = ibv_reg_mr(pd, buf, sizeof(buf),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	MUST(pd && channel && mr);
}

static void make_qps(void)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC,
					      .cap = { 4, 4, 1, 1, 0 } };
		struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
					    .port_num = 1,
					    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

		cq[i] = ibv_create_cq(ctx, 16, NULL, channel, 0);
		a.send_cq = a.recv_cq = cq[i];
		qp[i] = ibv_create_qp(pd, &a);
		MUST(cq[i] && qp[i]);
		MUST(!ibv_modify_qp(qp[i], &init,
				    IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
					    IBV_QP_ACCESS_FLAGS));
	}
}

static void to_rtr(int i, uint32_t dest, uint32_t rq_psn)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest,
		.rq_psn = rq_psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = gid, .sgid_index = 1, .hop_limit = 1 } },
	};

	MUST(!ibv_modify_qp(qp[i], &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER));
}

static void to_rts(int i)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS,
				 .sq_psn = PSN,
				 .timeout = FOR_EVER,
				 .retry_cnt = 7,
				 .rnr_retry = 7,
				 .max_rd_atomic = 1 };

	MUST(!ibv_modify_qp(qp[i], &a,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_MAX_QP_RD_ATOMIC));
}

static void connect_qps(void)
{
	for (int i = 0; i < 2; i++) {
		to_rtr(i, qp[1 - i]->qp_num, PSN);
		to_rts(i);
	}
}

static void send_from(int i, enum ibv_wr_opcode op, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)buf, MSG, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 42,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { (uintptr_t)buf + MSG, rkey } },
			   *bad;

	MUST(!ibv_post_send(qp[i], &wr, &bad));
}

static void post_recv(int i)
{
	struct ibv_sge sge = { (uintptr_t)buf + MSG, MSG, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 43, .sg_list = &sge, .num_sge = 1 }, *bad;

	MUST(!ibv_post_recv(qp[i], &wr, &bad));
}

static struct ibv_wc completion(int i)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq[i], 1, &wc) == 0)
		;
	return wc;
}

static struct ibv_cq *event(void)
{
	struct ibv_cq *of;
	void *arg;

	MUST(!ibv_get_cq_event(channel, &of, &arg));
	return of;
}

static void say_done(void)
{
	puts("done");
	fflush(stdout);
}

/* --- what goes wrong ------------------------------------------------------- */

static void good(void)
{
	connect_qps();
	post_recv(1);
	send_from(0, IBV_WR_SEND, 0);
	MUST(completion(0).status == IBV_WC_SUCCESS);
	MUST(completion(1).status == IBV_WC_SUCCESS);
}

static void wrong_rkey(void)
{
	connect_qps();
	post_recv(1);
	send_from(0, IBV_WR_RDMA_WRITE, mr->rkey ^ 0x55);
	MUST(completion(0).status == IBV_WC_REM_ACCESS_ERR);
	MUST(completion(1).status == IBV_WC_WR_FLUSH_ERR);
}

static void flushed(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	good();
	post_recv(1);
	MUST(!ibv_modify_qp(qp[1], &a, IBV_QP_STATE));
	MUST(completion(1).status == IBV_WC_WR_FLUSH_ERR);
}

static void no_receive(void)
{
	connect_qps();
	send_from(0, IBV_WR_SEND, 0);
}

static void wrong_psn(void)
{
	to_rtr(0, qp[1]->qp_num, PSN);
	to_rtr(1, qp[0]->qp_num, PSN + 100);
	to_rts(0);
	post_recv(1);
	send_from(0, IBV_WR_SEND, 0);
}

static void wrong_qpn(void)
{
	to_rtr(0, qp[1]->qp_num ^ 0x20, PSN);
	to_rts(0);
	send_from(0, IBV_WR_SEND, 0);
}

static void not_ready(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	connect_qps();
	MUST(!ibv_modify_qp(qp[1], &a, IBV_QP_STATE));
	send_from(0, IBV_WR_SEND, 0);
}

static void cq_events(void)
{
	connect_qps();
	post_recv(1);
	MUST(!ibv_req_notify_cq(cq[1], 0));
	send_from(0, IBV_WR_SEND, 0);
	MUST(event() == cq[1]);
	MUST(!ibv_destroy_qp(qp[1]));
	ibv_destroy_cq(cq[1]);
}

static void qp_events(void)
{
	struct ibv_async_event e;

	wrong_rkey();
	do
		MUST(!ibv_get_async_event(ctx, &e));
	while (e.event_type != IBV_EVENT_QP_ACCESS_ERR);
	ibv_destroy_qp(qp[1]);
}

static void srq_events(void)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	struct ibv_srq *srq = ibv_create_srq(pd, &a);
	struct ibv_async_event e;

	MUST(srq && !ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	MUST(!ibv_get_async_event(ctx, &e) &&
	     e.event_type == IBV_EVENT_SRQ_LIMIT_REACHED);
	ibv_destroy_srq(srq);
}

/* Nobody has the address. */
static void no_peer(void)
{
	gid.raw[15] = 99;
	to_rtr(0, qp[1]->qp_num, PSN);
	to_rts(0);
	send_from(0, IBV_WR_SEND, 0);
}

/* --- waiting for completions ------------------------------------------------- */

static void arm(int i, int solicited_only)
{
	MUST(!ibv_req_notify_cq(cq[i], solicited_only));
}

static int poll_all(int i)
{
	struct ibv_wc wc;
	int n = 0;

	while (ibv_poll_cq(cq[i], 1, &wc) == 1)
		n++;
	return n;
}

/* QP 1 has received a message, and its completion waits. */
static void receive_one(void)
{
	connect_qps();
	post_recv(1);
	send_from(0, IBV_WR_SEND, 0);
	MUST(completion(0).status == IBV_WC_SUCCESS);
}

static void never_armed(void)
{
	receive_one();
	say_done();
	event();
}

/* The next message comes before the queue is armed again, and nobody looks for it. */
static void not_armed_again(void)
{
	connect_qps();
	post_recv(1);
	post_recv(1);
	arm(1, 0);
	send_from(0, IBV_WR_SEND, 0);
	MUST(event() == cq[1]);
	completion(1);
	send_from(0, IBV_WR_SEND, 0);
	say_done();
	event();
}

static void not_polled(void)
{
	connect_qps();
	post_recv(1);
	arm(1, 0);
	send_from(0, IBV_WR_SEND, 0);
	MUST(event() == cq[1]);
	arm(1, 0);
	say_done();
	event();
}

static void not_solicited(void)
{
	connect_qps();
	post_recv(1);
	arm(1, 1);
	send_from(0, IBV_WR_SEND, 0);
	say_done();
	event();
}

/* InfiniBand promises no event for what has come before the arm; urnic raises one. */
static void armed_late(void)
{
	receive_one();
	arm(1, 0);
	MUST(event() == cq[1]);
	MUST(poll_all(1) == 1);
}

static void *send_late(void *arg)
{
	const struct timespec pause = { 2, 500000000 };

	(void)arg;
	nanosleep(&pause, NULL);
	send_from(0, IBV_WR_SEND, 0);
	return NULL;
}

/* Arms, polls until the queue is empty, and waits: for longer than a second, while the
 * completion of a SEND that nobody waits for stays where it is. */
static void waits_well(void)
{
	pthread_t sender;
	unsigned events = 0;
	int got = 0;

	connect_qps();
	for (int i = 0; i < 2; i++)
		post_recv(1);
	send_from(0, IBV_WR_SEND, 0);
	MUST(!pthread_create(&sender, NULL, send_late, NULL));
	while (got < 2) {
		arm(1, 0);
		got += poll_all(1);
		if (got == 2)
			break;
		MUST(event() == cq[1]);
		events++;
	}
	MUST(!pthread_join(sender, NULL));
	ibv_ack_cq_events(cq[1], events);
}

static void id_events(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;

	memcpy(&to.sin_addr, gid.raw + 12, 4);
	MUST(ch && !rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	MUST(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
	MUST(!rdma_get_cm_event(ch, &e) && e->event == RDMA_CM_EVENT_ADDR_RESOLVED);
	rdma_destroy_id(id);
}

static const struct {
	const char *name;
	void (*does)(void);
} whats[] = {
	{ "good", good },
	{ "wrong-rkey", wrong_rkey },
	{ "flushed", flushed },
	{ "no-receive", no_receive },
	{ "wrong-psn", wrong_psn },
	{ "wrong-qpn", wrong_qpn },
	{ "not-ready", not_ready },
	{ "cq-events", cq_events },
	{ "qp-events", qp_events },
	{ "srq-events", srq_events },
	{ "id-events", id_events },
	{ "no-peer", no_peer },
	{ "never-armed", never_armed },
	{ "not-armed-again", not_armed_again },
	{ "not-polled", not_polled },
	{ "not-solicited", not_solicited },
	{ "armed-late", armed_late },
	{ "waits-well", waits_well },
};

int main(int argc, char **argv)
{
	MUST(argc == 4 && !strcmp(argv[1], "-d"));
	open_device(argv[2]);
	make_qps();
	for (size_t i = 0; i < sizeof(whats) / sizeof(whats[0]); i++) {
		if (strcmp(whats[i].name, argv[3]) != 0)
			continue;
		whats[i].does();
		say_done();
		(void)!read(STDIN_FILENO, buf, 1);
		return 0;
	}
	fprintf(stderr, "hangs: no such thing: %s\n", argv[3]);
	return 2;
}
