/* SPDX-License-Identifier: BSD-2-Clause */
/* peer.c - another process of this host: how two processes wake each other, and how they
 * part. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "host/host.h"
#include "net/ip_addr.h"
#include "shm/peer.h"
#include "shm/shm.h"
#include "sys/alloc.h"
#include "sys/cancel.h"
#include "sys/log.h"
#include "verbs/due.h"
#include "verbs/qp.h"
#include "verbs/transport.h"

/* ns after which it is looked again whether a peer's memory may be let go */
enum { BURY_NS = 10000000 };

/* --- hot and cold -------------------------------------------------------- */

void peer_heat(struct peer *p)
{
	if (p->state != PEER_UP || p->is_hot)
		return;
	p->is_hot = true;
	list_del(&p->node_up);
	list_add_tail(&p->l->hot, &p->node_up);
	atomic_fetch_add(&p->l->nhot, 1);
	source_sooner(&p->l->source, 0);
	atomic_store(&p->in.s->want_kick, 0);
}

/* The ring leaves the hot and cold lists: no turn looks at it any more. */
static void ignore_ring(struct peer *p)
{
	list_del(&p->node_up);
	if (p->is_hot)
		atomic_fetch_sub(&p->l->nhot, 1);
	p->is_hot = false;
}

static bool has_room(struct peer *p)
{
	bool room;

	peer_lock(p);
	room = ring_has_room(&p->out);
	peer_unlock(p);
	return room;
}

void peer_cool(struct peer *p)
{
	atomic_store(&p->in.s->want_kick, 1);
	atomic_thread_fence(memory_order_seq_cst);
	/* While the ring was hot, a peer that made room or executed requests sent no
	 * KICK: look once more. */
	if (!ring_empty(&p->in) || peer_has_news(p) || (peer_waits(p) && has_room(p))) {
		atomic_store(&p->in.s->want_kick, 0);
		return;
	}
	ignore_ring(p);
	list_add_tail(&p->l->cold, &p->node_up);
}

void peer_wrote(struct peer *p)
{
	if (list_empty(&p->dirty))
		list_add_tail(&p->l->dirty, &p->dirty);
}

bool peer_reads(struct peer *p, uint64_t now)
{
	const uint32_t tail = ring_mark(&p->out.tail);

	peer_wrote(p); /* a peer that sleeps must be woken */
	if (!p->full_since || p->full_at != tail) {
		p->full_since = now;
		p->full_at = tail;
	}
	return now - p->full_since < STALL_NS;
}

bool peer_looks(const struct peer *p)
{
	/* As in wake_peer(): the fence has the order that the relaxed load lacks. */
	atomic_thread_fence(memory_order_seq_cst);
	return !atomic_load_explicit(&p->out.s->want_kick, memory_order_relaxed);
}

/* The writer's half of the protocol with peer_cool(): publish, fence, look at
 * want_kick. What was published under a QP's lock is behind that lock's fence. */
static void wake_peer(struct peer *p)
{
	lock_fence();
	if (atomic_load_explicit(&p->out.s->want_kick, memory_order_relaxed) &&
	    atomic_exchange(&p->out.s->want_kick, 0)) {
		/* The turn may be a brief one, so cancellation must be held off */
		int was = cancel_hold();

		peer_kick(p);
		cancel_let(was);
	}
}

/* When a turn is to be taken although nothing comes in. */
static void set_time(struct peers *l)
{
	source_set(&l->source, atomic_load(&l->nhot)  ? 0
			       : l->unsaid	      ? l->say_at
			       : list_empty(&l->dead) ? NEVER
						      : l->now + BURY_NS);
}

static void say_again(struct peers *l)
{
	int was = cancel_hold();

	list_for_safe(n, &l->peers) peer_say_again(container_of(n, struct peer, node));
	cancel_let(was);
}

/* Prolongs the turn first: host_run() holds cancellation off, and what it hears may
 * prolong the turn. The engine's thread sleeps on the same descriptors and does not learn
 * what was heard here, so it is woken for the work that follows. */
static void look_for_answer(struct peers *l)
{
	l->looks--;
	peers_prolong(l);
	if (host_run(l->host) && l->ops->sooner)
		l->ops->sooner(l->arg);
}

bool peers_flush(struct peers *l)
{
	while (!list_empty(&l->dirty)) {
		struct peer *p = container_of(l->dirty.next, struct peer, dirty);

		list_del(&p->dirty);
		if (p->state != PEER_UP || p == l->self)
			continue;
		wake_peer(p);
		if (p->state == PEER_UP && peer_waits(p)) /* the KICK may end it */
			peer_admit(p);
	}
	if (l->unsaid && l->now >= l->say_at) {
		peers_prolong(l); /* before say_again() holds cancellation off */
		say_again(l);
		set_time(l);
	}
	if (l->looks && !l->core->leaving) /* then QPs may stay locked */
		look_for_answer(l);
	return l->self && !ring_empty(&l->self->in);
}

