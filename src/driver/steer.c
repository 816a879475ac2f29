/* SPDX-License-Identifier: BSD-2-Clause */
/* steer.c - see steer.h.
 *
 * A discovery is one or more passes. A pass probes place after place, a few at a time,
 * until a slot answers that was met before: past the end of the group the kernel chooses
 * by hash, which gives the same socket each time. The map is then attached, and the next
 * pass has to find the same: no program may have been in place before, or another
 * process may have changed the group meanwhile.
 *
 * The group has one program. The last to attach one wins; a wrong one shows itself by
 * misdelivered datagrams.
 */
#include "driver/steer.h"
#include "net/ip_addr.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/steer_map.h"
#include "host/host.h"
#include "sys/alloc.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "sys/rand.h"
#include "wire/be.h"

enum {
	WINDOW = 8, /* places probed at once */
	TRIES = 3,
	PASSES = 4,
	ANSWER_NS = 20000000,	 /* ns to wait for an answer */
	FIRST_NS = 10000000,	 /* ns after bind, at most */
	LATER_NS = 2000000,	 /* ns after a misdelivery, at most */
	PAUSE_MIN_NS = 50000000, /* ns between discoveries, if they change the map */
};
static const uint64_t PAUSE_MAX_NS = 5000000000; /* ns, if they change nothing */

enum probe_kind { PROBE_ASK = 1, PROBE_ANSWER = 2 };

/* A probe's payload; stands where a BTH would be. */
struct probe {
	uint8_t opcode, kind;
	be16_t place;
	uint8_t version;
	be24_t qpn;  /* slot 0, the host's */
	be16_t slot; /* slot of the sender */
	uint8_t zero[2];
	be32_t nonce;
};

static_assert(sizeof(struct probe) == 16, "layout");

enum { PROBE_VERSION = 1 };

struct slot_set {
	uint64_t bits[STEER_SLOTS / 64];
};

struct steer {
	int family, rx_fd, epfd;
	int ask_fd; /* open while ASKING; connected to the port */
	uint16_t port, slot;
	enum { IDLE, WAITING, ASKING } state;
	bool newcomer; /* WAITING since bind */
	uint64_t at;   /* ns; deadline of the state; 0: choose one */
	struct prng rand;

	/* The current pass: */
	uint32_t nonce;
	unsigned base;		 /* places being probed: [base, base + WINDOW) */
	uint16_t answer[WINDOW]; /* slot that answered; 0: none yet */
	unsigned tries, passes;
	struct steer_map found, attached;

	/* Kept between discoveries: */
	struct steer_map last; /* map that the last discovery found */
	uint64_t pause, earliest;
	struct slot_set wanted; /* slots misdelivered since then */
	struct slot_set absent; /* slots without a socket, until absent_until */
	uint64_t absent_until;
	/* misdelivered datagrams, to find the busiest slots */
	uint32_t count[STEER_SLOTS];
	uint64_t discoveries;
	bool said_nomem;
};

static void set_add(struct slot_set *s, unsigned slot)
{
	s->bits[slot / 64] |= UINT64_C(1) << slot % 64;
}

static bool set_has(const struct slot_set *s, unsigned slot)
{
	return s->bits[slot / 64] >> slot % 64 & 1;
}

/* --- attaching ----------------------------------------------------------- */

struct ranked {
	uint16_t slot;
	uint32_t count;
};

static int by_count(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return (x->count < y->count) - (x->count > y->count);
}

static int by_slot(const void *a, const void *b)
{
	return *(const uint16_t *)a - *(const uint16_t *)b;
}

/* Lists the slots of the map, most misdelivered first. */
static unsigned rank(const struct steer *s, struct ranked *r)
{
	unsigned n = 0;

	for (unsigned i = SLOT_FIRST; i <= SLOT_LAST; i++) {
		if (s->found.place[i] == STEER_NONE)
			continue;
		r[n++] = (struct ranked){ (uint16_t)i,
					  i == s->slot ? UINT32_MAX : s->count[i] };
	}
	qsort(r, n, sizeof(*r), by_count);
	return n;
}

static int attach_first(struct steer *s, const struct ranked *r, unsigned n,
			struct sock_filter *f)
{
	uint16_t slot[STEER_SLOTS];
	struct sock_fprog prog = { .filter = f };

	for (unsigned i = 0; i < n; i++)
		slot[i] = r[i].slot;
	qsort(slot, n, sizeof(*slot), by_slot);
	prog.len = (unsigned short)steer_program(f, s->family, &s->found, slot, n);
	if (prog.len == 0)
		return -ENOMEM;
	if (setsockopt(s->rx_fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog,
		       sizeof(prog)))
		return -errno;
	return 0;
}

/* Attaches the program. The kernel limits its size (net.core.optmem_max); if need be it
 * has only the busiest slots. */
