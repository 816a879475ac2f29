/* SPDX-License-Identifier: BSD-2-Clause */
/* say.c - sends messages to a peer, and keeps those that must wait until the connection
 * has room; see say.h. */
#include "shm/say.h"

#include <errno.h>
#include <unistd.h>

#include "host/host.h"

void say_take_offer(struct peers *l, uint16_t slot, bool yes)
{
	if (l->host) /* a test may have none */
		host_take_fds(l->host, slot, yes);
}

/* Notes when a message that is refused for now may be sent again. */
static int or_later(struct peer *p, int rc)
{
	if (rc == -EAGAIN)
		p->l->say_at = p->l->now + SAY_AGAIN_NS;
	return rc;
}

static int send_body(struct peer *p, enum host_type type, void *body, size_t len,
		     const int *fds, unsigned n)
{
	const struct iovec part = { body, len };

	return host_say(p->l->host, p->slot, type, &part, 1, fds, n);
}

static int say_now(struct peer *p, enum say what, bool yes)
{
	struct pipe_msg m = {
		.version = PIPE_VERSION,
		.what = (uint8_t)what,
		.yes = yes,
		.bytes = sizeof(struct pipe_shared),
	};
	int fd[MSG_FDS] = { -1, -1 }, exports_fd = direct_of(p->l->core)->exports_fd;
	unsigned n = 0;
	/* host_connect() also finds out, from the connection, whose process the peer
	 * is. */
	int rc = host_connect(p->l->host, p->slot);

	if (rc)
		return or_later(p, rc);
	if (what == SAY_ASK)
		say_take_offer(p->l, p->slot, true);
	if (what == SAY_OFFER && yes)
		fd[n++] = p->fd;
	/* Only processes of the same user are told where our memory lies. */
	if ((what == SAY_OFFER || what == SAY_ANSWER || what == SAY_GATE) && yes &&
	    exports_fd >= 0 && host_is_ours(p->l->host, p->slot) &&
	    gate_open(&p->reach.gate)) {
		m.nonce = gate_nonce(&p->reach.gate);
		fd[n++] = exports_fd;
	}
	rc = send_body(p, HOST_PIPE, &m, sizeof(m), fd, n);
	p->reach.told |= !rc && m.nonce.at;
	return or_later(p, rc);
}

static bool has_unsaid(const struct peer *p)
{
	return p->say != SAY_NOTHING || p->kick || p->want_map;
}

/* Before a message is noted, which must wait. */
static void one_waits(struct peer *p)
{
	p->l->unsaid += !has_unsaid(p);
	source_sooner(&p->l->source, p->l->say_at);
}

int say_surely(struct peer *p, enum say what, bool yes)
{
	int rc = say_now(p, what, yes);

	if (rc && rc != -EAGAIN)
		peers_gone(p->l, p->slot);
	if (!rc && what == SAY_OFFER && p->fd >= 0) {
		close(p->fd);
		p->fd = -1;
	}
	if (rc != -EAGAIN)
		return rc;
	one_waits(p);
	p->say = (uint8_t)what;
	p->say_yes = yes;
	return 0;
}

void peer_kick(struct peer *p)
{
	if (p == p->l->self || p->state != PEER_UP || p->kick)
		return;
	if (say_now(p, SAY_KICK, true) != -EAGAIN)
		return;
	one_waits(p);
	p->kick = true;
}

/* Only notes the request; peers_flush() sends it at the turn's end.  Sending may find
 * that the connection has ended, which must not happen now since QPs are locked. */
void peer_ask_gate(struct peer *p, uint64_t now)
{
	enum { EVERY_NS = 1000000000 };

	if (now < p->reach.ask_at || p->say != SAY_NOTHING)
		return;
	p->reach.ask_at = now + EVERY_NS;
	one_waits(p);
	p->say = SAY_ASK_GATE;
	p->say_yes = true;
}

void peer_forget_unsaid(struct peer *p)
{
	p->l->unsaid -= has_unsaid(p);
	p->say = SAY_NOTHING;
	p->kick = false;
	p->want_map = 0;
}

int say_map(struct peer *p, const struct lent *lent, int fd)
{
	struct map_msg m = {
		.head = { .version = PIPE_VERSION, .what = SAY_MAP, .yes = fd >= 0 },
		.lent = *lent,
	};

	return or_later(p, send_body(p, HOST_MAP, &m, sizeof(m), &fd, fd >= 0));
}

static int say_ask_map(struct peer *p, uint32_t key)
{
	struct map_msg m = {
		.head = { .version = PIPE_VERSION, .what = SAY_ASK_MAP },
		.lent = { .key = key },
	};

	if (!reach_prove(&p->reach, m.head.nonce.value)) {
		reach_is_refused(&p->reach, key);
		return -EPERM;
	}
	return or_later(p, send_body(p, HOST_MAP, &m, sizeof(m), NULL, 0));
}

/* Only notes the request, for the same reason as peer_ask_gate(). */
void peer_ask_map(struct peer *p, uint32_t key)
{
	if (p->want_map)
		return;
	one_waits(p);
	p->want_map = key;
}

void peer_say_again(struct peer *p)
{
	enum say what = (enum say)p->say;
	bool yes = p->say_yes, kick = p->kick;
	uint32_t ask = p->want_map;
	int rc;

	peer_forget_unsaid(p);
	if (what != SAY_NOTHING)
		say_surely(p, what, yes);
	if (kick)
		peer_kick(p);
	if (!ask)
		return;
	rc = say_ask_map(p, ask);
	if (rc == -EAGAIN)
		peer_ask_map(p, ask);
	else if (!rc) {
		p->l->asked = p;
		p->l->looks = ANSWER_LOOKS;
	}
}
