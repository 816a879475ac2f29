/* SPDX-License-Identifier: BSD-2-Clause */
/* How two processes agree on a pipe: any messages with any descriptors, among
 * those of a peer that means it.
 *
 * The input: a byte (bit 0: memory may be reached directly, bit 1: we are OFF;
 * bit 2: it is ours to offer), then a list of steps: a byte that says what (enum
 * step, modulo), and what that takes (STEP below).  Bytes that are missing are 0.
 *
 * Beside crashes it looks for: a state without what it needs, descriptors that
 * stay open, and QPs that are sent to the wire twice. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "descriptors.h"
#include "host/host.h"
#include "ib/sim.h"
#include "input.h"
#include "must.h"
#include "same_host.h"
#include "shm/peer.h"
#include "shm/say.h"
#include "shm/shm.h"
#include "sys/log.h"
#include "verbs/due.h"
#include "verbs/exports.h"
#include "verbs/mr.h"

enum step {
	SAY,   /* bit 0: a stranger's slot (2); fds (1); what (1), then
		* version, yes, how many bytes (1), nonce (8); of a region to
		* be mapped: key (4; 0: the one that is ours), version (1),
		* where (4), length and offset (3 each) */
	MEET,  /* a QP is to be connected to the peer */
	RUN,   /* bits 0-1: who does not; then 2^n ns */
	WRITE, /* writes into the offered memory: offset (2), 16 bytes */
	GONE,  /* the peer's connection has closed, so we are told */
	STEPS
};

enum { SHARED = 8192 };
enum fd { NOTHING, PIPE, UNSEALED, SHORT, EXPORTS, A_FILE, FDS };

struct world {
	struct sim *s;
	struct sim_node *a, *b;
	struct cq *cq;
	struct qp *qp;
	bool asked;
	struct pipe_shared *pipe; /* memory of the offered pipe */
	int fd[FDS];
	struct gate gate; /* stands in for the peer's gate */
	uint8_t *shared;  /* memory of a region here, a file's */
	int file;
	struct mr *mr;
	unsigned before; /* descriptors of this process */
};

/* --- the world ----------------------------------------------------------- */

static int sealed(size_t size, int seals)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	MUST(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	MUST(fcntl(fd, F_ADD_SEALS, seals) == 0);
	return fd;
}

static void open_fds(struct world *w)
{
	const int all = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
	const size_t size = sizeof(struct pipe_shared);

	w->fd[NOTHING] = -1;
	w->fd[PIPE] = sealed(size, all);
	w->fd[UNSEALED] = sealed(size, F_SEAL_GROW);
	w->fd[SHORT] = sealed(size - 4096, all);
	w->fd[EXPORTS] = sealed(sizeof(struct exports), all);
	w->fd[A_FILE] = open("/dev/zero", O_RDWR | O_CLOEXEC);
	w->pipe = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd[PIPE], 0);
	MUST(w->pipe != MAP_FAILED);
	w->gate.fd = -1;
	MUST(gate_open(&w->gate));
}

static struct world *world_open(unsigned conf)
{
	const struct sim_conf c = {
		.same_host = true,
		.pipe_only = !(conf & 1),
	};
	const struct ibv_qp_cap cap = { .max_send_wr = 4 };
	struct world *w = calloc(1, sizeof(*w));
	int we;

	MUST(w);
	have_nics(&c);
	w->before = descriptors();
	w->s = enter_host(&c);
	we = (w->s->node[0].core.slot > w->s->node[1].core.slot) == !!(conf & 4);
	w->a = &w->s->node[we];
	w->b = &w->s->node[!we];
	if (conf & 2)
		peers_of(&w->a->core)->way = LOCAL_OFF;
	w->cq = sim_cq(w->s, we, 10);
	w->qp = sim_qp(w->s, we, IBV_QPT_RC, w->cq, w->cq, NULL, &cap);
	open_fds(w);
	w->file = memfd_create("region", MFD_CLOEXEC);
	MUST(w->file >= 0 && ftruncate(w->file, SHARED) == 0);
	w->shared = mmap(NULL, SHARED, PROT_READ | PROT_WRITE, MAP_SHARED, w->file, 0);
	MUST(w->shared != MAP_FAILED);
	w->mr = sim_mr(w->s, we, w->shared, SHARED,
		       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return w;
}

/* Checks that the peer's state has the resources that it needs, and no others. */
static void check(const struct world *w, const struct sim_node *n)
{
	list_for(at, &peers_of(&n->core)->peers)
	{
		const struct peer *p = container_of(at, struct peer, node);

		switch (p->state) {
		case PEER_UP:
			MUST(p->pipe && p->out.s && p->in.s);
			break;
		case PEER_REFUSED:
			MUST(!p->pipe && p->fd < 0 && list_empty(&p->node_up));
			break;
		case PEER_OPENING:
			MUST(list_empty(&p->node_up));
			break;
		case PEER_DEAD:
			MUST(list_empty(&p->node_up) && !p->reach.vm);
			break;
		}
		MUST(!p->reach.vm || p->reach.exports);
	}
	MUST(n->refused <= (n == w->a && w->asked));
}

static void world_close(struct world *w)
{
	sim_destroy(w->s, w->qp);
	MUST(cq_destroy(w->cq) == 0);
	MUST(mr_dereg(w->mr) == 0);
	leave_host(w->s);
	munmap(w->pipe, sizeof(*w->pipe));
	gate_close(&w->gate);
	munmap(w->shared, SHARED);
	close(w->file);
	for (int i = PIPE; i < FDS; i++)
		MUST(close(w->fd[i]) == 0); /* the descriptor was not taken over */
	MUST(are_closed(w->before));
	free(w);
}

/* --- steps --------------------------------------------------------------- */

static struct lent take_lent(struct world *w, struct input *in)
{
	struct lent l = { .key = take(in, 4) };

