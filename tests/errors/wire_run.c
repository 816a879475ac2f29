/* SPDX-License-Identifier: BSD-2-Clause */
/* wire_run.c - plays a row: both sides prepare, A posts, and both check what they
 * see. */
#include "wire.h"

#include <sys/mman.h>

enum {
	AHEAD = 50,
	FIRST = 1,
	BEHIND = 51,
	BEHIND_LAST = 52,
	RECV = 100,
	RECVS = 2,
	PAGE = 4096,
	UNDER_WAY_MS = 10000,
};

static const struct wire_row *row;

static enum ibv_qp_type type(void)
{
	return row->type ? row->type : IBV_QPT_RC;
}

static bool atomic(void)
{
	return row->op == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       row->op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static uint32_t length(void)
{
	return atomic() || row->op == IBV_WR_ATOMIC_WRITE ? 8
	       : row->length				  ? row->length
							  : 64;
}

static bool fails(void)
{
	return row->a.wc != WC(SUCCESS);
}

/* --- spoiled keys -------------------------------------------------------- */

static struct ibv_sge unmapped(struct side *s, uint32_t len)
{
	size_t bytes = (len + PAGE - 1) / PAGE * PAGE;
	/* The pages of both sides stay mapped, so that no larger mapping can take this
	 * place. */
	uint8_t *at = mmap(NULL, bytes + 2 * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	CHECK(at != MAP_FAILED);
	at += PAGE;
	mr = extra_mr(s, ibv_reg_mr(s->pd, at, bytes, ALL_ACCESS));
	munmap(at, bytes);
	return (struct ibv_sge){ (uintptr_t)at, len, mr->lkey };
}

struct ibv_sge spoil(struct side *s, enum key key, uint32_t at, uint32_t len, int needed)
{
	struct ibv_sge good = local(s, at, len);
	unsigned rights = ALL_ACCESS & ~(unsigned)needed;
	struct ibv_mr *mr;

	if (needed & IBV_ACCESS_LOCAL_WRITE)
		rights = IBV_ACCESS_REMOTE_READ;
	switch (key) {
	case KEY_GOOD:
	case KEYS:
		break;
	case KEY_ZERO:
		good.lkey = 0;
		break;
	case KEY_UNKNOWN:
		good.lkey = 0xdeadbe00;
		break;
	case KEY_GENERATION:
		good.lkey ^= 1;
		break;
	case KEY_STALE:
		mr = ibv_reg_mr(s->pd, s->buf, BUF, ALL_ACCESS);
		CHECK(mr);
		good.lkey = mr->lkey;
		CHECK(!ibv_dereg_mr(mr));
		break;
	case KEY_BELOW:
	case KEY_ABOVE:
		mr = ibv_reg_mr(s->pd, s->buf + at, len, ALL_ACCESS);
		good.lkey = extra_mr(s, mr)->lkey;
		/* by one unit: atomics must stay aligned */
		good.addr += key == KEY_ABOVE ? 8 : (uint64_t)-8;
		break;
	case KEY_WRAP:
		good.addr = (uint64_t)-8;
		break;
	case KEY_OTHER_PD:
		good.lkey =
			extra_mr(s, ibv_reg_mr(s->pd2, s->buf, BUF, ALL_ACCESS))->lkey;
		break;
	case KEY_NO_ACCESS:
		mr = ibv_reg_mr_iova2(s->pd, s->buf, BUF, (uintptr_t)s->buf, rights);
		good.lkey = extra_mr(s, mr)->lkey;
		break;
	case KEY_UNMAPPED:
		return unmapped(s, len);
	}
	return good;
}

static uint8_t fill(const struct side *s)
{
	return s->is_b ? 0x5a : 0xa5;
}

static int remote_right(void)
{
	return atomic()			     ? IBV_ACCESS_REMOTE_ATOMIC
	       : row->op == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ
					     : IBV_ACCESS_REMOTE_WRITE;
}

/* --- preparing ----------------------------------------------------------- */

static void make(struct side *s)
{
	struct ibv_sge target;

	memset(s->buf, fill(s), BY_AT);
	s->qp = qp_make(s, type());
	s->mine.qpn = s->qp->qp_num;
	if (!s->is_b)
		return;
	target = spoil(s, row->rkey, TARGET_AT, length(), remote_right());
	s->mine.addr = target.addr;
	s->mine.rkey = target.lkey;
	if (row->peer ==
	    PEER_GONE) /* the number of a destroyed QP is not used again for a while */
		CHECK(!ibv_destroy_qp(s->qp));
}

static enum ibv_qp_state last_state(const struct side *s)
{
	if (!s->is_b)
		return IBV_QPS_RTS;
	switch (row->peer) {
	case PEER_UP:
	case PEER_ERR:
		break;
	case PEER_GONE:
	case PEER_RESET:
		return IBV_QPS_RESET;
	case PEER_INIT:
		return IBV_QPS_INIT;
	}
	return IBV_QPS_RTS;
}

static void bring_up(struct side *s)
{
	struct ibv_qp_attr a = qp_attr(s, &s->theirs);

	if (s->is_b)
		a.qp_access_flags &= ~row->no_right;
	if (row->attr)
		row->attr(&a, s->is_b);
	for (int to = IBV_QPS_INIT; to <= (int)last_state(s); to++)
		qp_to(s->qp, &a, (enum ibv_qp_state)to);
}

static void receives(struct side *s)
{
	uint32_t len = row->recv_length ? row->recv_length : 4096;
	struct ibv_sge sge =
		spoil(s, row->recv_key, RECV_AT, len, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	if (row->no_recv || row->peer == PEER_GONE || row->peer == PEER_RESET)
		return;
	for (wr.wr_id = RECV; wr.wr_id < RECV + RECVS; wr.wr_id++)
		CHECK(!ibv_post_recv(s->qp, &wr, &bad));
	if (row->peer == PEER_ERR)
		CHECK(!ibv_modify_qp(s->qp,
				     &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR },
				     IBV_QP_STATE));
}

/* --- a ------------------------------------------------------------------- */

static void address(struct side *s, struct ibv_send_wr *wr, struct ibv_ah *ah)
{
	if (type() == IBV_QPT_UD) {
		wr->wr.ud.ah = ah;
		wr->wr.ud.remote_qpn = s->theirs.qpn;
		wr->wr.ud.remote_qkey = QKEY ^ row->qkey_xor;
	} else if (atomic()) {
		wr->wr.atomic.remote_addr = s->theirs.addr + row->skew;
		wr->wr.atomic.rkey = s->theirs.rkey;
		wr->wr.atomic.compare_add = 0x5a5a5a5a5a5a5a5a;
		wr->wr.atomic.swap = 1;
	} else {
		wr->wr.rdma.remote_addr = s->theirs.addr + row->skew;
		wr->wr.rdma.rkey = s->theirs.rkey;
		if (row->inv_wrong)
			wr->invalidate_rkey = s->theirs.by_rkey;
	}
}

/* One good request goes ahead of the failing one, and two are flushed behind it,
 * signaled or not; all are in one chain, so that they are outstanding at the same
 * time. */
static void post_all(struct side *s, struct ibv_ah *ah)
{
	const bool extra = fails() && row->peer == PEER_UP && type() != IBV_QPT_UD &&
			   !(row->no_right & IBV_ACCESS_REMOTE_WRITE);
	unsigned n = row->count ? row->count : 1, k = 0;
	struct ibv_sge sge =
		spoil(s, row->lkey, 0, length(),
		      row->op == IBV_WR_RDMA_READ || atomic() ? IBV_ACCESS_LOCAL_WRITE
							      : 0);
	struct ibv_send_wr wr[16], *bad;

	if (extra)
		wr[k++] = wr_of(IBV_WR_RDMA_WRITE, NULL, AHEAD);
	for (unsigned i = 0; i < n; i++, k++) {
		wr[k] = wr_of(row->op, &sge, FIRST + i);
		address(s, &wr[k], ah);
	}
	if (fails()) {
		wr[k] = wr[k - 1];
		wr[k].send_flags = 0;
		wr[k++].wr_id = BEHIND;
		wr[k] = wr[k - 1];
		wr[k++].wr_id = BEHIND_LAST;
	}
	for (unsigned i = 0; i + 1 < k; i++)
		wr[i].next = &wr[i + 1];
	CHECK(!ibv_post_send(s->qp, wr, &bad));
	if (extra)
		expect(s->scq, AHEAD, IBV_WC_SUCCESS, V_NONE);
}

/* If several requests are posted, those before the failing one may succeed. */
static void first_completion(struct side *s)
{
	struct ibv_wc wc;
	unsigned i = 0, n = row->count ? row->count : 1;

	do {
		CHECK(poll_one(s->scq, &wc, 10000));
		CHECK(wc.wr_id == FIRST + i);
	} while (++i < n && wc.status == IBV_WC_SUCCESS);
	if ((int)wc.status != row->a.wc - 1 || wc.vendor_err != row->a.verr) {
		say("a: %s, vendor_err %u", ibv_wc_status_str(wc.status), wc.vendor_err);
		broken(__FILE__, __LINE__, "the status is the expected one");
	}
	CHECK(wc.qp_num == s->qp->qp_num);
	for (; i < n; i++)
		expect(s->scq, FIRST + i, IBV_WC_WR_FLUSH_ERR, V_FLUSHED);
	if (!fails())
		return;
	expect(s->scq, BEHIND, IBV_WC_WR_FLUSH_ERR, V_FLUSHED);
	expect(s->scq, BEHIND_LAST, IBV_WC_WR_FLUSH_ERR, V_FLUSHED);
}

static void act(struct side *s)
{
	struct ibv_ah *ah = NULL;
	uint64_t start = now_ms(), took;

	if (type() == IBV_QPT_UD)
		CHECK((ah = ah_to(s, &s->theirs.gid)));
	post_all(s, ah);
	first_completion(s);
	took = now_ms() - start;
	if (took < row->min_ms || (row->max_ms && took > row->max_ms)) {
		say("took %llu ms", (unsigned long long)took);
		broken(__FILE__, __LINE__, "it takes as long as it should");
	}
	if (ah)
		CHECK(!ibv_destroy_ah(ah));
}

/* --- both ---------------------------------------------------------------- */

static void look_state(struct side *s, const struct seen *seen)
{
	enum ibv_qp_state want = seen->state, got = state_of(s->qp);

	if (want == 0 && (!s->is_b || row->peer == PEER_UP))
		want = IBV_QPS_RTS;
	if (got != want) {
		say("side %c is in state %d, not %d", s->is_b ? 'b' : 'a', got, want);
		broken(__FILE__, __LINE__, "the state is the expected one");
	}
}

static void look_events(struct side *s, const struct seen *seen)
{
	if (seen->event)
		expect_event(s, seen->event - 1, s->qp);
	expect_no_event(s);
}

/* A refused request has not changed a byte on either side. */
static void look_memory(struct side *s)
{
	const bool refused = fails() || row->rkey || row->no_right;
	uint32_t from = refused ? 0 : length();

	if ((s->is_b && !refused) || row->count)
		return;
	if (atomic() && row->lkey == KEY_UNMAPPED)
		return; /* the request was executed, but its result is lost */
	for (uint32_t i = from; i < RECV_AT; i++)
		CHECK(s->buf[i] == fill(s));
}

static void look_b_receives(struct side *s)
{
	uint64_t id = RECV;
	struct ibv_wc wc;

	if (row->no_recv || row->peer == PEER_RESET)
		return;
	if (row->b.wc) {
		wc = expect(s->rcq, id++, row->b.wc - 1, row->b.verr);
		CHECK(wc.qp_num == s->qp->qp_num);
	}
	if (row->b.state == IBV_QPS_ERR)
		for (; id < RECV + RECVS; id++)
			expect(s->rcq, id, IBV_WC_WR_FLUSH_ERR, V_FLUSHED);
}

static void look_a(struct side *s)
{
	look_state(s, &row->a);
	look_events(s, &row->a);
	look_memory(s);
	log_must(row->a.log);
}

/* No answer tells when an unreliable service has delivered a message, and it may take a
 * while: on one host another process may have to forward the datagram. */
static void wait_for_log(const char *re)
{
	struct ibv_wc wc;
	uint64_t end = now_ms() + UNDER_WAY_MS;

	while (type() != IBV_QPT_RC && !log_has(re) && now_ms() < end)
		poll_one(side(true)->rcq, &wc, 1);
}

static void look_b(struct side *s)
{
	if (row->peer == PEER_GONE)
		return;
	if (!row->b.wc)
		wait_for_log(row->b.log);
	look_b_receives(s);
	look_state(s, &row->b);
	look_events(s, &row->b);
	look_memory(s);
	log_must(row->b.log);
}

/* A QP that has failed works again after RESET. */
static void reset(struct side *s)
{
	struct ibv_qp_attr a = qp_attr(s, &s->theirs);

	if (row->peer == PEER_GONE)
		return;
	a.sq_psn = a.rq_psn = 0x777;
	for (int to = IBV_QPS_RESET; to <= IBV_QPS_RTS; to++)
		qp_to(s->qp, &a, (enum ibv_qp_state)to);
	if (s->is_b)
		CHECK(!post_recv(s, RECV, 4096));
}

static void again(struct side *s)
{
	struct ibv_sge sge = local(s, 0, 3000);
	struct ibv_send_wr wr = wr_of(IBV_WR_SEND, &sge, 7);
	struct ibv_ah *ah;

	CHECK((ah = ah_to(s, &s->theirs.gid)));
	if (type() == IBV_QPT_UD) {
		sge.length = 100;
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = s->theirs.qpn;
		wr.wr.ud.remote_qkey = QKEY;
	}
	CHECK(!post_send(s->qp, &wr));
	expect(s->scq, 7, IBV_WC_SUCCESS, V_NONE);
	CHECK(!ibv_destroy_ah(ah));
}

static void revive(void)
{
	sync_sides();
	each(reset);
	sync_sides();
	if (row->peer == PEER_GONE)
		return;
	if (plays(false))
		again(side(false));
	if (plays(true))
		expect(side(true)->rcq, RECV, IBV_WC_SUCCESS, V_NONE);
	sync_sides();
}

static void drop(struct side *s)
{
	if (s->is_b && row->peer == PEER_GONE)
		s->qp = qp_make(s, type());
	qp_drop(s);
}

static const struct wire_row *row_at(unsigned i)
{
	return i < fixed_count ? &fixed_rows[i] : product_row(i - fixed_count);
}

unsigned wire_count(void)
{
	static unsigned n;

	while (!n || row_at(n))
		n++;
	return n;
}

const char *wire_name(unsigned i)
{
	return row_at(i)->name;
}

void wire_run(unsigned i)
{
	row = row_at(i);
	each(make);
	sync_sides();
	each(bring_up);
	if (plays(true))
		receives(side(true));
	sync_sides();
	if (plays(false)) {
		act(side(false));
		look_a(side(false));
	}
	sync_sides();
	if (plays(true))
		look_b(side(true));
	revive();
	each(drop);
	sync_sides();
}
