/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - for tests: a connected pair of two processes of one host, in virtual time;
 * reads their rings, and writes anything into them. Requests are posted by the thread
 * that posts (post_now()), as driver/ does. */
#ifndef SHM_FIX_H
#define SHM_FIX_H

#include "ib/fix.h"
#include "shm/peer.h"
#include "shm/shm.h"
#include "shm/shm_qp.h"

/* The peer that side has for the other side. */
static inline struct peer *pair_peer(const struct fix *f, int side)
{
	struct peers *l = peers_of(&f->s->node[side].core);

	return l->by_slot[f->s->node[!side].core.slot];
}

static inline struct qp *pair_qp(const struct fix *f, int side)
{
	return f->p.qp[side];
}

static inline struct shm_qp *pair_shm(const struct fix *f, int side)
{
	assert_ptr_equal(f->p.qp[side]->transport, &shm_transport);
	return shm_qp(f->p.qp[side]);
}

/* The source of side's requests. */
static inline struct send_source *pair_source(const struct fix *f, int side)
{
	return &pair_shm(f, side)->src.s;
}

/* The word by which the peer says that all requests of side before number `to` were
 * executed. */
static inline uint64_t pair_word(const struct fix *f, int side, uint32_t to)
{
	return pair_shm(f, side)->src.says | to;
}

static inline struct send_cursor *pair_cursor(const struct fix *f, int side)
{
	return &pair_shm(f, side)->src.at;
}

/* The number of the request that side expects. */
static inline uint32_t *pair_expected(const struct fix *f, int side)
{
	return &pair_shm(f, side)->dst.expected;
}

/* A has rnr_retry and retry_cnt 0: what had to be repeated would end its QP. */
static inline struct fix *pair_strict(struct fix *f)
{
	f->p.qp[0]->attr.rnr_retry = pair_source(f, 0)->rnr_left = 0;
	f->p.qp[0]->attr.retry_cnt = pair_source(f, 0)->retry_left = 0;
	return f;
}

/* Puts side's QP into the export table with the rights that it has now. */
static inline void pair_show(struct fix *f, int side)
{
	way_show(pair_shm(f, side));
}

/* What side's QP remembers of the other's memory. */
static inline const struct allowed *pair_allowed(const struct fix *f, int side)
{
	return &pair_shm(f, side)->allowed;
}

/* Opens a pair. If conf is NULL, all requests go through the pipe. */
static inline struct fix *pair_open(enum ibv_qp_type type, const struct sim_conf *conf)
{
	struct sim_conf c = { .pipe_only = true };
	struct fix *f;

	if (conf)
		c = *conf;
	c.same_host = true;
	f = fix_open(type, &c);
	fix_quiet(f);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pair_peer(f, i)->state, PEER_UP);
		assert_int_equal(pair_peer(f, i)->reach.vm, !c.pipe_only);
	}
	return f;
}

static inline void pair_run(struct fix *f, uint64_t ns)
{
	sim_run(f->s, ns);
}

/* The process of side runs no more; records for it wait. */
static inline void pair_stop(struct fix *f, int side)
{
	f->s->node[side].stopped = true;
}

static inline void pair_go(struct fix *f, int side)
{
	f->s->node[side].stopped = false;
}

/* Reads the records that side has written and the other has not read yet.  Returns their
 * number. */
static inline unsigned pair_look(const struct fix *f, int side, struct rec *out,
				 unsigned max)
{
	struct ring_in eye = pair_peer(f, !side)->in;
	const uint8_t *payload;
	unsigned n = 0;
	uint32_t len;

	while (n < max && ring_next(&eye, &out[n], &payload, &len) == 1) {
		if (out[n].flags & REC_WIDE)
			ring_more(&out[n], payload);
		ring_release(&eye, &out[n++]);
	}
	return n;
}

/* Fills the ring until no request has room, or (answers) no answer either. */
static inline void pair_fill_up(struct fix *f, int side, bool answers)
{
	struct core *core = &f->s->node[side].core;
	struct peer *p = pair_peer(f, side);
	struct rec *r;

	turn_take(&core->turn);
	while ((r = answers ? ring_reserve_answer(&p->out)
			    : ring_reserve(&p->out, REC_HEAD)) != NULL) {
		*r = (struct rec){ .kind = REC_SEGMENT, .opcode = SEGMENT_ONLY };
		ring_publish(&p->out, r, REC_HEAD);
	}
	peer_wrote(p);
	peers_flush(peers_of(core));
	turn_give(&core->turn);
}