	if (!l.key)
		l.key = w->mr->mkey.key;
	l.version = take(in, 1);
	l.lo = take(in, 4);
	l.hi = l.lo + take(in, 3) - (1u << 20); /* possibly before lo */
	l.offset = take(in, 3);
	if (l.offset >> 23)
		l.offset <<= 40;
	return l;
}

/* Puts a region into the peer's export table, as l describes it, and notes that this
 * process has asked for it. */
/* As if the peer had read the proof in the page that it was told of. */
static void has_read(const struct peer *p, uint64_t proof[2])
{
	const struct gate *g = p ? &p->reach.gate : NULL;

	if (g && g->page && !g->shut)
		memcpy(proof, g->page->proof, sizeof(g->page->proof));
}

static void has_asked(struct world *w, struct reach *r, const struct lent *l)
{
	struct exports *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED,
				 w->fd[EXPORTS], 0);
	struct exported_mr *e =
		(struct exported_mr *)(void *)(uintptr_t)exports_mr_version(b, l->key);

	MUST(b != MAP_FAILED);
	*e = (struct exported_mr){ .version = 2,
				   .key = l->key,
				   .access = (uint32_t)w->mr->mkey.access,
				   .base = l->lo,
				   .host = l->lo,
				   .length = 4096 };
	munmap(b, sizeof(*b));
	r->use[l->key >> 8 & (MAPS - 1)] = (struct use){ .key = l->key, .asked = true };
}

static void step_say(struct world *w, struct input *in)
{
	struct {
		uint8_t version, what, yes, zero;
		uint32_t bytes;
		struct nonce nonce;
		struct lent lent;
	} m;
	struct peers *l = peers_of(&w->a->core);
	uint16_t slot = w->b->core.slot;
	struct host_said s = { .uid = geteuid(), .pid = getpid(), .buf = &m };
	unsigned fds;

	if (take(in, 1) & 1)
		slot = (uint16_t)(take(in, 2) % (SLOT_LAST + 1));
	fds = take(in, 1);
	memset(&m, 0, sizeof(m));
	m.what = (uint8_t)(take(in, 1) % (SAY_MAP + 2));
	m.version = (uint8_t)(PIPE_VERSION + take(in, 1) % 2);
	m.yes = (uint8_t)(take(in, 1) % 3);
	m.bytes = (uint32_t)(sizeof(struct pipe_shared) + take(in, 1));
	m.nonce.at = (uint64_t)take(in, 4) << 32 | take(in, 4);
	if (m.nonce.at == 1) /* as if this process had told its nonce */
		m.nonce = gate_nonce(&w->gate);
	if (m.what == SAY_ASK_MAP && m.nonce.at & 1)
		has_read(l->by_slot[slot], m.nonce.value);
	if (m.what >= SAY_MAP - 1)
		m.lent = take_lent(w, in);
	if (m.what == SAY_MAP && l->by_slot[slot])
		has_asked(w, &l->by_slot[slot]->reach, &m.lent);
	s.slot = slot;
	s.len = m.what >= SAY_MAP - 1 ? sizeof(m) : offsetof(typeof(m), lent);
	s.len -= fds >> 6 == 3;
	s.fd[0] = w->fd[fds % FDS];
	s.fd[1] = w->fd[fds / FDS % FDS];
	turn_take(&w->a->core.turn);
	peers_said(l, &s);
	turn_give(&w->a->core.turn);
}

static void step_handshake(struct world *w)
{
	struct core *core = &w->a->core;
	struct peer *p;

	turn_take(&core->turn);
	p = peers_peer(peers_of(core), w->b->core.slot);
	if (p && !w->asked) {
		lock_take(&w->qp->lock);
		MUST(qp_change_transport(w->qp, &shm_transport) == 0);
		shm_connect(w->qp, p);
		lock_give(&w->qp->lock);
		w->asked = true;
	}
	turn_give(&core->turn);
}

static void step_run(struct world *w, struct input *in)
{
	unsigned v = take(in, 1);

	w->a->stopped = v & 1;
	w->b->stopped = v & 2;
	sim_run(w->s, UINT64_C(1) << take(in, 1) % 20);
}

static void step_write(struct world *w, struct input *in)
{
	uint8_t *at = (uint8_t *)w->pipe + take(in, 2) * SLOT % (sizeof(*w->pipe) - 16);

	for (int i = 0; i < 16; i++)
		at[i] = (uint8_t)take(in, 1);
}

static void step_gone(struct world *w)
{
	turn_take(&w->a->core.turn);
	peers_gone(peers_of(&w->a->core), w->b->core.slot);
	turn_give(&w->a->core.turn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct world *w;

	if (size > 1024)
		return 0;
	log_level = LOG_ERROR;
	w = world_open(take(&in, 1));
	while (in.at < in.end) {
		switch ((enum step)(take(&in, 1) % STEPS)) {
		case SAY:
			step_say(w, &in);
			break;
		case MEET:
			step_handshake(w);
			break;
		case RUN:
			step_run(w, &in);
			break;
		case WRITE:
			step_write(w, &in);
			break;
		case GONE:
			step_gone(w);
			break;
		case STEPS:
			break;
		}
		check(w, w->a);
		check(w, w->b);
	}
	world_close(w);
	return 0;
}
