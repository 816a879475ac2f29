/* SPDX-License-Identifier: BSD-2-Clause */
/* hostile.c - a process that takes a slot and says, and writes into the pipe
 * that it gets, what no urnic says and writes: --count attacks from --seed on. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "evil.h"
#include "host/host.h"
#include "host/msg.h"
#include "pattern.h"
#include "peer.h"
#include "shm/reply.h"
#include "wire/qpn.h"

enum { ATTACK_MS = 25, AGREE_S = 5, ANSWERS = 4 };

/* The values of shm/say.h and shm/peer.h, which other programs cannot include. */
enum say { NOTHING, ASK, OFFER, ANSWER, CONFIRM, KICK, SAYS };
struct pipe_msg {
	uint8_t version, what, yes, zero;
	uint32_t bytes;
	uint64_t nonce[3];
};
struct pipe_shared {
	struct ring_shared ring[2];
	struct {
		_Alignas(SLOT) _Atomic uint64_t word;
	} inside[2];
	struct {
		_Alignas(2 * SLOT) _Atomic uint32_t count;
		_Atomic uint64_t word[ANSWERS];
	} answered[2];
	_Alignas(SLOT) _Atomic uint64_t executed[2][QPN_INDICES];
	struct reply_shared reply[2];
	atomic_bool wires[2][QPN_INDICES];
};

enum kind { NOISE, DISORDER, GARBAGE, PLAUSIBLE, KINDS };

static struct {
	struct duo_card honest;
	struct victim_card victim;
	struct evil_card mine;
	int listen, conn, fd; /* fd: descriptor of the pipe's memory */
	struct pipe_shared *pipe;
	unsigned side;
	uint32_t head, tail, psn;
	/* What it has read of the victim's segments (docs/dev/shm.md): their life, and
	 * the number behind the last one. */
	uint32_t life, next;
	uint64_t rng;
} a;

static uint64_t rnd(uint64_t n)
{
	return mix(a.rng++) % n;
}

/* --- saying -------------------------------------------------------------- */

static struct sockaddr_un name_of(uint32_t slot, socklen_t *len)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int n = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "urnic/%u", slot);

	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	return un;
}

static int unix_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	return fd;
}

/* Takes a slot above or below the victim's: the lower slot is to offer the pipe. */
static void take_slot(bool above)
{
	uint32_t victim = slot_of(a.honest.qpn[0]), slot;
	uint32_t first = above ? victim + 1 : SLOT_FIRST;
	uint32_t room = above ? SLOT_NAMED - victim : victim - SLOT_FIRST;
	struct sockaddr_un un;
	socklen_t len;

	if (room < 20) {
		take_slot(!above);
		return;
	}
	a.listen = unix_socket();
	do {
		slot = first + (uint32_t)rnd(room);
		un = name_of(slot, &len);
	} while (bind(a.listen, (struct sockaddr *)&un, len));
	CHECK(!listen(a.listen, 8));
	a.mine = (struct evil_card){ slot, (uint32_t)rnd(1 << 14) };
}

static void say_with(const void *buf, size_t len, const int *fds, unsigned n)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int[8]))];
	} u;
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	memset(&u, 0, sizeof(u));
	if (n) {
		m.msg_control = &u;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		u.head.cmsg_level = SOL_SOCKET;
		u.head.cmsg_type = SCM_RIGHTS;
		u.head.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&u.head), fds, n * sizeof(int));
	}
	(void)sendmsg(a.conn, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static struct msg_head head_of(enum host_type type)
{
	const struct msg_table table = { .table = 'h', .version = MSG_VERSION };

	return msg_head(&table, type);
}

/* The header in front of m is not aligned. */
struct wire {
	uint8_t byte[sizeof(struct msg_head) + sizeof(struct pipe_msg)];
};

static struct wire wire_of(const struct pipe_msg *m)
{
	const struct msg_head head = head_of(HOST_PIPE);
	struct wire w;

	memcpy(w.byte, &head, sizeof(head));
	memcpy(w.byte + sizeof(head), m, sizeof(*m));
	return w;
}

static void tell(enum say what, bool yes, const int *fds, unsigned n)
{
	struct wire w = wire_of(&(struct pipe_msg){
		.version = PIPE_VERSION,
		.what = (uint8_t)what,
		.yes = yes,
		.bytes = sizeof(struct pipe_shared),
	});

	say_with(&w, sizeof(w), fds, n);
}

static int memory_of(size_t bytes, bool sealed)
{
	int fd = memfd_create("evil", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && !ftruncate(fd, (off_t)bytes));
	if (sealed)
		CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL));
	return fd;
}

