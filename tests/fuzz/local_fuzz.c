/* SPDX-License-Identifier: BSD-2-Clause */
/* A hostile process of the same host: what it writes into the shared memory,
 * between work requests and the passing of time, against an RC and a UC QP
 * that lead there.
 *
 * The input: a byte (bit 0: memory may be reached directly), then a list of steps: a byte
 * that says what (enum act, modulo), and what that takes (STEP below).  Bytes that are
 * missing are 0.  For each input there are two new processes.
 *
 * Beside crashes it looks for: memory written that no peer may write, more
 * completions than requests, and harm to QPs that do not lead there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ib/ib.h"
#include "ib/sim.h"
#include "input.h"
#include "must.h"
#include "same_host.h"
#include "shm/peer.h"
#include "shm/shm.h"
#include "shm/shm_qp.h"
#include "sys/log.h"
#include "verbs/due.h"
#include "verbs/mr.h"

enum act {
	RECORD, /* how (enum how), opcode, flags, life (from what it is), PSN (1, signed,
		 * from what is expected), va, len (2 each), payload's length   in units
		 * of 16 (2), data */
	RAW,	/* bytes (4), then 16 bytes of a header, with a right stamp */
	SCRIBBLE, /* slot (2), then 16 bytes there */
	WORD,	  /* which (modulo 4), value (1: from what it is; 4: as it is) */
	RECV,	  /* bit 0: QP; rest: SGE length in units of 64 */
	SEND,	  /* bit 0: QP; bits 1-3: kind; then length in units of 64 */
	TIME,	  /* bits 0-4: 2^n microseconds, 2^17 at most */
	POLL,	  /* polls the CQ */
	EXECUTED, /* bit 0: QP; bit 1: another word, by 4 bytes more; bit 2: without
		   * news; bit 3: the count jumps, by a byte more; PSN (1, signed, from
		   * the oldest that is out) */
	STEPS
};

/* flags of a RECORD */
enum how {
	HOW_UC = 1,	  /* for the UC QP */
	HOW_STRANGER = 2, /* from another path */
	HOW_ANSWER = 4,	  /* the PSN counts from the oldest outstanding request */
	HOW_KEY = 24,	  /* the region: open, read-only, foreign, none */
	HOW_DGRAM = 32,
};

enum { REGION = 8192, WRS = 8 };

struct world {
	struct sim *s;
	struct sim_conf conf;
	/* Ours: B as A sees it; theirs: A as B sees it. */
	struct peer *ours, *theirs;
	/* RC and UC QPs: of A, of B, and of A to itself. */
	struct qp *qp[2], *far[2], *self[2];
	struct cq *cq, *far_cq, *self_cq;
	uint8_t *mem[3]; /* memory of regions: open, read-only, and of another PD */
	struct mr *mr[3];
	struct pd *pd;
	unsigned posted, completed;
};

/* --- the world ----------------------------------------------------------- */

static void open_regions(struct world *w)
{
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct sim_node *a = &w->s->node[0];

	MUST(pd_alloc(&a->core, &a->ibv, &w->pd) == 0);
	for (int i = 0; i < 3; i++) {
		w->mem[i] = aligned_alloc(64, REGION);
		MUST(w->mem[i]);
		memset(w->mem[i], 0xa5, REGION);
		MUST(mr_reg(i == 2 ? w->pd : a->pd, w->mem[i], REGION, 0,
			    i == 1 ? IBV_ACCESS_REMOTE_READ : all, &w->mr[i]) == 0);
	}
}

static void open_qps(struct world *w)
{
	static const enum ibv_qp_type type[2] = { IBV_QPT_RC, IBV_QPT_UC };
	const struct ibv_qp_cap cap = {
		.max_send_wr = WRS,
		.max_recv_wr = WRS,
		.max_send_sge = 2,
		.max_recv_sge = 2,
	};

	w->cq = sim_cq(w->s, 0, 256);
	w->self_cq = sim_cq(w->s, 0, 16);
	w->far_cq = sim_cq(w->s, 1, 16);
	for (int i = 0; i < 2; i++) {
		w->qp[i] = sim_qp(w->s, 0, type[i], w->cq, w->cq, NULL, &cap);
		w->far[i] = sim_qp(w->s, 1, type[i], w->far_cq, w->far_cq, NULL, &cap);
		w->self[i] =
			sim_qp(w->s, 0, IBV_QPT_RC, w->self_cq, w->self_cq, NULL, &cap);
	}
	for (int i = 0; i < 2; i++) {
		sim_bring(w->s, w->qp[i], w->far[i], &w->conf);
		sim_bring(w->s, w->far[i], w->qp[i], &w->conf);
		sim_bring(w->s, w->self[i], w->self[!i], &w->conf);
	}
	for (int i = 0; i < 2; i++) /* the addresses are as in two processes */
		shm_qp(w->self[i])->head.route = shm_qp(w->self[i])->route_in;
}