/* --- QPs that lead to a peer ---------------------------------------------- */

static uint32_t hash(const uint8_t *from, const uint8_t *to)
{
	uint32_t h = 2166136261u;

	for (int i = 0; i < 16; i++)
		h = (h ^ from[i]) * 16777619u;
	for (int i = 0; i < 16; i++)
		h = (h ^ to[i]) * 16777619u;
	return h;
}

/* Requests of other addresses than the QP's are refused, as on a wire: so a route is a
 * hash of both. */
struct peer_route peer_route(const struct link_addr *addr)
{
	const struct ip_addr *a = ip_addr(addr);

	return (struct peer_route){ .out = hash(a->from.ip, a->to.ip),
				    .in = hash(a->to.ip, a->from.ip) };
}

bool peer_look(struct peer *p)
{
	bool sound;

	peer_lock(p);
	sound = ring_look(&p->out);
	peer_unlock(p);
	if (!sound)
		peer_broken(p, "it has read further than was written");
	return sound;
}

/* Only reliable QPs are told what was executed, which a copy by the posting thread
 * needs. */
static void may_be_at_once(const struct peer *p, struct qp *qp)
{
	atomic_store(&qp->tp.at_once,
		     p->mapped && qp->reliable && qp->transport->at_once);
}

void peer_is_mapped(struct peer *p)
{
	p->mapped = true;
	list_for(n, &p->qps) may_be_at_once(p, container_of(n, struct peer_qp, node)->qp);
}

void peer_join(struct peer *p, struct peer_qp *q)
{
	list_add_tail(&p->qps, &q->node);
	may_be_at_once(p, q->qp);
}

static void add_traffic(struct peers_counters *c, struct qp *qp)
{
	c->requests += qp_posted(qp) - qp->past.posted_before;
	traffic_add(&c->traffic, &qp->tp.traffic);
}

/* What is counted from now on belongs to another peer. */
static void keep_past(struct qp *qp)
{
	qp->past.posted_before = qp_posted(qp);
	traffic_add(&qp->past.traffic, &qp->tp.traffic);
	qp->tp.traffic = (struct traffic){ 0 };
}

void peer_leave(struct peer *p, struct peer_qp *q)
{
	struct qp *qp = q->qp;
	struct peers *l = p->l;

	list_del(&q->node);
	line_leave(p, q);
	atomic_store(&qp->tp.at_once, false);
	add_traffic(&p->past, qp);
	keep_past(qp);
	peer_release(p);
	if (!list_empty(&l->dead) && l->ops->sooner)
		l->ops->sooner(l->arg);
}

/* --- states -------------------------------------------------------------- */

static void set_state(struct peer *p, enum peer_state state)
{
	p->state = state;
	peer_let_posters(p);
}

struct peer *peer_new(struct peers *l, uint16_t slot)
{
	struct peer *p = turn_alloc(sizeof(*p));

	if (!p)
		return NULL;
	p->l = l;
	p->slot = slot;
	p->fd = -1;
	reach_init(&p->reach, direct_of(l->core), slot);
	brief_init(&p->writing);
	list_init(&p->node_up);
	list_init(&p->dirty);
	list_init(&p->qps);
	list_init(&p->line);
	list_init(&p->unanswered);
	list_init(&p->starved);
	set_state(p, PEER_OPENING);
	list_add_tail(&l->peers, &p->node);
	l->by_slot[slot] = p;
	atomic_fetch_add(&l->npeers, 1);
	return p;
}

void peer_release(struct peer *p)
{
	if (!list_empty(&p->qps) || p->l->by_slot[p->slot] == p)
		return;
	peer_forget_unsaid(p);
	ignore_ring(p);
	list_del(&p->dirty);
	list_del(&p->node);
	if (p == p->l->self)
		p->l->self = NULL;
	list_add_tail(&p->l->dead, &p->node); /* freed later: callers may still use it */
	source_sooner(&p->l->source, p->l->now + BURY_NS);
}

static void add_up(struct peers_counters *c, const struct peer *p)
{
	const struct peers_counters *past = &p->past;

	traffic_add(&c->traffic, &past->traffic);
	c->direct += past->direct;
	c->direct_bytes += past->direct_bytes;
	c->requests += past->requests;
	list_for(n, &p->qps) add_traffic(c, container_of(n, struct peer_qp, node)->qp);
}

void peer_forget_pipe(struct peer *p)
{
	p->pipe = NULL;
	p->executed = NULL;
	p->theirs = NULL;
	p->wires = NULL;
	p->their_wires = NULL;
	p->replies.s = p->replied = NULL;
}

