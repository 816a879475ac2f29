/* SPDX-License-Identifier: BSD-2-Clause */
/* siw_peer.c - one end of an rping by the iWARP transport alone: MPA, a stream,
 * a QP; no rdma_cm.  The other end is Linux's rping on siw.
 *
 *	siw_peer client|server ADDRESS PORT ROUNDS SIZE [crc] [p2p] [bad-write]
 *
 * rping's protocol: the client sends where its source lies (address, rkey, size,
 * all big-endian); the server READs that, sends a word; the client sends where
 * its sink lies; the server WRITEs there what it has read, sends a word.
 *
 * Exit status 0, and a line about what was agreed, or a line that says what
 * failed.  bad-write: the client ends with a WRITE that the peer must refuse. */
#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/nic.h"
#include "iwarp/iwarp.h"
#include "net/stream.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/event.h"
#include "verbs/mr.h"
#include "verbs/netport.h"
#include "verbs/qp.h"

#define CHECK(cond)                                                                      \
	do {                                                                             \
		if (!(cond))                                                             \
			err(1, "line %d: %s", __LINE__, #cond);                          \
	} while (0)

enum {
	SIZE_MAX_ = 64000,
	RECV = 1,
	SEND = 2,
	PATIENCE_S = 20,
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
};

struct place {
	uint64_t addr;
	uint32_t rkey, size;
}; /* big-endian */

struct memory {
	char source[SIZE_MAX_], sink[SIZE_MAX_];
	struct place in, out;
};

struct peer {
	struct nic *nic;
	struct device *dev;
	struct ibv_context ibv;
	struct context ctx;
	struct pd *pd;
	struct cq *cq;
	struct qp *qp;
	struct memory *mem;
	struct mr *mr;
	uint32_t size;
};

static bool has(char **words, const char *word)
{
	for (; *words; words++)
		if (!strcmp(*words, word))
			return true;
	return false;
}

/* --- making -------------------------------------------------------------- */

static void open_peer(struct peer *p)
{
	struct netdev net = {
		.name = "siw", .ifindex = 1, .running = true, .mtu = 1500, .payload = 1416
	};
	struct ibv_qp_init_attr_ex init = {
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 16,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .qp_access_flags = ACCESS };

	CHECK(nic_open(&p->nic) == 0);
	CHECK(device_create(&device_iwarp, &net, NULL, &p->dev) == 0);
	p->dev->core = p->ctx.core = nic_core(p->nic);
	p->ctx.dev = p->dev;
	p->ctx.ibv = &p->ibv;
	p->ibv.device = &p->dev->ibv;
	list_init(&p->ctx.node);
	CHECK(event_queue_init(&p->ctx.async) == 0);
	CHECK(pd_alloc(p->ctx.core, &p->ibv, &p->pd) == 0);
	CHECK((p->mem = calloc(1, sizeof(*p->mem))));
	CHECK(mr_reg(p->pd, p->mem, sizeof(*p->mem), (uintptr_t)p->mem, ACCESS, &p->mr) ==
	      0);
	CHECK(cq_create(&p->ctx, 64, NULL, NULL, &p->cq) == 0);
	init.pd = &p->pd->ibv;
	init.send_cq = init.recv_cq = (struct ibv_cq *)&p->cq->ex;
	CHECK(qp_create(&p->ctx, &init, nic_transport(p->nic, p->dev), &p->qp) == 0);
	CHECK(qp_modify(p->qp, &a, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, nic_now()) == 0);
}

static int reach(bool server, const char *address, const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((uint16_t)atoi(port)) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1, got;

	CHECK(fd >= 0 && inet_pton(AF_INET, address, &a.sin_addr) == 1);
	if (!server) {
		CHECK(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
		return fd;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	CHECK(bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 1) == 0);
	got = accept(fd, NULL, NULL);
	CHECK(got >= 0);
	close(fd);
	return got;
}

static void send_hello(int fd, struct iw_setup *s)
{
	struct iovec v;

	while ((v = iw_setup_out(s)).iov_len) {
		ssize_t n = write(fd, v.iov_base, v.iov_len);

		CHECK(n > 0);
		iw_setup_sent(s, (size_t)n);
	}
}

static void hear_hello(int fd, struct iw_setup *s)
{
	while (s->state == IW_MORE) {
		struct iovec v = iw_setup_room(s);
		ssize_t n = read(fd, v.iov_base, v.iov_len);

		CHECK(n > 0);
		iw_setup_received(s, (size_t)n);
	}
}

static void agree(struct peer *p, int fd, bool server, char **words)
{
	static struct iw_setup s;
	struct iw_offer o = { .revision = 2,
			      .ird = 1,
			      .ord = 1,
			      .crc = has(words, "crc"),
			      .rtr = has(words, "p2p") ? MPA_RTR_WRITE | MPA_RTR_READ
						       : 0 };
	struct stream *stream;
	int rc;

	if (server) {
		iw_setup_listen(&s);
		hear_hello(fd, &s);
		o.rtr = 0;
		CHECK(iw_setup_accept(&s, &o) == 0);
		send_hello(fd, &s);
	} else {
		CHECK(iw_setup_start(&s, &o) == 0);
		send_hello(fd, &s);
		hear_hello(fd, &s);
	}
	CHECK(s.state == IW_DONE);
	CHECK(stream_tcp_open(&stream, fd) == 0);
	s.agreed.mss = stream->mss;
	turn_take(&p->ctx.core->turn);
	rc = iwarp_attach(p->qp, stream, &s.agreed, NULL, NULL, nic_now());
	turn_give(&p->ctx.core->turn);
	CHECK(rc == 0);
	printf("agreed: crc %d, rtr %d, ird %u, ord %u\n", s.agreed.crc, s.agreed.rtr,
	       s.agreed.ird, s.agreed.ord);
}

/* --- work ---------------------------------------------------------------- */

static void post_recv(struct peer *p)
{
	struct ibv_sge sge = { (uintptr_t)&p->mem->in, sizeof(p->mem->in),
			       p->mr->mkey.key };
	struct ibv_recv_wr *bad, wr = { .wr_id = RECV, .sg_list = &sge, .num_sge = 1 };

	CHECK(qp_post_recv(p->qp, &wr, &bad) == 0);
}

/* Returns false if the connection has ended. */
static bool wait_for(struct peer *p, uint64_t wr_id)
{
	uint64_t end = clock_ns() + PATIENCE_S * 1000000000ull;
	struct ibv_wc wc;

	while (cq_poll(p->cq, 1, &wc) == 0) {
		nic_poll(p->nic);
		if (clock_ns() > end)
			errx(1, "nothing completes any more");
	}
	if (wc.status == IBV_WC_WR_FLUSH_ERR)
		return false;
	if (wc.status || wc.wr_id != wr_id)
		errx(1, "completion of %d: status %d, vendor_err %u", (int)wc.wr_id,
		     wc.status, wc.vendor_err);
	return true;
}

static bool work(struct peer *p, enum ibv_wr_opcode op, void *at, uint32_t len,
		 const struct place *to)
{
	struct ibv_sge sge = { (uintptr_t)at, len, p->mr->mkey.key };
	struct ibv_send_wr *bad, wr = {
		.wr_id = SEND,
		.opcode = op,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (to) {
		wr.wr.rdma.remote_addr = be64toh(to->addr);
		wr.wr.rdma.rkey = be32toh(to->rkey);
	}
	CHECK(qp_post_send(p->qp, &wr, &bad) == 0);
	nic_post(p->nic, p->qp, false);
	return wait_for(p, SEND);
}

static bool tell(struct peer *p, const void *at)
{
	p->mem->out = (struct place){ htobe64((uintptr_t)at), htobe32(p->mr->mkey.key),
				      htobe32(p->size) };
	return work(p, IBV_WR_SEND, &p->mem->out, sizeof(p->mem->out), NULL);
}

/* Receives the peer's message, and posts the receive for its next. */
static bool hear(struct peer *p, struct place *out)
{
	if (!wait_for(p, RECV))
		return false;
	*out = p->mem->in;
	post_recv(p);
	return true;
}

/* Prints where the data differ, to help find the cause. */
static _Noreturn void differs(const struct peer *p, int round)
{
	const char *a = p->mem->source, *b = p->mem->sink;
	uint32_t first = 0, last = p->size - 1, wrong = 0, zero = 0;

	while (a[first] == b[first])
		first++;
	while (a[last] == b[last])
		last--;
	for (uint32_t i = first; i <= last; i++) {
		wrong += a[i] != b[i];
		zero += !b[i];
	}
	errx(1,
	     "round %d: what came back is not what was sent: %u bytes wrong in [%u, %u], "
	     "%u of them 0; at the first %d instead of %d",
	     round, wrong, first, last, zero, b[first], a[first]);
}

static bool client_round(struct peer *p, int round)
{
	struct place word;

	for (uint32_t i = 0; i + 1 < p->size; i++) /* rping expects text */
		p->mem->source[i] =
			(char)('A' + (i * 7 + i / 251 + (uint32_t)round) % 57);
	memset(p->mem->sink, 0, p->size);
	if (!tell(p, p->mem->source) || !hear(p, &word) || !tell(p, p->mem->sink) ||
	    !hear(p, &word))
		return false;
	if (memcmp(p->mem->source, p->mem->sink, p->size))
		differs(p, round);
	return true;
}

static bool server_round(struct peer *p)
{
	struct place from, to;
	uint32_t size;

	if (!hear(p, &from))
		return false;
	size = be32toh(from.size);
	CHECK(size <= SIZE_MAX_);
	return work(p, IBV_WR_RDMA_READ, p->mem->source, size, &from) &&
	       tell(p, p->mem->source) && hear(p, &to) &&
	       work(p, IBV_WR_RDMA_WRITE, p->mem->source, size, &to) &&
	       tell(p, p->mem->source);
}

/* The peer must terminate the connection, and nothing may hang. */
static void bad_write(struct peer *p)
{
	struct place nowhere = { htobe64(123), htobe32(0x99999900), 0 };

	work(p, IBV_WR_RDMA_WRITE, p->mem->source, 10, &nowhere);
	if (wait_for(p, RECV) || p->qp->state != IBV_QPS_ERR)
		errx(1, "a bad WRITE was taken");
	printf("refused\n");
}

static void leave(struct peer *p)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD };
	uint64_t end = clock_ns() + PATIENCE_S * 1000000000ull;

	if (p->qp->state == IBV_QPS_RTS) {
		CHECK(qp_modify(p->qp, &a, IBV_QP_STATE, nic_now()) == 0);
		nic_post(p->nic, p->qp, false);
	}
	while (p->qp->state != IBV_QPS_ERR && clock_ns() < end)
		nic_poll(p->nic);
	CHECK(p->qp->state == IBV_QPS_ERR);
	CHECK(qp_destroy(p->qp) == 0);
	nic_close(p->nic);
}

int main(int argc, char **argv)
{
	bool server = argc > 5 && !strcmp(argv[1], "server");
	struct peer p = { .size = argc > 5 ? (uint32_t)atoi(argv[5]) : 0 };
	int rounds, done = 0;

	if (argc < 6 || p.size < 2 || p.size > SIZE_MAX_)
		errx(2, "siw_peer client|server ADDRESS PORT ROUNDS SIZE [crc] [p2p] "
			"[bad-write]");
	if (getenv("URNIC_LOG"))
		log_setup(getenv("URNIC_LOG"));
	rounds = atoi(argv[4]);
	open_peer(&p);
	post_recv(&p);
	agree(&p, reach(server, argv[2], argv[3]), server, argv + 6);
	while (done < rounds && (server ? server_round(&p) : client_round(&p, done)))
		done++;
	printf("%d rounds\n", done);
	if (done < rounds)
		errx(1, "the peer has ended the connection");
	if (has(argv + 6, "bad-write"))
		bad_write(&p);
	/* rping's client ends the connection; its server waits for that. */
	if (server)
		wait_for(&p, RECV);
	leave(&p);
	return 0;
}
