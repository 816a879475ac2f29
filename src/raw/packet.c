/* SPDX-License-Identifier: BSD-2-Clause */
/* packet.c - the transport of raw packet QPs: sends become frames, frames fill receives.
 */
#include <errno.h>
#include <isa-l/crc.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/link.h"
#include "raw/packet.h"
#include "raw/packet_own.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "verbs/complete.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/rate.h"
#include "verbs/sgl.h"

enum {
	MSGS = 32,	    /* frames sent in one system call */
	SOCK_BUF = 4 << 20, /* the kernel clips it to its maximum */
};

/* The frames of one system call. */
struct frames {
	unsigned n;
	struct sockaddr_ll to;
	struct mmsghdr msg[MSGS];
	struct span span[MSGS];
	struct iovec iov[MSGS][SGE_MAX];
};

int packet_socket(void)
{
	int buf = SOCK_BUF;
	int fd = fd_socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	fd = fd_raise(fd);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buf, sizeof(buf));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buf, sizeof(buf));
	return fd;
}

/* --- a QP's life ----------------------------------------------------------- */

static int packet_open(struct qp *qp)
{
	struct packets *p = packets_of(qp->core);
	struct packet_qp *q;

	if (!p->out)
		p->out = malloc(sizeof(*p->out));
	q = p->out ? calloc(1, sizeof(*q)) : NULL;
	if (!q)
		return -ENOMEM;
	q->fd = packet_socket();
	if (q->fd < 0) {
		int rc = q->fd;

		free(q);
		if (rc == -EPERM)
			log_info(
				"create_qp refused: raw packets need CAP_NET_RAW in this "
				"network namespace");
		return rc;
	}
	/* Opened only to check that the process may have a packet socket. */
	if (!qp->sq.cap) {
		close(q->fd);
		q->fd = -1;
	}
	q->qp = qp;
	list_add_tail(&p->qps, &q->node);
	qp->tp.state = q;
	return 0;
}

static void packet_close(struct qp *qp)
{
	struct packet_qp *q = packet_qp_of(qp);

	list_del(&q->node);
	if (q->spread)
		atomic_fetch_sub(&q->spread->table->users, 1);
	free(q->spread);
	if (q->fd >= 0)
		close(q->fd);
	free(q);
	qp->tp.state = NULL;
}

static int packet_enter(struct qp *qp, enum ibv_qp_state from, uint64_t now)
{
	struct packet_qp *q = packet_qp_of(qp);

	(void)from;
	(void)now;
	if (q->spread && qp->state == IBV_QPS_INIT)
		return -EOPNOTSUPP; /* it is ready from the start */
	if (qp->state != IBV_QPS_RESET)
		return 0;
	memset(&q->target, 0, sizeof(q->target));
	q->full_until = q->next_at = 0;
	return 0;
}

/* --- out ------------------------------------------------------------------- */

/* Fails the oldest work request, and the QP with it. */
static void fail_oldest(struct qp *qp, enum ibv_wc_status status, enum verr verr,
			uint64_t now) REQUIRES(qp->lock)
{
	sq_complete(qp, status, verr, now);
	qp_fail(qp, false, -1, now);
}

/* Returns the time in ns that len bytes take at the QP's rate limit. */
static uint64_t frame_time(const struct qp *qp, uint32_t len)
{
	return qp->attr.rate_limit ? pace_ns(len, qp->attr.rate_limit) : 0;
}

/* Returns the earliest time of the next frame under the QP's rate limit (kb/s). */
static uint64_t may_begin(const struct packet_qp *q, uint64_t now)
{
	return q->qp->attr.rate_limit ? pace_from(q->next_at, now) : 0;
}

/* Gathers the oldest work requests that may be sent by now. False: the memory of the
 * next one is not accessible, so that it fails. */