/* Fills the ring until no record has room; the reader knows that it is full. */
static inline void pair_fill(struct fix *f, int side)
{
	pair_fill_up(f, side, true);
}

/* The name of the kind of segment in a record. */
static inline const char *rec_name(const struct rec *r)
{
	static const char *const segments[KINDS] = {
		[KIND_READ] = "READ_REQUEST",
		[KIND_CMP_SWAP] = "CMP_SWAP",
	};

	return segments[segment_kind(r->opcode)];
}

/* The PSN of side's next request. */
static inline uint32_t pair_psn(const struct fix *f, int side)
{
	return pair_cursor(f, side)->psn;
}

/* Takes the QP through its states again, with the first PSNs of conf. */
static inline void pair_again(struct fix *f, int side)
{
	fix_modify(f, side, IBV_QPS_RESET);
	sim_bring(f->s, f->p.qp[side], f->p.qp[!side], &f->conf);
}

/* Checks that side got this asynchronous event and no other. */
static inline void pair_event(struct fix *f, int side, int event)
{
	assert_int_equal(sim_event(f->s, side), event);
	assert_int_equal(sim_event(f->s, side), -1);
}

/* When the rings have work without input, as a thread that goes to sleep finds. */
static inline NO_TSA uint64_t fix_deadline(struct peers *l)
{
	turn_take(&l->core->turn);
	(void)l->source.ops->sleeps(&l->source, true);
	turn_give(&l->core->turn);
	return source_at(&l->source);
}

/* The memory of either process may be reached directly. */
static inline struct fix *direct_segments(enum ibv_qp_type type, struct sim_conf conf)
{
	struct fix *f;

	f = pair_open(type, &conf);
	for (int i = 0; i < 2; i++)
		assert_ptr_equal(f->p.qp[i]->transport, &shm_transport);
	return f;
}

static inline struct fix *open_pair_of(enum ibv_qp_type type, struct sim_conf conf)
{
	if (!conf.late)
		conf.late = RECV_WAIT_NS;
	conf.pipe_only = true;
	return direct_segments(type, conf);
}

static inline struct fix *open_pair(struct sim_conf conf)
{
	return open_pair_of(IBV_QPT_RC, conf);
}

static inline struct fix *plain_pair(void)
{
	return open_pair((struct sim_conf){ .psn = { 0xfffff0, 7 } });
}

static inline struct ibv_send_wr send_wr(uint64_t id, struct ibv_sge *sge, int n,
					 unsigned flags)
{
	return (struct ibv_send_wr){
		.wr_id = id,
		.opcode = IBV_WR_SEND,
		.sg_list = sge,
		.num_sge = n,
		.send_flags = flags | IBV_SEND_SIGNALED,
	};
}

/* Posts as driver/ does. */
static inline void post_now(struct qp *qp, struct ibv_send_wr *wr)
{
	enum post_left left;

	wr = qp->transport->post(qp, wr, &left);
	if (wr)
		sim_send(qp, wr);
	else if (left == POST_DUE)
		due_add(qp->core, qp);
}

/* One SGE, of len bytes at offset `at` of side's memory. */
static inline void post_at(struct fix *f, int side, uint64_t id, size_t at, uint32_t len,
			   unsigned flags)
{
	struct ibv_sge sge = sim_sge(f->mr[side], at, len);
	struct ibv_send_wr wr = send_wr(id, &sge, 1, flags);

	if (flags & IBV_SEND_INLINE)
		sge.addr = (uintptr_t)f->mem[side] + at;
	post_now(f->p.qp[side], &wr);
}

static inline void recv_at(struct fix *f, int side, uint64_t id, size_t at, uint32_t len)
{
	struct ibv_sge sge = sim_sge(f->mr[side], at, len);

	sim_recv(f->p.qp[side], id, &sge, 1);
}

/* Posts a WRITE or another request to the peer's memory: len bytes of side's memory at
 * `at`, to `to` there. */
static inline void post_to(struct fix *f, int side, enum ibv_wr_opcode opcode,
			   uint64_t id, size_t at, size_t to, uint32_t len, uint32_t imm)
{
	struct ibv_sge sge = sim_sge(f->mr[side], at, len);
	struct ibv_send_wr wr = send_wr(id, &sge, 1, 0);

	wr.opcode = opcode;
	wr.imm_data = imm;
	wr.wr.rdma.remote_addr = f->mr[!side]->mkey.base + to;
	wr.wr.rdma.rkey = f->mr[!side]->mkey.key;
	post_now(f->p.qp[side], &wr);
}