static struct world *world_open(bool pipe_only)
{
	struct world *w = calloc(1, sizeof(*w));

	MUST(w);
	w->conf = (struct sim_conf){
		.same_host = true,
		.pipe_only = pipe_only,
		.path_mtu = IBV_MTU_256,
		.rd_atomic = 4,
		.timeout = 12,
		.retry_cnt = 2,
		.rnr_retry = 2,
	};
	have_nics(&w->conf);
	w->s = enter_host(&w->conf);
	open_regions(w);
	open_qps(w);
	MUST(sim_run(w->s, 100 * SAY_AGAIN_NS));
	w->ours = shm_qp(w->qp[0])->peer;
	w->theirs = shm_qp(w->far[0])->peer;
	MUST(w->ours->state == PEER_UP && w->theirs->state == PEER_UP);
	w->s->node[1].stopped = true;
	return w;
}

static void poll_cq(struct world *w)
{
	struct ibv_wc wc[16];
	int n;

	while ((n = cq_poll(w->cq, 16, wc)) > 0)
		w->completed += (unsigned)n;
	MUST(w->completed <= w->posted);
	while (sim_event(w->s, 0) >= 0)
		;
}

/* QPs that are not connected to the hostile process go on as before. */
static void self_is_unharmed(struct world *w)
{
	struct ibv_sge sge = sim_sge(w->mr[0], 0, 1000);
	struct ibv_sge to = sim_sge(w->mr[0], 4000, 1000);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_wc wc;

	memset(w->mem[0], 0x77, 1000);
	sim_recv(w->self[1], 1, &to, 1);
	sim_send(w->self[0], &wr);
	for (int i = 0; i < 2; i++) {
		MUST(sim_wait(w->s, w->self_cq, 1000000, &wc));
		MUST(wc.status == IBV_WC_SUCCESS);
	}
	MUST(memcmp(w->mem[0], w->mem[0] + 4000, 1000) == 0);
}

static void world_close(struct world *w)
{
	poll_cq(w);
	self_is_unharmed(w);
	for (int i = 1; i < 3; i++)
		for (int j = 0; j < REGION; j++)
			MUST(w->mem[i][j] == 0xa5);
	for (int i = 0; i < 2; i++) {
		sim_destroy(w->s, w->qp[i]);
		sim_destroy(w->s, w->far[i]);
		sim_destroy(w->s, w->self[i]);
	}
	poll_cq(w);
	MUST(cq_destroy(w->cq) == 0 && cq_destroy(w->far_cq) == 0 &&
	     cq_destroy(w->self_cq) == 0);
	/* Otherwise deregistration would wait. */
	atomic_store(w->theirs->reach.inside, 0);
	for (int i = 0; i < 3; i++) {
		MUST(mr_dereg(w->mr[i]) == 0);
		free(w->mem[i]);
	}
	MUST(pd_free(w->pd) == 0);
	leave_host(w->s);
	free(w);
}

/* --- steps --------------------------------------------------------------- */

static struct rec *reserve(struct world *w, uint32_t bytes)
{
	struct rec *r = ring_reserve(&w->theirs->out, bytes);

	if (!r) { /* the hostile process lies about the ring's state, too */
		w->theirs->out.tail = w->theirs->out.head;
		r = ring_reserve(&w->theirs->out, bytes);
	}
	return r;
}

static void wake(struct world *w)
{
	if (w->ours->state == PEER_UP)
		peer_heat(w->ours);
}

static void step_record(struct world *w, struct input *in)
{
	unsigned how = take(in, 1);
	int uc = how & HOW_UC;
	struct qp *qp = w->qp[uc];
	struct rec r = {
		.kind = REC_SEGMENT,
		.opcode = (uint8_t)take(in, 1),
		.flags = (uint8_t)take(in, 1),
		.life = (uint8_t)take(in, 1),
		.dst = qp->qpn,
		.src = w->far[uc]->qpn,
	};
	uint32_t len;
	struct rec *to;

	r.life ^= shm_qp(w->far[uc])->head.life;
	r.route = shm_qp(qp)->route_in;
	r.psn = how & HOW_ANSWER ? shm_qp(qp)->src.s.una : shm_qp(qp)->dst.expected;
	r.psn += (uint32_t)(int8_t)take(in, 1);
	r.va = take(in, 2);
	r.len = take(in, 2);
	len = take(in, 2) % (RING_CHUNK / 16 + 1) * 16;
	r.data = take(in, 1);
	len -= len ? r.data % 16 : 0;
	r.rkey = (how & HOW_KEY) == HOW_KEY ? r.data : w->mr[how >> 3 & 3]->mkey.key;
	if (segment_is_answered(r.opcode))
		r.psn = (r.psn & PSN_MASK) | r.data % 8 << OUTSTANDING_AT;
	r.route += !!(how & HOW_STRANGER);
	if (how & HOW_DGRAM)
		r.kind = REC_DGRAM;
	to = reserve(w, rec_head(&r) + len);
	memcpy(to, &r, rec_head(&r));
	memset((uint8_t *)to + rec_head(&r), (int)r.data, len);
	ring_publish(&w->theirs->out, to, rec_head(&r) + len);
	wake(w);
}

