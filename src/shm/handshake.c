/* SPDX-License-Identifier: BSD-2-Clause */
/* handshake.c - how two processes agree on a pipe (docs/dev/peers.md). */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/host.h"
#include "shm/peer.h"
#include "shm/say.h"
#include "sys/cancel.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "verbs/qp.h"
#include "verbs/transport.h"

enum { SEALS = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL };

/* --- memory -------------------------------------------------------------- */

static struct pipe_shared *map(int fd)
{
	struct pipe_shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (s == MAP_FAILED)
		return NULL;
	madvise(s, sizeof(*s), MADV_DONTFORK);
	return s;
}

static void take_side(struct peer *p, int side)
{
	p->out.s = &p->pipe->ring[side];
	p->in.s = &p->pipe->ring[!side];
	p->reach.inside = &p->pipe->inside[side].word;
	p->reach.theirs = &p->pipe->inside[!side].word;
	p->executed = p->pipe->executed[side];
	p->theirs = p->pipe->executed[!side];
	p->wires = p->pipe->wires[side];
	p->their_wires = p->pipe->wires[!side];
	avoid_show(p);
	p->answers = &p->pipe->answered[side];
	p->answered = &p->pipe->answered[!side];
	reply_open(&p->replies, &p->pipe->reply[side]);
	p->replied = &p->pipe->reply[!side];
}

static int make_memory(struct peer *p)
{
	int fd = fd_memory("urnic-pipe", sizeof(struct pipe_shared));

	if (fd < 0)
		return fd;
	if (fcntl(fd, F_ADD_SEALS, SEALS))
		goto fail;
	p->pipe = map(fd);
	if (!p->pipe)
		goto fail;
	p->fd = fd;
	take_side(p, 0);
	return 0;
fail:
	close(fd);
	return -ENOMEM;
}

/* Maps memory that the peer made.  The seals guarantee that it cannot shrink. */
static int take_memory(struct peer *p, int fd, uint32_t bytes)
{
	if (bytes != sizeof(*p->pipe) || !fd_is_sealed(fd, bytes, SEALS))
		return -EPROTO;
	p->pipe = map(fd);
	if (!p->pipe)
		return -ENOMEM;
	take_side(p, 1);
	return 0;
}

void handshake_let_go(struct peer *p)
{
	int was = cancel_hold();

	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	reach_close(&p->reach);
	say_take_offer(p->l, p->slot, false);
	/* The offer was not sent yet: it must not offer memory that is gone */
	if (p->say == SAY_OFFER)
		p->say_yes = false;
	cancel_let(was);
	if (p->pipe)
		munmap(p->pipe, sizeof(*p->pipe));
	peer_forget_pipe(p);
}

/* --- lending registered memory --------------------------------------------- */

/* Answers SAY_ASK_MAP.  If there is no room for the answer the peer goes on without the
 * region. */
static void on_ask_map(struct peer *p, uint32_t key, const struct pipe_msg *m)
{
	struct lent lent = { .key = key };
	int fd = -1;

	/* A descriptor cannot be taken back, so a process that has become another user
	 * gets none, nor does one that cannot read our memory: the kernel would not let
	 * it copy directly either. */
	if (p->state == PEER_UP && host_is_ours_now(p->l->host, p->slot) &&
	    gate_is_proved(&p->reach.gate, m->nonce.value))
		fd = reach_lend(&p->reach, key, &lent);

	say_map(p, &lent, fd);
	if (fd >= 0)
		close(fd);
	if (fd >= 0)
		log_info("slot %u, process %d: the file of the region of key 0x%08x "
			 "is lent to that process: the region's memory is shared already",
			 p->slot, (int)p->reach.pid, key);
	else
		log_info("slot %u, process %d: the region of key 0x%08x is not lent "
			 "to that process: the region's memory is private, its file "
			 "cannot be opened or would be open for writing, too, or the "
			 "process may not trace this one or has become another user",
			 p->slot, (int)p->reach.pid, key);
}

static void on_map(struct peer *p, const struct host_said *s, const struct lent *lent)
{
	const bool is_lent = s->fd[0] >= 0;

	if (p->l->asked == p)
		p->l->looks = 0;
	if (p->state != PEER_UP)
		return;
	if (!is_lent || !reach_map(&p->reach, lent, s->fd[0])) {
		reach_is_refused(&p->reach, lent->key);
		if (is_lent)
			log_info("slot %u, process %d: its region of key 0x%08x cannot "
				 "be mapped: the file that was lent does not hold the "
				 "region, or mmap or membarrier is forbidden",
				 p->slot, (int)p->reach.pid, lent->key);
		return;
	}
	peer_is_mapped(p);
	log_info("slot %u, process %d: its region of key 0x%08x is mapped: the thread "
		 "that posts WRITEs, READs and atomics carries them out",
		 p->slot, (int)p->reach.pid, lent->key);
}