static bool gather(struct qp *qp, struct frames *f, uint64_t now) REQUIRES(qp->lock)
{
	uint64_t at = may_begin(packet_qp_of(qp), now);
	struct sq *sq = &qp->sq;

	f->to = (struct sockaddr_ll){ .sll_family = AF_PACKET,
				      .sll_ifindex = (int)qp->dev->number };
	for (f->n = 0; f->n < MSGS && sq->tail + f->n != sq->head; f->n++) {
		struct span *s = &f->span[f->n];
		uint32_t len = sq_at(sq, sq->tail + f->n)->length;

		if (at > now)
			break;
		at += frame_time(qp, len);
		if (span_of_wqe(qp, sq->tail + f->n, 0, s))
			return false;
		f->msg[f->n].msg_hdr = (struct msghdr){
			.msg_name = &f->to,
			.msg_namelen = sizeof(f->to),
			.msg_iov = f->iov[f->n],
			.msg_iovlen = span_iov(s, 0, len, f->iov[f->n]),
		};
	}
	return true;
}

/* Handles the refusal of the oldest frame with err. */
static void frame_refused(struct qp *qp, int err, uint64_t now) REQUIRES(qp->lock)
{
	struct packet_qp *q = packet_qp_of(qp);

	switch (err) {
	case EFAULT:
		fail_oldest(qp, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_FAULT, now);
		return;
	case EMSGSIZE:
		fail_oldest(qp, IBV_WC_LOC_LEN_ERR, VERR_LOCAL_LENGTH, now);
		return;
	case EINVAL: /* no Ethernet header */
		fail_oldest(qp, IBV_WC_LOC_QP_OP_ERR, VERR_LOCAL_OPERATION, now);
		return;
	default:
		break;
	}
	/* The frame is lost, as on an unplugged wire. */
	q->not_sent++;
	if (log_level >= LOG_INFO && log_allowed(&q->said_dropped))
		log_info("QP 0x%06x: the interface does not take a frame: %s; %llu "
			 "frames are lost so far",
			 qp->qpn, strerror(err), (unsigned long long)q->not_sent);
	sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE, now);
}

/* Sends the gathered frames and completes their requests. False: the socket is full,
 * or the QP has failed. */
static bool put_out(struct qp *qp, struct frames *f, uint64_t now) REQUIRES(qp->lock)
{
	struct packet_qp *q = packet_qp_of(qp);
	struct packets *p = packets_of(qp->core);
	unsigned done = 0;

	while (done < f->n && qp->state == IBV_QPS_RTS) {
		const unsigned echoes = echo_room(p, qp), left = f->n - done;
		int rc;

		/* Frames that other contexts want wait for packets_echo(). */
		if (!echoes) {
			q->full_until = now + 1;
			return false;
		}
		/* A bare system call, because libc's function is a cancellation point
		 * and this thread must not be cancelled here. */
		rc = (int)syscall(SYS_sendmmsg, q->fd, f->msg + done,
				  left < echoes ? left : echoes,
				  MSG_DONTWAIT | MSG_NOSIGNAL);
		if (rc < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)) {
			q->full_until = now + LINK_FULL_NS;
			return false;
		}
		if (rc < 0) {
			frame_refused(qp, errno, now);
			done++;
			continue;
		}
		for (int i = 0; i < rc && qp->state == IBV_QPS_RTS; i++) {
			const uint32_t len = sq_at(&qp->sq, qp->sq.tail)->length;

			qp->tp.traffic.sent++;
			qp->tp.traffic.sent_bytes += len;
			q->next_at = may_begin(q, now) + frame_time(qp, len);
			if (echoes != ECHO_NONE)
				echo_keep(p, qp, &f->span[done + (unsigned)i], len);
			sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE, now);
		}
		done += (unsigned)rc;
	}
	return qp->state == IBV_QPS_RTS;
}

static bool packet_output(struct qp *qp, struct batch *b, uint64_t now)
{
	struct packet_qp *q = packet_qp_of(qp);
	struct frames *f = packets_of(qp->core)->out;
	bool well;

	(void)b;
	qp_is_held(qp);
	if (qp->state != IBV_QPS_RTS || now < q->full_until)
		return false;
	well = gather(qp, f, now);
	if (!put_out(qp, f, now))
		return false;
	qp->core->round.spent += f->n;
	if (!well)
		fail_oldest(qp, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_KEY, now);
	return well && qp->sq.tail != qp->sq.head && q->next_at <= now;
}

static uint64_t packet_run(struct qp *qp, uint64_t now)
{
	const struct packet_qp *q = packet_qp_of(qp);
	uint64_t at = q->full_until > q->next_at ? q->full_until : q->next_at;

	qp_is_held(qp);
	return now < at && qp->sq.tail != qp->sq.head ? at : NEVER;
}