/* WRITEs of data that lies in two pieces of memory, and inline. */
static inline void write_pieces(struct fix *f)
{
	struct ibv_sge sge[2] = { sim_sge(f->mr[0], 100, 3), sim_sge(f->mr[0], 200, 5) };
	struct ibv_send_wr wr = send_wr(1, sge, 2, 0);

	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = f->mr[1]->mkey.base + 5000;
	wr.wr.rdma.rkey = f->mr[1]->mkey.key;
	post_now(f->p.qp[0], &wr);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_memory_equal(f->mem[1] + 5000, f->mem[0] + 100, 3);
	assert_memory_equal(f->mem[1] + 5003, f->mem[0] + 200, 5);
	sge[0].addr = (uintptr_t)f->mem[0] + 300;
	wr.num_sge = 1;
	wr.send_flags |= IBV_SEND_INLINE;
	post_now(f->p.qp[0], &wr);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_memory_equal(f->mem[1] + 5000, f->mem[0] + 300, 3);
}

/* More pairs of RC QPs between the two processes. */
static inline void open_more(struct fix *f, struct sim_pair *p, unsigned n,
			     struct sim_conf conf)
{
	conf.same_host = conf.pipe_only = true;
	for (unsigned i = 0; i < n; i++)
		p[i] = sim_pair(f->s, IBV_QPT_RC, &conf);
	pair_run(f, MS);
}

static inline void close_more(struct fix *f, const struct sim_pair *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sim_unpair(f->s, &p[i]);
}

/* A READ by a QP of side 0 of more than it asks for at once: it takes ASKS places. */
enum { MUCH = 300000 };
static inline void read_much(struct fix *f, struct qp *qp, uint64_t id)
{
	struct ibv_sge sge = sim_sge(f->mr[0], MUCH, MUCH);
	struct ibv_send_wr wr = send_wr(id, &sge, 1, 0);

	wr.opcode = IBV_WR_RDMA_READ;
	wr.wr.rdma.remote_addr = f->mr[1]->mkey.base;
	wr.wr.rdma.rkey = f->mr[1]->mkey.key;
	post_now(qp, &wr);
}

/* Writes a record of so many bytes into the ring, as from side's QP: r, with that QP's
 * numbers and life. */
static inline void stray_record(struct fix *f, int side, struct rec r, uint32_t bytes)
{
	const struct rec *head = &shm_qp(f->p.qp[side])->head;
	struct core *core = &f->s->node[side].core;
	struct peer *p = pair_peer(f, side);
	struct rec *to;

	r.kind = head->kind;
	r.life = head->life;
	r.dst = head->dst;
	r.src = head->src;
	r.route = head->route;
	turn_take(&core->turn);
	to = ring_reserve(&p->out, REC_HEAD_WIDE);
	assert_non_null(to);
	memcpy(to, &r, sizeof(r));
	ring_publish(&p->out, to, bytes);
	peer_wrote(p);
	peers_flush(peers_of(core));
	turn_give(&core->turn);
}

/* A segment that the QP would not write now. */
static inline void stray(struct fix *f, int side, unsigned op, uint32_t psn)
{
	const bool wide = segment_is_wide(op);

	stray_record(f, side,
		     (struct rec){ .opcode = (uint8_t)op,
				   .flags = wide ? REC_WIDE : 0,
				   .psn = psn },
		     wide ? REC_HEAD_WIDE : REC_HEAD);
}

/* Loses the nth segment (from 0) that side has not read yet. */
static inline void lose(struct fix *f, int side, unsigned nth)
{
	struct ring_in eye = pair_peer(f, side)->in;
	const uint8_t *payload;
	struct rec r;
	uint32_t len;

	for (unsigned i = 0; ring_next(&eye, &r, &payload, &len) > 0; i++) {
		struct rec *at = (void *)eye.s->slot[eye.tail % RING_SLOTS];

		if (i == nth && segment_kind(r.opcode) != KIND_WORD)
			at->src ^= 1; /* as from a stranger */
		ring_release(&eye, &r);
	}
}

static inline void came(struct fix *f, int side, uint64_t id, size_t to, size_t from,
			uint32_t len)
{
	assert_int_equal(fix_wc(f, side, id, IBV_WC_SUCCESS).byte_len, len);
	assert_memory_equal(f->mem[side] + to, f->mem[!side] + from, len);
}

#endif