static void bury(struct peer *p)
{
	list_del(&p->node);
	add_up(&p->l->count, p);
	handshake_let_go(p);
	turn_free(p);
}

void peers_bury(struct peers *l)
{
	list_for_safe(n, &l->dead)
	{
		struct peer *p = container_of(n, struct peer, node);

		if (gate_left(&p->reach, l->now))
			bury(p);
	}
	set_time(l);
}

static void make_due(struct peer *p)
{
	list_for(n, &p->qps)
		due_add(p->l->core, container_of(n, struct peer_qp, node)->qp);
}

void peer_up(struct peer *p)
{
	struct reach *r = &p->reach;
	uid_t uid;

	p->state = PEER_UP;
	(void)host_cred(p->l->host, p->slot, &uid, &p->reach.pid);
	p->same_user = host_is_ours(p->l->host, p->slot);
	log_info("slot %u, process %d: messages go through shared memory%s; WRITE "
		 "and READ of its memory go %s%s",
		 p->slot, (int)r->pid, p->same_user ? "" : " (UD through UDP)",
		 r->vm ? "directly (process_vm_writev)" : "through shared memory, too: ",
		 r->vm ? "" : r->why);
	peer_heat(p);
	p->full_since = 0;
	p->open = true;
	p->fresh = true;
	list_for_safe(n, &p->qps)
	{
		struct qp *qp = container_of(n, struct peer_qp, node)->qp;

		if (peers_avoids(p, qp->attr.dest_qp_num))
			p->l->ops->refused(p->l->arg, qp);
		else
			shm_up(qp, p->l->now);
	}
	p->fresh = false;
	/* What a thread had posted earlier would be sent again by its QP's new states. */
	peer_let_posters(p);
}

/* pid: 0 if it is not known. */
static void refuse_pipe(struct peer *p, pid_t pid, const char *why)
{
	char process[32] = "";

	if (p->state != PEER_OPENING)
		return;
	set_state(p, PEER_REFUSED);
	if (pid > 0)
		snprintf(process, sizeof(process), ", process %d", (int)pid);
	log_info("slot %u%s: messages go through UDP: %s", p->slot, process, why);
	handshake_let_go(p);
	list_for_safe(n, &p->qps)
		p->l->ops->refused(p->l->arg, container_of(n, struct peer_qp, node)->qp);
}

void peer_refuse(struct peer *p, const char *why)
{
	pid_t pid = 0;
	uid_t uid;

	if (p->state != PEER_OPENING)
		return;
	(void)host_cred(p->l->host, p->slot, &uid, &pid);
	refuse_pipe(p, pid, why);
}

/* The peer's process has ended, or there is none.  Its QPs find out by themselves. */
static void die(struct peer *p)
{
	struct peers *l = p->l;

	if (p->state == PEER_UP)
		peer_drain(p);
	/* Asking for its number would connect to its successor. */
	refuse_pipe(p, 0, "no process of this host has that slot (any more)");
	reach_part(&p->reach);
	gate_end(&p->reach, true);
	if (l->by_slot[p->slot] == p)
		l->by_slot[p->slot] = NULL;
	set_state(p, PEER_DEAD);
	ignore_ring(p);
	list_del(&p->dirty);
	peer_forget_unsaid(p); /* the next process with this slot is another one */
	make_due(p);
	peer_release(p);
}

void peer_broken(struct peer *p, const char *why)
{
	if (p->state == PEER_DEAD)
		return;
	reach_part(&p->reach);
	gate_end(&p->reach, false);
	if (log_allowed(&p->l->said_broken))
		log_warn("slot %u: %s: the QPs that are connected to it are lost",
			 p->slot, why);
	/* by_slot keeps the peer, so the same process gets no second pipe. */
	set_state(p, PEER_DEAD);
	ignore_ring(p);
	list_del(&p->dirty);
	make_due(p);
}

void peers_gone(struct peers *l, uint16_t slot)
{
	if (l->by_slot[slot])
		die(l->by_slot[slot]);
}

/* --- all rings as a source ------------------------------------------------ */

static struct peers *peers_of_source(struct source *s)
{
	return container_of(s, struct peers, source);
}

/* Rings that are not polled but have input become hot. */
static void heat_those_with_input(struct peers *l)
{
	list_for(n, &l->peers)
	{
		struct peer *p = container_of(n, struct peer, node);

		if (p->state == PEER_UP && (!ring_empty(&p->in) || peer_has_news(p)))
			peer_heat(p);
	}
}

static unsigned input(struct source *s, enum source_depth depth, struct source_got *got,
		      uint64_t now)
{
	struct peers *l = peers_of_source(s);
	struct peers_got in;

	if (depth == SOURCE_QUICK)
		return !rings_are_quiet(l);
	if (depth == SOURCE_ALL)
		heat_those_with_input(l);
	in = peers_input(l, now);
	got->one_sided |= in.one_sided;
	return in.records;
}