static void connect_to_victim(bool greet)
{
	const struct {
		struct msg_head head;
		struct msg_hello body;
	} hello = { head_of(HOST_HELLO), { .slot = (uint16_t)a.mine.slot } };
	struct sockaddr_un un;
	socklen_t len;

	un = name_of(slot_of(a.honest.qpn[0]), &len);
	a.conn = unix_socket();
	CHECK(!connect(a.conn, (struct sockaddr *)&un, len));
	if (greet)
		say_with(&hello, sizeof(hello), NULL, 0);
}

/* --- attacks by words ---------------------------------------------------- */

/* Opens up to four descriptors of any kinds. */
static unsigned some_fds(int *fd)
{
	unsigned n = (unsigned)rnd(5);

	for (unsigned i = 0; i < n; i++)
		switch (rnd(5)) {
		case 0:
			fd[i] = memory_of(sizeof(struct pipe_shared), true);
			break;
		case 1:
			fd[i] = memory_of(sizeof(struct pipe_shared), false);
			break;
		case 2:
			fd[i] = memory_of(rnd(1 << 22), true);
			break;
		case 3:
			fd[i] = open("/dev/zero", O_RDWR | O_CLOEXEC);
			break;
		default:
			fd[i] = unix_socket();
			break;
		}
	return n;
}

static void noise(void)
{
	static uint8_t buf[70000];
	size_t len = rnd(4) ? rnd(300) : rnd(sizeof(buf));
	struct msg_head head;
	int fd[8];
	unsigned n = some_fds(fd);

	pattern_fill(buf, len, a.rng);
	if (rnd(2)) {
		head = head_of((enum host_type)rnd(HOST_TYPES + 1));
		head.in_memory = rnd(4) == 0;
		memcpy(buf, &head, sizeof(head));
		if (rnd(2))
			len = sizeof(head) + (rnd(2) ? HOST_PIPE_LEN : HOST_MAP_LEN);
	}
	if (rnd(8) == 0) { /* the victim closes the connection at the first bad message */
		close(a.conn);
		connect_to_victim(rnd(2));
	}
	say_with(buf, len, fd, n);
	for (unsigned i = 0; i < n; i++)
		close(fd[i]);
}

static void disorder(void)
{
	struct pipe_msg m = {
		.version = (uint8_t)(rnd(4) ? PIPE_VERSION : rnd(256)),
		.what = (uint8_t)rnd(rnd(8) ? SAYS : 256),
		.yes = (uint8_t)rnd(3),
		.bytes = rnd(4) ? sizeof(struct pipe_shared) : (uint32_t)rnd(1 << 30),
		.nonce = { rnd(2) ? rnd(UINT64_MAX) : 0, rnd(9), rnd(9) },
	};
	struct wire w = wire_of(&m);
	int fd[8];
	unsigned n = some_fds(fd);

	say_with(&w, rnd(8) ? sizeof(w) : rnd(sizeof(w)), fd, n);
	for (unsigned i = 0; i < n; i++)
		close(fd[i]);
}

/* --- agreeing, as one should --------------------------------------------- */