/* --- copying the peer's memory --------------------------------------------- */

/* Why direct copies must not be tried; NULL: they may be. */
static const char *may_not_try(struct peer *p, const struct nonce *nonce)
{
	uid_t uid;

	if (p->l->way == LOCAL_PIPE)
		return "URNIC_LOCAL is pipe";
	if (direct_of(p->l->core)->exports_fd < 0 ||
	    host_cred(p->l->host, p->slot, &uid, &p->reach.pid))
		return "there is no memory for an export table";
	if (!host_is_ours(p->l->host, p->slot))
		return "that process is another user's";
	if (p->reach.pid <= 0)
		return "that process is in another pid namespace";
	return nonce->at ? NULL : "that process does not allow it";
}

static void handshake_memory(struct peer *p, const struct nonce *nonce, int exports_fd)
{
	p->reach.why = may_not_try(p, nonce);
	if (!p->reach.why)
		reach_handshake(&p->reach, nonce, exports_fd);
}

static const char unwilling[] = "the other process wants it so (its URNIC_LOCAL, "
				"URNIC_PCAP or URNIC_FAULT), or has no memory";

/* --- agreeing ------------------------------------------------------------ */

static bool we_offer(const struct peer *p)
{
	return p->l->core->slot < p->slot;
}

/* Starts the handshake with p.  Returns 0 or -errno: then p is to be refused. */
static int begin_handshake(struct peer *p)
{
	int rc = 0;

	if (we_offer(p))
		rc = make_memory(p);
	if (!rc)
		rc = say_surely(p, we_offer(p) ? SAY_OFFER : SAY_ASK, true);
	return rc;
}

static struct peer *self_open(struct peers *l)
{
	struct peer *p = peer_new(l, l->core->slot);

	if (!p)
		return NULL;
	p->pipe = mmap(NULL, sizeof(*p->pipe), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p->pipe == MAP_FAILED) {
		p->pipe = NULL;
		l->by_slot[p->slot] = NULL;
		peer_release(p);
		return NULL;
	}
	p->out.s = p->in.s = &p->pipe->ring[0];
	p->executed = p->pipe->executed[0];
	p->theirs = p->executed;
	p->wires = p->pipe->wires[0];
	p->their_wires = p->wires;
	avoid_show(p);
	p->answers = &p->pipe->answered[0];
	p->answered = p->answers;
	reply_open(&p->replies, &p->pipe->reply[0]);
	p->replied = p->replies.s;
	p->state = PEER_UP;
	p->open = true;
	atomic_store(&p->closed, false);
	l->self = p;
	return p;
}

struct peer *peers_peer(struct peers *l, uint16_t slot)
{
	struct peer *p;
	int rc;

	if (l->way == LOCAL_OFF || slot < SLOT_FIRST || slot > SLOT_LAST)
		return NULL;
	p = l->by_slot[slot];
	if (!p && slot == l->core->slot)
		return self_open(l);
	if (!p) {
		p = peer_new(l, slot);
		rc = p ? begin_handshake(p) : 0;
		/* A refusal, even for a passing reason, is final on both sides. */
		if (rc == -ESRCH)
			peers_gone(l, slot);
		else if (rc)
			peer_refuse(p, "no memory, or no descriptors, for a pipe");
		p = l->by_slot[slot];
	}
	return p && p->state != PEER_REFUSED && p->state != PEER_DEAD ? p : NULL;
}

static void on_ask(struct peers *l, struct peer *p, uint16_t slot, bool same)
{
	if (l->core->slot > slot)
		return; /* the other process must offer */
	if (!p)
		p = peer_new(l, slot);
	if (!p)
		return;
	if (p->state == PEER_OPENING && !p->pipe &&
	    (!same || l->way == LOCAL_OFF || begin_handshake(p)) && l->by_slot[slot] == p)
		peer_refuse(
			p,
			l->way == LOCAL_OFF
				? l->off_why
				: "the other process has another version of urnic, or there "
				  "is no memory");
	if (l->by_slot[slot] == p && p->state == PEER_REFUSED)
		say_surely(p, SAY_OFFER, false);
}