static int attach_program(struct steer *s)
{
	struct ranked r[STEER_SLOTS];
	unsigned all = rank(s, r), n = all;
	struct sock_filter *f = turn_alloc(STEER_PROGRAM_MAX * sizeof(*f));
	int rc = -ENOMEM;

	if (!f)
		return rc;
	for (; n > 0; n = n * 3 / 4) {
		rc = attach_first(s, r, n, f);
		if (rc != -ENOMEM)
			break;
	}
	turn_free(f);
	if (rc) {
		log_info("cannot attach the steering program: %s", strerror(-rc));
	} else if (n < all && !s->said_nomem) {
		s->said_nomem = true;
		log_info("net.core.optmem_max is too small for %u processes: "
			 "datagrams for %u of them are forwarded by other processes",
			 all, all - n);
	}
	return rc;
}

/* --- asking -------------------------------------------------------------- */

static int open_ask(struct steer *s)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET,
				  .sin_port = htons(s->port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(s->port),
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	bool is4 = s->family == AF_INET;
	struct epoll_event ev = { .events = EPOLLIN };
	int fd = fd_socket(s->family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	fd = fd_raise(fd);
	if (fd < 0)
		return -errno;
	if (connect(fd, is4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6,
		    is4 ? sizeof(v4) : sizeof(v6)) ||
	    epoll_ctl(s->epfd, EPOLL_CTL_ADD, fd, &ev)) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	s->ask_fd = fd;
	return 0;
}

static void close_ask(struct steer *s)
{
	if (s->ask_fd < 0)
		return;
	epoll_ctl(s->epfd, EPOLL_CTL_DEL, s->ask_fd, NULL);
	close(s->ask_fd);
	s->ask_fd = -1;
}

static void ask_window(struct steer *s, uint64_t now)
{
	struct probe p = {
		.opcode = STEER_OPCODE,
		.kind = PROBE_ASK,
		.version = PROBE_VERSION,
		.slot = be16(s->slot),
		.nonce = be32(s->nonce),
	};

	for (unsigned i = 0; i < WINDOW; i++) {
		if (s->answer[i])
			continue;
		p.place = be16((uint16_t)(s->base + i));
		/* A probe that is not sent is not answered, and so is repeated. */
		send(s->ask_fd, &p, sizeof(p), MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	s->tries++;
	s->at = now + ANSWER_NS;
}

static void begin_window(struct steer *s, unsigned base, uint64_t now)
{
	s->base = base;
	s->tries = 0;
	memset(s->answer, 0, sizeof(s->answer));
	ask_window(s, now);
}

static void begin_pass(struct steer *s, uint64_t now)
{
	s->nonce = (uint32_t)rand_u64(&s->rand);
	steer_map_clear(&s->found);
	begin_window(s, 0, now);
}

static void begin_discovery(struct steer *s, uint64_t now)
{
	s->passes = 0;
	s->discoveries++;
	steer_map_clear(&s->attached);
	s->state = ASKING;
	begin_pass(s, now);
}

/* Ends the discovery. If it found the same as the last one, the next has to wait
 * longer. */
static void finish(struct steer *s, uint64_t now)
{
	bool same = !memcmp(&s->found, &s->last, sizeof(s->found));

	close_ask(s);
	s->state = IDLE;
	s->last = s->found;
	if (!same || now > s->earliest + PAUSE_MAX_NS)
		s->pause = PAUSE_MIN_NS;
	else
		s->pause = s->pause * 2 < PAUSE_MAX_NS ? s->pause * 2 : PAUSE_MAX_NS;
	s->earliest = now + s->pause + rand_below(&s->rand, s->pause);

	for (unsigned i = SLOT_FIRST; i <= SLOT_LAST; i++)
		if (set_has(&s->wanted, i) && s->found.place[i] == STEER_NONE)
			set_add(&s->absent, i);
	memset(&s->wanted, 0, sizeof(s->wanted));
	s->absent_until = now + PAUSE_MAX_NS;
}

static void end_pass(struct steer *s, uint64_t now)
{
	bool confirmed = !memcmp(&s->found, &s->attached, sizeof(s->found));

	if (confirmed || s->passes++ == PASSES || attach_program(s)) {
		finish(s, now);
		return;
	}
	s->attached = s->found;
	begin_pass(s, now);
}

static void end_window(struct steer *s, uint64_t now)
{
	bool any = false, past_end = false;

	for (unsigned i = 0; i < WINDOW; i++) {
		uint16_t slot = s->answer[i];

		if (!slot)
			continue;
		any = true;
		if (s->found.place[slot] != STEER_NONE)
			past_end = true;
		else
			s->found.place[slot] = (uint16_t)(s->base + i);
	}
	if (past_end || !any || s->base + WINDOW >= STEER_SLOTS)
		end_pass(s, now);
	else
		begin_window(s, s->base + WINDOW, now);
}

static void read_answers(struct steer *s)
{
	struct probe p;
	ssize_t n;

	/* A pending error is reported once, and may hide an answer. */
	for (int i = 0; i < 2 * WINDOW; i++) {
		unsigned at, slot;

		n = recv(s->ask_fd, &p, sizeof(p), MSG_DONTWAIT | MSG_TRUNC);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n != sizeof(p) || p.opcode != STEER_OPCODE ||
		    p.kind != PROBE_ANSWER || get_be32(p.nonce) != s->nonce)
			continue;
		at = get_be16(p.place) - s->base;
		slot = get_be16(p.slot);
		if (at < WINDOW && slot >= SLOT_FIRST && slot <= SLOT_LAST)
			s->answer[at] = (uint16_t)slot;
	}
}

static bool window_full(const struct steer *s)
{
	for (unsigned i = 0; i < WINDOW; i++)
		if (!s->answer[i])
			return false;
	return true;
}

uint64_t steer_run(struct steer *s, uint64_t now)
{
	if (s->state == IDLE)
		return NEVER;
	if (s->state == WAITING) {
		if (s->at == 0) /* first time after bind */
			s->at = now + rand_below(&s->rand, FIRST_NS);
		if (now < s->at)
			return s->at;
		if (open_ask(s)) { /* no lo, or no descriptors left */
			finish(s, now);
			return NEVER;
		}
		begin_discovery(s, now);
		return s->at;
	}
	read_answers(s);
	if (window_full(s) || (now >= s->at && s->tries >= TRIES))
		end_window(s, now);
	else if (now >= s->at)
		ask_window(s, now);
	return s->state == IDLE ? NEVER : s->at;
}

bool steer_active(const struct steer *s)
{
	return s->state == ASKING;
}

/* --- what comes in ------------------------------------------------------- */

void steer_misdelivered(struct steer *s, uint16_t slot, uint64_t now)
{
	if (slot < SLOT_FIRST || slot > SLOT_LAST)
		return;
	if (s->count[slot] < UINT32_MAX - 1)
		s->count[slot]++;
	if (now >= s->absent_until)
		memset(&s->absent, 0, sizeof(s->absent));
	if (set_has(&s->absent, slot))
		return;
	set_add(&s->wanted, slot);
	if (s->state != IDLE)
		return;
	s->state = WAITING;
	s->newcomer = false;
	s->at = now + 1 + rand_below(&s->rand, LATER_NS);
	if (s->at < s->earliest)
		s->at = s->earliest;
}

static bool from_loopback(const struct dgram *d)
{
	if (addr_is_v4(ip_of(d)->from.ip))
		return ip_of(d)->from.ip[12] == 127;
	return IN6_IS_ADDR_LOOPBACK(
		(const struct in6_addr *)(const void *)ip_of(d)->from.ip);
}

/* Answers by the socket on the port, which only this user's processes can send from, so
 * the asker can trust the answer. */
static void reply(struct steer *s, const struct dgram *d, struct probe *p)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET,
				  .sin_port = htons(ip_of(d)->from.port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(ip_of(d)->from.port) };
	bool is4 = s->family == AF_INET;

	memcpy(&v4.sin_addr, ip_of(d)->from.ip + 12, 4);
	memcpy(&v6.sin6_addr, ip_of(d)->from.ip, 16);
	p->kind = PROBE_ANSWER;
	p->slot = be16(s->slot);
	sendto(s->rx_fd, p, sizeof(*p), MSG_DONTWAIT | MSG_NOSIGNAL,
	       is4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6,
	       is4 ? sizeof(v4) : sizeof(v6));
}

bool steer_input(struct steer *s, const struct dgram *d)
{
	struct probe p;

	if (d->len != sizeof(p) || !from_loopback(d))
		return false;
	memcpy(&p, d->iov[0].iov_base, sizeof(p));
	if (p.opcode != STEER_OPCODE)
		return false;
	/* Nothing sent from the port itself is answered, or answers would circulate. */
	if (p.kind != PROBE_ASK || p.version != PROBE_VERSION ||
	    ip_of(d)->from.port == s->port)
		return true;
	/* Another process runs a discovery, and has found this one. */
	if (s->state == WAITING && s->newcomer && get_be16(p.slot) != s->slot)
		s->state = IDLE;
	reply(s, d, &p);
	return true;
}

/* --- opening ------------------------------------------------------------- */

int steer_open(struct steer **out, int family, uint16_t port, uint16_t slot, int rx_fd,
	       int epfd)
{
	struct steer *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	rand_seed(&s->rand, rand_start());
	s->family = family;
	s->port = port;
	s->slot = slot;
	s->rx_fd = rx_fd;
	s->epfd = epfd;
	s->ask_fd = -1;
	s->state = WAITING;
	s->newcomer = true;
	s->pause = PAUSE_MIN_NS;
	steer_map_clear(&s->last);
	*out = s;
	return 0;
}

void steer_forked(struct steer *s)
{
	if (s->ask_fd >= 0)
		close(s->ask_fd);
	s->ask_fd = -1;
	s->state = IDLE;
}

void steer_close(struct steer *s)
{
	close_ask(s);
	free(s);
}

uint64_t steer_discoveries(const struct steer *s)
{
	return s->discoveries;
}
