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

#include "core/board.h"
#include "core/due.h"
#include "host/host.h"
#include "ib/sim.h"
#include "local/local_qp.h"
#include "must.h"
#include "sys/log.h"

enum step {
	SAY,   /* bit 0: a stranger's slot (2); fds (1); what (1), then
		* version, yes, how many bytes (1), nonce (8) */
	MEET,  /* a QP is to go there */
	RUN,   /* bits 0-1: who does not; then 2^n ns */
	WRITE, /* into the offered memory: where (2), 16 bytes */
	GONE,  /* the peer's connection has closed, so we are told */
	STEPS
};

enum fd { NOTHING, PIPE, UNSEALED, SHORT, BOARD, A_FILE, FDS };

struct input {
	const uint8_t *at, *end;
};

struct world {
	struct sim *s;
	struct sim_node *a, *b;
	struct cq *cq;
	struct qp *qp;
	bool met;
	struct pipe_shared *pipe; /* what is offered */
	int fd[FDS];
	struct gate gate; /* as if it were the peer's */
};

static unsigned take(struct input *in, unsigned bytes)
{
	unsigned v = 0;

	while (bytes-- > 0)
		v = v << 8 | (in->at < in->end ? *in->at++ : 0u);
	return v;
}

static unsigned descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

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
	w->fd[BOARD] = sealed(sizeof(struct board), all);
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
	w->s = sim_open(&c);
	we = (w->s->node[0].core.slot > w->s->node[1].core.slot) == !!(conf & 4);
	w->a = &w->s->node[we];
	w->b = &w->s->node[!we];
	if (conf & 2)
		w->a->core.local->way = LOCAL_OFF;
	w->cq = sim_cq(w->s, we, 10);
	w->qp = sim_qp(w->s, we, IBV_QPT_RC, w->cq, w->cq, NULL, &cap);
	open_fds(w);
	return w;
}

/* A state has what it needs and nothing else. */
static void check(const struct world *w, const struct sim_node *n)
{
	list_for(at, &n->core.local->peers)
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
		MUST(!p->reach.vm || p->reach.board);
	}
	MUST(n->refused <= (n == w->a && w->met));
}

static void world_close(struct world *w)
{
	sim_destroy(w->s, w->qp);
	MUST(cq_destroy(w->cq) == 0);
	sim_close(w->s);
	munmap(w->pipe, sizeof(*w->pipe));
	gate_close(&w->gate);
	for (int i = PIPE; i < FDS; i++)
		MUST(close(w->fd[i]) == 0); /* nobody took it over */
	free(w);
}

/* --- steps --------------------------------------------------------------- */

static void step_say(struct world *w, struct input *in)
{
	struct {
		uint8_t version, what, yes, zero;
		uint32_t bytes;
		struct nonce nonce;
	} m;
	struct local *l = w->a->core.local;
	uint16_t slot = w->b->core.slot;
	struct host_said s = { .uid = geteuid(), .pid = getpid(), .buf = &m };
	unsigned fds;

	if (take(in, 1) & 1)
		slot = (uint16_t)(take(in, 2) % (SLOT_LAST + 1));
	fds = take(in, 1);
	memset(&m, 0, sizeof(m));
	m.what = (uint8_t)(take(in, 1) % 8);
	m.version = (uint8_t)(PIPE_VERSION + take(in, 1) % 2);
	m.yes = (uint8_t)(take(in, 1) % 3);
	m.bytes = (uint32_t)(sizeof(struct pipe_shared) + take(in, 1));
	m.nonce.at = (uint64_t)take(in, 4) << 32 | take(in, 4);
	if (m.nonce.at == 1) /* as if we had told */
		m.nonce = gate_nonce(&w->gate);
	s.slot = slot;
	s.len = sizeof(m) - (fds >> 6 == 3);
	s.fd[0] = w->fd[fds % FDS];
	s.fd[1] = w->fd[fds / FDS % FDS];
	turn_take(&w->a->core.turn);
	local_said(l, &s);
	turn_give(&w->a->core.turn);
}

static void step_meet(struct world *w)
{
	struct core *core = &w->a->core;
	struct peer *p;

	turn_take(&core->turn);
	p = local_peer(core->local, w->b->core.slot);
	if (p && !w->met) {
		local_connect(w->qp, p);
		w->met = true;
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
	local_gone(w->a->core.local, w->b->core.slot);
	turn_give(&w->a->core.turn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	unsigned before = descriptors();
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
			step_meet(w);
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
	MUST(descriptors() == before);
	return 0;
}