static void on_offer(struct peers *l, struct peer *p, struct host_said *s,
		     const struct pipe_msg *m)
{
	bool yes = m->yes == 1 && m->version == PIPE_VERSION && l->way != LOCAL_OFF;

	if (l->core->slot < s->slot)
		return;
	say_take_offer(l, s->slot, false);
	if (!p)
		p = peer_new(l, s->slot);
	if (!p)
		return;
	if (p->state == PEER_OPENING && p->pipe)
		return; /* a second offer */
	if (p->state != PEER_OPENING)
		yes = false;
	if (yes)
		yes = take_memory(p, s->fd[0], m->bytes) == 0;
	if (yes)
		handshake_memory(p, &m->nonce, s->fd[1]);
	else
		peer_refuse(p,
			    l->way == LOCAL_OFF ? l->off_why
			    : m->yes == 1
				    ? "the other process offered no pipe that can be used"
				    : unwilling);
	if (m->yes)
		say_surely(p, SAY_ANSWER, yes);
}

static void on_answer(struct peer *p, const struct host_said *s, const struct pipe_msg *m)
{
	bool yes = m->yes == 1 && m->version == PIPE_VERSION;

	if (!we_offer(p))
		return;
	if (p->state == PEER_OPENING && p->pipe && yes) {
		handshake_memory(p, &m->nonce, s->fd[0]);
		peer_up(p);
		say_surely(p, SAY_CONFIRM, true);
		return;
	}
	peer_refuse(p, unwilling);
	if (yes && p->state != PEER_UP)
		say_surely(p, SAY_CONFIRM, false);
}

static void on_confirm(struct peer *p, bool yes)
{
	if (we_offer(p) || p->state != PEER_OPENING || !p->pipe)
		return;
	if (yes)
		peer_up(p);
	else
		peer_refuse(p, "the other process has withdrawn its offer");
}

/* The peer's direct copies were shut out by the gate, and it has noticed.  It gets a new
 * nonce once it has given up the old one. */
static void on_ask_gate(struct peer *p)
{
	struct reach *r = &p->reach;

	if (p->state != PEER_UP || !r->gate.shut || atomic_load(r->theirs))
		return;
	r->told = false;
	gate_close(&r->gate);
	say_surely(p, SAY_GATE, true);
}

static void on_gate(struct peer *p, const struct host_said *s, const struct pipe_msg *m)
{
	struct reach *r = &p->reach;

	if (p->state != PEER_UP || !r->shut_out)
		return;
	reach_part(r);
	handshake_memory(p, &m->nonce, s->fd[0]);
	r->shut_out = !r->vm;
	log_info("slot %u, process %d: WRITE and READ of its memory go %s%s", p->slot,
		 (int)r->pid, r->vm ? "directly again" : "through shared memory: ",
		 r->vm ? "" : r->why);
}

void peers_said(struct peers *l, struct host_said *s)
{
	struct peer *p = l->by_slot[s->slot];
	struct lent lent = { 0 };
	struct pipe_msg m;
	bool same;

	if (s->len < sizeof(m) || s->slot == l->core->slot)
		return;
	memcpy(&m, s->buf, sizeof(m));
	if (s->len >= sizeof(struct map_msg))
		memcpy(&lent, (const uint8_t *)s->buf + offsetof(struct map_msg, lent),
		       sizeof(lent));
	same = m.version == PIPE_VERSION;
	switch ((enum say)m.what) {
	case SAY_ASK:
		on_ask(l, p, s->slot, same);
		break;
	case SAY_OFFER:
		on_offer(l, p, s, &m);
		break;
	case SAY_ANSWER:
		if (p)
			on_answer(p, s, &m);
		break;
	case SAY_CONFIRM:
		if (p)
			on_confirm(p, m.yes == 1 && same);
		break;
	case SAY_KICK:
		if (p)
			peer_heat(p);
		break;
	case SAY_ASK_GATE:
		if (p && same)
			on_ask_gate(p);
		break;
	case SAY_GATE:
		if (p && same)
			on_gate(p, s, &m);
		break;
	case SAY_ASK_MAP:
		if (p && same)
			on_ask_map(p, lent.key, &m);
		break;
	case SAY_MAP:
		if (p && same)
			on_map(p, s, &lent);
		break;
	case SAY_NOTHING:
		break;
	}
}