static void step_raw(struct world *w, struct input *in)
{
	uint32_t bytes = take(in, 4);
	struct rec *to = reserve(w, REC_HEAD_WIDE);

	for (unsigned i = 8; i < 24; i++)
		((uint8_t *)to)[i] = (uint8_t)take(in, 1);
	ring_publish(&w->theirs->out, to, REC_HEAD_WIDE);
	to->bytes = bytes;
	wake(w);
}

static void step_scribble(struct world *w, struct input *in)
{
	uint8_t *at = w->theirs->out.s->slot[take(in, 2) % RING_SLOTS];

	for (int i = 0; i < 16; i++)
		at[i] = (uint8_t)take(in, 1);
}

static void step_word(struct world *w, struct input *in)
{
	unsigned which = take(in, 1);
	_Atomic uint32_t *word = (_Atomic uint32_t *[]){
		&w->ours->out.s->tail,
		&w->ours->out.s->want_kick,
		&w->theirs->out.s->want_space,
		NULL,
	}[which % 4];

	if (!word)
		atomic_store(w->theirs->reach.inside, (uint64_t)take(in, 4)
							      << INSIDE_KEY_AT);
	else if (which & 4)
		atomic_store(word, take(in, 4));
	else
		atomic_fetch_add(word, (uint32_t)(int8_t)take(in, 1));
	wake(w);
}

/* Writes words that say which requests the hostile process has executed. */
static void step_executed(struct world *w, struct input *in)
{
	unsigned how = take(in, 1);
	struct qp *qp = w->qp[how & 1];
	uint32_t psn = shm_qp(qp)->src.s.una + (uint32_t)(int8_t)take(in, 1);
	uint64_t word = shm_qp(qp)->src.says | (psn & PSN_MASK);

	if (how & 2)
		word ^= (uint64_t)take(in, 4) << 20;
	atomic_store(&w->theirs->executed[qpn_index(w->far[how & 1]->qpn)], word);
	if (how & 8)
		w->theirs->nudged += take(in, 1);
	if (!(how & 4))
		peer_nudge(w->theirs, word);
	wake(w);
}

static void step_recv(struct world *w, struct input *in)
{
	unsigned v = take(in, 1);
	struct ibv_sge sge = sim_sge(w->mr[0], 0, (v >> 1) * 64 % REGION);
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	w->posted += qp_post_recv(w->qp[v & 1], &wr, &bad) >= 0;
}

static void step_send(struct world *w, struct input *in)
{
	/* clang-format off */
	static const enum ibv_wr_opcode op[8] = {
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV,
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	/* clang-format on */
	unsigned v = take(in, 1);
	struct ibv_sge sge = sim_sge(w->mr[0], 0, take(in, 1) * 64 % REGION);
	struct ibv_send_wr wr = {
		.opcode = op[v >> 1 & 7], .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED | (v & 16 ? IBV_SEND_FENCE : 0),
	}, *bad;
	struct qp *qp = w->qp[v & 1];

	if ((v >> 1 & 7) >= 6)
		sge.length = 8;
	wr.wr.rdma.rkey = 1;
	if (qp_post_send(qp, &wr, &bad) < 0)
		return;
	w->posted++;
	due_add(qp->core, qp);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct world *w;

	if (size > 4096)
		return 0;
	log_level = LOG_ERROR;
	w = world_open(!(take(&in, 1) & 1));
	while (in.at < in.end) {
		switch ((enum act)(take(&in, 1) % STEPS)) {
		case RECORD:
			step_record(w, &in);
			break;
		case RAW:
			step_raw(w, &in);
			break;
		case SCRIBBLE:
			step_scribble(w, &in);
			break;
		case WORD:
			step_word(w, &in);
			break;
		case EXECUTED:
			step_executed(w, &in);
			break;
		case RECV:
			step_recv(w, &in);
			break;
		case SEND:
			step_send(w, &in);
			break;
		case TIME:
			sim_run(w->s, UINT64_C(1000) << take(&in, 1) % 18);
			break;
		case POLL:
			poll_cq(w);
			break;
		case STEPS:
			break;
		}
	}
	sim_run(w->s, 1000);
	world_close(w);
	return 0;
}