/* --- in -------------------------------------------------------------------- */

static void drop_frame(struct packet_qp *q, uint32_t len, const char *why)
{
	q->dropped++;
	if (log_level >= LOG_INFO && log_allowed(&q->said_dropped))
		log_info("QP 0x%06x: a frame of %u bytes is dropped: %s; %llu are "
			 "dropped so far",
			 q->qp->qpn, len, why, (unsigned long long)q->dropped);
}

static bool receives(const struct qp *qp)
{
	return qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS;
}

/* What a receive gets of a frame. */
struct scattered {
	uint32_t len;
	unsigned pieces;
	struct iovec piece[4];
	uint8_t fcs[4];
};

/* The frame check sequence, with the least significant byte first (IEEE 802.3, 3.2.9). */
static void put_fcs(struct scattered *out, const struct frame_in *in)
{
	uint32_t crc = 0;

	for (unsigned i = 0; i < in->pieces; i++)
		crc = crc32_gzip_refl(crc, in->piece[i].iov_base, in->piece[i].iov_len);
	for (unsigned i = 0; i < 4; i++)
		out->fcs[i] = (uint8_t)(crc >> 8 * i);
	out->piece[out->pieces++] = (struct iovec){ out->fcs, 4 };
	out->len += 4;
}

/* As the QP's flags ask: with the frame check sequence, which is always the one on the
 * wire; without the VLAN tag, which goes into the completion. */
static void choose_parts(struct scattered *out, const struct frame_in *in, uint32_t flags,
			 struct cqe *cqe)
{
	const bool strip = in->cvlan && flags & IBV_QP_CREATE_CVLAN_STRIPPING;

	out->pieces = 0;
	out->len = strip ? in->len - VLAN_TAG : in->len;
	for (unsigned i = 0; i < in->pieces; i++)
		if (!strip || i != 1)
			out->piece[out->pieces++] = in->piece[i];
	if (strip)
		cqe->cvlan = (uint32_t)in->cvlan[2] << 8 | in->cvlan[3];
	if (flags & IBV_QP_CREATE_SCATTER_FCS)
		put_fcs(out, in);
	cqe->byte_len = out->len;
}

static void fill_recv(struct qp *qp, const struct frame_in *frame, uint64_t now)
	REQUIRES(qp->lock)
{
	struct packet_qp *q = packet_qp_of(qp);
	struct target *t = &q->target;
	struct cqe cqe = { .now = now, .opcode = IBV_WC_RECV };
	struct scattered s;

	if (target_take_recv(qp, t)) {
		drop_frame(q, frame->len, "no receive is posted");
		return;
	}
	choose_parts(&s, frame, qp->create_flags, &cqe);
	if (s.len > t->recv.length) {
		drop_frame(q, s.len, "it is longer than the receive");
		return;
	}
	for (unsigned i = 0; i < s.pieces; i++) {
		if (!target_fill_recv(qp, t, s.piece[i].iov_base,
				      (uint32_t)s.piece[i].iov_len))
			continue;
		target_fail_recv(qp, t, REFUSED_RECV_SGE, now);
		qp_fail(qp, false, -1, now);
		return;
	}
	qp->tp.traffic.got++;
	qp->tp.traffic.got_bytes += s.len;
	target_complete(qp, t, &cqe, false);
}

void packet_deliver(struct qp *qp, const struct frame_in *frame, uint64_t now)
{
	const struct spread *s = packet_qp_of(qp)->spread;

	if (s)
		qp = s->table->wq[rss_hash(&s->rss, &frame->head) & (s->table->size - 1)]
			     ->qp;
	lock_take(&qp->lock);
	if (receives(qp))
		fill_recv(qp, frame, now);
	lock_give(&qp->lock);
}

static void packet_describe(const struct qp *qp, char *buf, size_t size)
{
	const struct packet_qp *q = packet_qp_of(qp);

	snprintf(buf, size, "dropped {dropped=%llu}, not sent {not_sent=%llu}",
		 (unsigned long long)q->dropped, (unsigned long long)q->not_sent);
}

const struct transport packet_transport = {
	.name = "packet",
	.open = packet_open,
	.close = packet_close,
	.enter = packet_enter,
	.stream = true,
	.output = packet_output,
	.run = packet_run,
	.describe = packet_describe,
};
