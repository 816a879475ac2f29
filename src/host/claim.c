/* SPDX-License-Identifier: BSD-2-Clause */
/* claim.c - see claim.h.
 *
 * sock_diag(7) lists the listening unix sockets of this network namespace for any
 * process, with name, inode and owner.
 */
#include "host/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/nsfs.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/name.h"
#include "sys/fd.h"
#include "sys/rand.h"
#include "wire/qpn.h"

enum {
	LISTENS = 10,  /* TCP_LISTEN, which unix sockets use too */
	PIECE = 16384, /* bytes of the list in one datagram */
	MORE = 1,      /* take_piece(): more pieces follow */
};

uint64_t claim_strength(uid_t uid, uint16_t slot)
{
	struct prng r = { (uint64_t)uid << QPN_SLOT_BITS | slot };

	return uid == 0 ? UINT64_MAX : rand_u64(&r) >> 1;
}

static int name_of(const struct claim *c, char name[NAME_MAX_LEN])
{
	return snprintf(name, NAME_MAX_LEN, "urnic/%u/%016llx", c->slot,
			(unsigned long long)c->tag);
}

int claim_listen(const struct claim *c)
{
	char name[NAME_MAX_LEN];

	name_of(c, name);
	return name_listen_at(name);
}

int claim_connect(const struct claim *c)
{
	char name[NAME_MAX_LEN];

	name_of(c, name);
	return name_connect_to(name);
}

bool claim_is(const struct claim *a, const struct claim *b)
{
	return a->slot == b->slot && a->tag == b->tag && a->ino == b->ino &&
	       a->uid == b->uid;
}

/* --- asking ---------------------------------------------------------------------- */

/* Tells a shortage in this process (-EAGAIN) from a kernel that gives no answers. */
static int failure(int error)
{
	switch (error) {
	case EAGAIN:
	case EINTR:
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		return -EAGAIN;
	default:
		return -EOPNOTSUPP;
	}
}

int claim_uids_count(void)
{
	int net = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), owner, rc;
	struct stat a, b;

	if (net < 0)
		return failure(errno);
	owner = ioctl(net, NS_GET_USERNS);
	if (owner < 0)
		rc = failure(errno);
	else if (fstat(owner, &a) || stat("/proc/self/ns/user", &b))
		rc = failure(errno);
	else
		rc = a.st_dev == b.st_dev && a.st_ino == b.st_ino ? 0 : -EOPNOTSUPP;
	if (owner >= 0)
		close(owner);
	close(net);
	return rc;
}

/* Asks for all listening sockets (NLM_F_DUMP) or for socket ino. Returns the descriptor
 * to read the answer from, or -errno. The answer comes with the request, so nothing
 * waits for it. */
static int dump_sockets(uint16_t flags, uint32_t ino)
{
	const struct {
		struct nlmsghdr h;
		struct unix_diag_req r;
	} q = {
		.h = { .nlmsg_len = sizeof(q),
		       .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		       .nlmsg_flags = NLM_F_REQUEST | flags },
		.r = { .sdiag_family = AF_UNIX,
		       .udiag_states = 1 << LISTENS,
		       .udiag_ino = ino,
		       .udiag_show = UDIAG_SHOW_UID | UDIAG_SHOW_NAME,
		       .udiag_cookie = { UINT32_MAX, UINT32_MAX } },
	};
	int fd = fd_raise(
		fd_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
	int rc;

	if (fd < 0)
		return failure(errno);
	if (send(fd, &q, sizeof(q), MSG_DONTWAIT) == sizeof(q))
		return fd;
	rc = failure(errno);
	close(fd);
	return rc;
}

/* --- the answer ------------------------------------------------------------------ */

static bool parse_name(const char *name, size_t len, struct claim *c)
{
	char text[NAME_MAX_LEN], again[NAME_MAX_LEN];
	unsigned slot;
	unsigned long long tag;

	if (len < 2 || len - 1 >= sizeof(text) || name[0])
		return false;
	memcpy(text, name + 1, len - 1);
	text[len - 1] = '\0';
	if (sscanf(text, "urnic/%u/%llx", &slot, &tag) != 2 || slot <= SLOT_NAMED ||
	    slot > SLOT_LAST)
		return false;
	c->slot = (uint16_t)slot;
	c->tag = tag;
	/* Several texts parse as the same numbers; only the one that name_of() writes
	 * counts. */
	return name_of(c, again) == (int)len - 1 && !memcmp(text, again, len - 1);
}

/* Reads a claim from the description of a socket. Returns false if it is no claim. */
static bool parse_socket(const struct nlmsghdr *h, struct claim *c)
{
	const struct unix_diag_msg *m = NLMSG_DATA(h);
	bool named = false, owned = false;
	unsigned left;

	if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    h->nlmsg_len < NLMSG_SPACE(sizeof(*m)) || m->udiag_type != SOCK_SEQPACKET ||
	    m->udiag_state != LISTENS)
		return false;
	c->ino = m->udiag_ino;
	left = h->nlmsg_len - (unsigned)NLMSG_SPACE(sizeof(*m));
	for (const struct rtattr *a = (const void *)(m + 1); RTA_OK(a, left);
	     a = RTA_NEXT(a, left)) {
		if (a->rta_type == UNIX_DIAG_NAME)
			named = parse_name(RTA_DATA(a), RTA_PAYLOAD(a), c);
		if (a->rta_type == UNIX_DIAG_UID && RTA_PAYLOAD(a) == sizeof(c->uid)) {
			memcpy(&c->uid, RTA_DATA(a), sizeof(c->uid));
			owned = true;
		}
	}
	return named && owned;
}

typedef void claim_fn(void *arg, const struct claim *c);

/* Reads one piece of the answer. Returns 0: it was the last; MORE; the kernel's -errno,
 * or -EAGAIN. */
static int take_piece(int diag, claim_fn *fn, void *arg)
{
	_Alignas(struct nlmsghdr) uint8_t buf[PIECE];
	ssize_t n = recv(diag, buf, sizeof(buf), MSG_DONTWAIT | MSG_TRUNC);
	const struct nlmsghdr *h = (const void *)buf;
	unsigned left = (unsigned)n;
	struct claim c;
	int error = 0;

	if (n <= 0 || (size_t)n > sizeof(buf))
		return -EAGAIN;
	for (; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
		if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR) {
			if (h->nlmsg_len >= NLMSG_LENGTH(sizeof(error)))
				memcpy(&error, NLMSG_DATA(h), sizeof(error));
			return error;
		}
		if (parse_socket(h, &c))
			fn(arg, &c);
	}
	return left ? -EAGAIN : MORE;
}

int claim_list(claim_fn *fn, void *arg)
{
	int diag = dump_sockets(NLM_F_DUMP, 0), rc;

	if (diag < 0)
		return diag;
	do
		rc = take_piece(diag, fn, arg);
	while (rc == MORE);
	close(diag);
	return rc ? failure(-rc) : 0;
}

struct check {
	const struct claim *want;
	bool found;
};

static void match_claim(void *arg, const struct claim *c)
{
	struct check *k = arg;

	k->found |= claim_is(k->want, c);
}

int claim_check(const struct claim *c)
{
	struct check k = { .want = c };
	int diag = dump_sockets(0, c->ino), rc;

	if (diag < 0)
		return -EAGAIN;
	rc = take_piece(diag, match_claim, &k);
	close(diag);
	if (rc == MORE || rc == -ENOENT)
		return k.found ? 0 : -ESRCH;
	return -EAGAIN;
}
