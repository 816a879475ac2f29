/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - for tests: a connected pair of two processes of one host, in virtual time;
 * reads their rings, and writes anything into them. */
#ifndef LOCAL_FIX_H
#define LOCAL_FIX_H

#include "ib/fix.h"
#include "local/peer.h"
#include "shm/shm.h"
#include "shm/shm_qp.h"

/* The peer that side has for the other side. */
static inline struct peer *pair_peer(const struct fix *f, int side)
{
	struct local *l = local_of(&f->s->node[side].core);

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

	while (n < max && ring_next(&eye, &out[n], &payload, &len) == 1)
		ring_release(&eye, &out[n++]);
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
	local_flush(local_of(core));
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
static inline NO_TSA uint64_t fix_deadline(struct local *l)
{
	turn_take(&l->core->turn);
	(void)l->source.ops->sleeps(&l->source, true);
	turn_give(&l->core->turn);
	return source_at(&l->source);
}

#endif