static bool flush(struct source *s)
{
	return peers_flush(peers_of_source(s));
}

/* A ring that is empty becomes cold. */
static bool mark_rings(struct source *s, bool sleeps)
{
	struct peers *l = peers_of_source(s);

	if (!sleeps) {
		list_for_safe(n, &l->cold)
			peer_heat(container_of(n, struct peer, node_up));
		return false;
	}
	list_for_safe(n, &l->hot) peer_cool(container_of(n, struct peer, node_up));
	set_time(l);
	return !list_empty(&l->hot) || (l->self && !ring_empty(&l->self->in));
}

static void forked(struct source *s)
{
	peers_forked(peers_of_source(s)->core);
}

static const struct source_ops source_ops = {
	SOURCE_RINGS,	.brief = true,	      .input = input,
	.flush = flush, .sleeps = mark_rings, .forked = forked,
};

struct source *peers_source(struct peers *l)
{
	return &l->source;
}

/* --- all peers ------------------------------------------------------------- */

struct room_key peers_key;

static void pass_writers(const struct list *peers)
{
	list_for(n, peers)
	{
		struct peer *p = container_of(n, struct peer, node);

		peer_lock(p);
		peer_unlock(p);
	}
}

static void pass(struct core *core)
{
	struct peers *l = peers_of(core);

	if (!atomic_load(&l->npeers))
		return;
	turn_take(&core->turn);
	pass_writers(&l->peers);
	pass_writers(&l->dead);
	turn_give(&core->turn);
}

int peers_open(struct core *core, struct host *host, enum local_way way,
	       const char *off_why, const struct peers_ops *ops, void *arg)
{
	struct peers *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	if (direct_open(core, way == LOCAL_VM || way == LOCAL_AUTO)) {
		free(l);
		return -ENOMEM;
	}
	source_init(&l->source, &source_ops);
	l->core = core;
	l->host = host;
	l->way = way;
	l->off_why = off_why;
	l->ops = ops;
	l->arg = arg;
	list_init(&l->peers);
	list_init(&l->hot);
	list_init(&l->cold);
	list_init(&l->dirty);
	list_init(&l->dead);
	room_put(core, &peers_key, l);
	core->region.pass = pass;
	if (way == LOCAL_VM)
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	return 0;
}

void peers_close(struct core *core)
{
	struct peers *l = peers_of(core);

	list_for_safe(n, &l->peers)
	{
		struct peer *p = container_of(n, struct peer, node);

		l->by_slot[p->slot] = NULL;
		set_state(p, PEER_DEAD);
		peer_release(p);
	}
	list_for_safe(n, &l->dead) bury(container_of(n, struct peer, node));
	core->region.pass = NULL;
	direct_close(core);
	free(atomic_load(&l->wires));
	free(l);
	room_put(core, &peers_key, NULL);
}

/* In the child of a fork: the rings were not inherited (MADV_DONTFORK), so they must not
 * be touched, nor unmapped, since something else may lie there. */
static void forget_memory(struct list *peers)
{
	list_for(n, peers)
	{
		struct peer *p = container_of(n, struct peer, node);

		if (p->fd >= 0)
			close(p->fd);
		p->fd = -1;
		reach_forked(&p->reach);
		peer_forget_pipe(p);
		set_state(p, PEER_DEAD);
	}
}

void peers_forked(struct core *core)
{
	forget_memory(&peers_of(core)->peers);
	forget_memory(&peers_of(core)->dead);
	direct_forked(core);
}

static struct peers_counters count_all(const struct peers *l)
{
	struct peers_counters c = l->count;

	list_for(n, &l->peers) add_up(&c, container_of(n, struct peer, node));
	list_for(n, &l->dead) add_up(&c, container_of(n, struct peer, node));
	return c;
}

uint64_t peers_requests(const struct peers *l)
{
	return count_all(l).requests;
}

void peers_log_counters(struct core *core)
{
	const struct peers_counters c = count_all(peers_of(core));
	const struct traffic t = c.traffic;

	if (t.done)
		log_info("same host: %" PRIu64 " requests (%" PRIu64
			 " bytes) carried out by the threads that posted them",
			 t.done, t.done_bytes);
	if (t.sent || t.got || c.direct)
		log_info("same host: sent %" PRIu64 " records (%" PRIu64
			 " bytes) through shared memory, received %" PRIu64 " (%" PRIu64
			 " bytes), made %" PRIu64 " direct copies (%" PRIu64 " bytes)",
			 t.sent, t.sent_bytes, t.got, t.got_bytes, c.direct,
			 c.direct_bytes);
}