static ssize_t hear(struct pipe_msg *m, int *fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int[2]))];
	} u;
	struct wire w = { { 0 } };
	struct iovec iov = { &w, sizeof(w) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &u,
			      .msg_controllen = sizeof(u) };
	ssize_t n = recvmsg(a.conn, &msg, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	int got[2] = { -1, -1 };

	if (c)
		memcpy(got, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	*fd = got[0];
	if (got[1] >= 0)
		close(got[1]);
	memcpy(m, w.byte + sizeof(struct msg_head), sizeof(*m));
	if (n < (ssize_t)sizeof(w))
		m->what = NOTHING; /* it was a greeting */
	return n;
}

static void map_pipe(int fd, unsigned side)
{
	CHECK(fd >= 0);
	a.fd = fd;
	a.side = side;
	a.pipe = mmap(NULL, sizeof(*a.pipe), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(a.pipe != MAP_FAILED);
}

static void accept_victim(void)
{
	struct timeval wait = { .tv_sec = AGREE_S };

	if (a.conn >= 0)
		close(a.conn);
	setsockopt(a.listen, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	a.conn = accept4(a.listen, NULL, NULL, SOCK_CLOEXEC);
	CHECK(a.conn >= 0);
	setsockopt(a.conn, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
}

static void agree(void)
{
	bool below = a.mine.slot < slot_of(a.honest.qpn[0]);
	struct pipe_msg m;
	ssize_t n;
	int fd;

	accept_victim();
	for (;;) {
		n = hear(&m, &fd);
		CHECK(n >= 0);
		if (n == 0) { /* the victim has only checked which process this is */
			accept_victim();
		} else if (m.what == ASK && below) {
			map_pipe(memory_of(sizeof(*a.pipe), true), 0);
			tell(OFFER, true, &a.fd, 1);
		} else if (m.what == OFFER && !below) {
			map_pipe(fd, 1);
			tell(ANSWER, true, NULL, 0);
		} else if (m.what == ANSWER && below) {
			CHECK(m.yes);
			tell(CONFIRM, true, NULL, 0);
			return;
		} else if (m.what == CONFIRM && !below) {
			CHECK(m.yes);
			return;
		}
	}
}

/* --- attacks by memory --------------------------------------------------- */

static struct rec *slot_at(uint32_t pos)
{
	return (struct rec *)(void *)a.pipe->ring[a.side].slot[pos % RING_SLOTS];
}

static void publish(struct rec *r, uint32_t bytes)
{
	uint32_t n = bytes / SLOT + (bytes % SLOT != 0);

	r->bytes = bytes;
	__atomic_store_n(&slot_at(a.head + n)->stamp, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&r->stamp, a.head << 1 | 1, __ATOMIC_RELEASE);
	a.head += n;
}

static uint32_t path(void)
{
	uint32_t h = 2166136261u;

	for (int i = 0; i < 32; i++)
		h = (h ^ a.victim.gid.raw[i % 16]) * 16777619u;
	return h ^ 0x7fff; /* the index of the default P_Key */
}

/* Does the packet have an RETH, AtomicETH or AtomicAckETH? */
static void garbage(void)
{
	struct ring_shared *in = &a.pipe->ring[!a.side];
	uint8_t *from = (uint8_t *)&a.pipe->ring[a.side];
	size_t at = rnd(sizeof(struct ring_shared) - 256);
	uint64_t word;
	struct rec *r;

	switch (rnd(12)) {
	case 0:
		atomic_store(&in->tail, (uint32_t)rnd(UINT32_MAX));
		break;
	case 1:
		atomic_store(&in->want_kick, (uint32_t)rnd(3));
		atomic_store(&in->want_space, (uint32_t)rnd(3));
		break;
	case 2:
		atomic_store(&a.pipe->inside[a.side].word,
			     rnd(2) ? (uint64_t)a.victim.honest.rkey << 32 | 1
				    : rnd(UINT64_MAX));
		break;
	case 3:
		pattern_fill((uint8_t *)in + at, 256, a.rng);
		break;
	case 4:
		pattern_fill(from + at, 256, a.rng);
		break;
	case 5: /* the word of the QP to which the victim sends */
		word = rnd(2) ? (uint64_t)a.victim.qpn << 40 | rnd(UINT32_MAX)
			      : rnd(UINT64_MAX);
		atomic_store(&a.pipe->executed[a.side][rnd(QPN_INDICES)], word);
		atomic_store(&a.pipe->answered[a.side].word[rnd(ANSWERS)], word);
		atomic_fetch_add(&a.pipe->answered[a.side].count, (uint32_t)rnd(6));
		break;
	default:
		r = slot_at(a.head);
		pattern_fill((uint8_t *)r + 8, SLOT - 8, a.rng);
		publish(r, (uint32_t)(rnd(3) ? rnd(RING_CHUNK) : rnd(UINT32_MAX)));
	}
}

static uint32_t one_of(uint32_t good, uint32_t bad, uint32_t worse)
{
	uint64_t n = rnd(10);

	return n < 7 ? good : n == 7 ? bad : n == 8 ? worse : (uint32_t)rnd(UINT32_MAX);
}

/* What an honest reader does; the victim must not depend on it. */
static void read_on(void)
{
	struct ring_shared *in = &a.pipe->ring[!a.side];
	struct rec *r = (struct rec *)(void *)in->slot[a.tail % RING_SLOTS];

	while (__atomic_load_n(&r->stamp, __ATOMIC_ACQUIRE) == (a.tail << 1 | 1)) {
		if (r->kind == REC_SEGMENT) {
			a.life = r->life;
			a.next = (r->psn + 1) & 0xffffff;
		}
		a.tail += r->bytes / SLOT + (r->bytes % SLOT != 0);
		r = (struct rec *)(void *)in->slot[a.tail % RING_SLOTS];
	}
	atomic_store(&in->tail, a.tail);
	if (atomic_exchange(&in->want_space, 0))
		tell(KICK, true, NULL, 0);
}

/* What may be true of the victim's segments. */
static uint64_t some_word(void)
{
	return (uint64_t)(a.victim.qpn & (QPN_INDICES - 1)) << 50 |
	       (uint64_t)(rnd(8) ? a.life : rnd(256)) << 42 | rnd(1024) << 32 |
	       (rnd(2)	 ? 0
		: rnd(2) ? 0x60 + rnd(6)
			 : rnd(256))
		       << 24 |
	       ((a.next - rnd(4)) & 0xffffff);
}

/* The kind of message in the upper bits, the source's life, and
 * the number of READs and atomics that are outstanding. */
static void make_segment(struct rec *r, uint32_t *len)
{
	enum { SEND, WRITE, READ, WORD = 7, ONLY = 3, LIFE = 9 };
	const unsigned kind = (unsigned)rnd(WORD + 1);
	const bool answered = kind >= READ && kind < WORD;
	uint64_t word;

	r->kind = REC_SEGMENT;
	r->opcode = (uint8_t)(kind << 4 | (rnd(3) ? ONLY : rnd(16)));
	r->flags = (uint8_t)(answered || (kind == WRITE && r->opcode & 1) ? REC_WIDE : 0);
	if (rnd(40) == 0)
		r->flags = (uint8_t)rnd(256);
	if (rnd(80) == 0)
		r->kind = (uint8_t)rnd(REC_KINDS + 1);
	r->life = (uint8_t)(rnd(8) ? LIFE : rnd(256));
	r->psn |= answered ? (uint32_t)rnd(20) << 24 : 0;
	if (answered) {
		r->data = (uint32_t)(rnd(8) ? rnd(REPLIES) : rnd(UINT32_MAX));
		r->len = rnd(2) ? 8 : *len;
		*len = rnd(8) ? 0 : *len;
	}
	if (kind == WORD) {
		word = some_word();
		r->psn = (uint32_t)word;
		r->data = (uint32_t)(word >> 32);
		*len = 0;
	}
}

static void say_word(void)
{
	const uint64_t word = some_word();

	atomic_store(&a.pipe->executed[a.side][a.mine.qpn], word);
	atomic_store(&a.pipe->answered[a.side].word[rnd(ANSWERS)], word);
	atomic_fetch_add(&a.pipe->answered[a.side].count, (uint32_t)rnd(3));
}

/* Well-formed records with wrong contents. */
static void plausible(void)
{
	uint32_t mine = a.mine.slot << 14 | a.mine.qpn, len = (uint32_t)rnd(9000);
	uint32_t end = RING_SLOTS - a.head % RING_SLOTS, room;
	struct rec *r = slot_at(a.head);

	read_on();
	room = RING_SLOTS - (a.head - atomic_load(&a.pipe->ring[a.side].tail));
	if (room > RING_SLOTS || room < RING_RECORD_SLOTS + 2)
		return;
	memset(r, 0, SLOT);
	if (end < RING_RECORD_SLOTS) {
		r->kind = REC_PAD;
		publish(r, end * SLOT);
		return;
	}
	r->dst = one_of(a.victim.qpn, a.honest.qpn[0], a.honest.qpn[1]);
	r->src = one_of(mine, a.honest.qpn[0], a.victim.qpn);
	r->psn = one_of(CREW_PSN + a.psn, CREW_PSN + (uint32_t)rnd(9), CREW_PSN);
	r->route = path();
	r->data = (uint32_t)rnd(UINT32_MAX);
	r->va = rnd(3) ? a.victim.addr + rnd(EVIL_LEN) : a.honest.addr + rnd(EVIL_LEN);
	r->rkey = one_of(a.victim.rkey, a.honest.rkey, 0);
	r->len = rnd(2) ? len : (uint32_t)rnd(UINT32_MAX);
	r->compare = r->swap_add = rnd(3);
	make_segment(r, &len);
	a.psn += rnd(2) ? len / RING_CHUNK + 1 : 0;
	publish(r, rec_head(r) + (rnd(3) || !len ? len : 8));
	if (rnd(4) == 0)
		say_word();
	if (rnd(4) == 0)
		tell(KICK, true, NULL, 0);
}

/* --- all of them --------------------------------------------------------- */

static void attack(int sock, enum kind kind)
{
	double end;

	a.conn = a.fd = -1;
	a.pipe = NULL;
	a.head = a.tail = a.psn = a.life = a.next = 0;
	take_slot(rnd(2));
	CHECK(send(sock, &a.mine, sizeof(a.mine), 0) == sizeof(a.mine));
	CHECK(recv(sock, &a.victim, sizeof(a.victim), MSG_WAITALL) == sizeof(a.victim));
	if (kind == NOISE || kind == DISORDER)
		connect_to_victim(kind == DISORDER || rnd(2));
	else
		agree();
	end = now_s() + ATTACK_MS * 1e-3;
	while (now_s() < end) {
		static void (*const act[KINDS])(void) = {
			noise,
			disorder,
			garbage,
			plausible,
		};

		for (unsigned i = rnd(20) ? 1 : 50; i; i--)
			act[kind]();
		if (rnd(3) == 0)
			crew_nap();
	}
	if (a.pipe)
		munmap(a.pipe, sizeof(*a.pipe));
	if (a.fd >= 0)
		close(a.fd);
	close(a.conn);
	close(a.listen);
	CHECK(send(sock, "o", 1, 0) == 1);
}

int hostile(void)
{
	struct evil_card over = { .slot = EVIL_OVER };
	int sock = peer_meet(opt.host, opt.port);

	CHECK(recv(sock, &a.honest, sizeof(a.honest), MSG_WAITALL) == sizeof(a.honest));
	for (unsigned n = 0; n < lopt.count; n++) {
		a.rng = mix(lopt.seed + n);
		attack(sock, (enum kind)(n % KINDS));
	}
	CHECK(send(sock, &over, sizeof(over), 0) == sizeof(over));
	say("all right");
	return 0;
}
