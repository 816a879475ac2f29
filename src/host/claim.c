/* SPDX-License-Identifier: BSD-2-Clause */
/* claim.c - see claim.h. */
#include "host/claim.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/nsfs.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/host.h"
#include "host/name.h"
#include "sys/fd.h"
#include "sys/rand.h"

static_assert(sizeof(struct nlmsghdr) % 4 == 0 && sizeof(struct unix_diag_msg) % 4 == 0,
	      "nothing needs padding");

enum {
	ACCEPTS = 0x10000, /* in the list: a listener */
	LISTENS = 10,	   /* the same in an answer (TCP_LISTEN) */
};

uint64_t claim_strength(uid_t uid, uint16_t slot)
{
	struct prng r = { (uint64_t)uid << SLOT_BITS | slot };

	return uid == 0 ? UINT64_MAX : rand_u64(&r) >> 1;
}

static void name_of(const struct claim *c, char name[NAME_MAX_LEN])
{
	snprintf(name, NAME_MAX_LEN, "urnic/%u/%016llx", c->slot,
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

/* --- the list ------------------------------------------------------------ */

/* A line of the list: "address: references protocol flags type state inode path",
 * where @ stands for the first byte of an abstract name. */
static bool parse(const char *line, struct claim *c)
{
	const char *name = strstr(line, " @urnic/");
	unsigned flags, slot, ino;
	char hex[17];
	int end = 0;

	if (!name || sscanf(line, "%*s %*s %*s %x %*s %*s %u", &flags, &ino) != 2 ||
	    !(flags & ACCEPTS) ||
	    sscanf(name, " @urnic/%u/%16[0-9a-f]%n", &slot, hex, &end) != 2 ||
	    name[end] || strlen(hex) != 16 || slot <= SLOT_NAMED || slot > SLOT_LAST)
		return false;
	c->slot = (uint16_t)slot;
	c->ino = ino;
	c->tag = strtoull(hex, NULL, 16);
	return true;
}

/* Not by way of libc: no thread may be cancelled in here. */
static int open_quietly(const char *path)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

/* Calls fn for each claim. */
void claim_list(void (*fn)(void *arg, const struct claim *c), void *arg)
{
	char buf[8192], *end = buf, *nl;
	struct claim c;
	ssize_t n;
	int fd = open_quietly("/proc/thread-self/net/unix");

	while (fd >= 0) {
		n = (ssize_t)syscall(SYS_read, fd, end,
				     (size_t)(buf + sizeof(buf) - 1 - end));
		if (n <= 0)
			break;
		end[n] = '\0';
		end += n;
		for (char *line = buf;; line = nl + 1) {
			nl = memchr(line, '\n', (size_t)(end - line));
			if (!nl) { /* the rest comes with the next piece */
				end = (char *)memmove(buf, line, (size_t)(end - line)) +
				      (end - line);
				break;
			}
			*nl = '\0';
			if (parse(line, &c))
				fn(arg, &c);
		}
	}
	if (fd >= 0)
		syscall(SYS_close, fd);
}

bool claim_uids_count(void)
{
	int net = open_quietly("/proc/thread-self/ns/net");
	int owner = net < 0 ? -1 : ioctl(net, NS_GET_USERNS);
	struct stat a, b;
	bool same;

	same = owner >= 0 && fstat(owner, &a) == 0 &&
	       stat("/proc/self/ns/user", &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
	if (owner >= 0)
		syscall(SYS_close, owner);
	if (net >= 0)
		syscall(SYS_close, net);
	return same;
}

/* --- the owner ----------------------------------------------------------- */

int claim_open_diag(void)
{
	return fd_raise(
		fd_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
}

struct diag_request {
	struct nlmsghdr h;
	struct unix_diag_req r;
};

static bool send_request(int diag, uint32_t ino)
{
	struct diag_request q = {
		.h = { .nlmsg_len = sizeof(q),
		       .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		       .nlmsg_flags = NLM_F_REQUEST },
		.r = { .sdiag_family = AF_UNIX,
		       .udiag_ino = ino,
		       .udiag_show = UDIAG_SHOW_UID | UDIAG_SHOW_NAME,
		       .udiag_cookie = { UINT32_MAX, UINT32_MAX } },
	};

	return send(diag, &q, sizeof(q), MSG_DONTWAIT) == sizeof(q);
}

struct diag_answer {
	const struct unix_diag_msg *m;
	const char *name; /* with its zero in front */
	size_t name_len;
	const uid_t *uid;
};

static void take_attributes(const uint8_t *at, size_t len, struct diag_answer *a)
{
	while (len >= sizeof(struct nlattr)) {
		const struct nlattr *n = (const void *)at;
		size_t step = (n->nla_len + 3u) & ~(size_t)3;
		size_t data = n->nla_len - sizeof(*n);

		if (n->nla_len < sizeof(*n) || n->nla_len > len)
			return;
		if (n->nla_type == UNIX_DIAG_NAME) {
			a->name = (const char *)(n + 1);
			a->name_len = data;
		} else if (n->nla_type == UNIX_DIAG_UID && data == sizeof(uid_t)) {
			a->uid = (const void *)(n + 1);
		}
		if (step >= len)
			return;
		at += step;
		len -= step;
	}
}

/* The kernel's answer comes with the request: there is nothing to wait for. */
static int ask_kernel(int diag, const struct claim *c, uid_t *uid)
{
	_Alignas(8) uint8_t buf[1024];
	const struct nlmsghdr *h = (const void *)buf;
	const struct nlmsgerr *error = (const void *)(h + 1);
	struct diag_answer a = { .m = (const void *)(h + 1) };
	char name[NAME_MAX_LEN];
	size_t len;
	ssize_t n;

	if (diag < 0 || !send_request(diag, c->ino))
		return -EAGAIN;
	n = recv(diag, buf, sizeof(buf), MSG_DONTWAIT);
	/* An error is longer than an answer without attributes. */
	if (n < (ssize_t)(sizeof(*h) + sizeof(*a.m)) || h->nlmsg_len > (size_t)n)
		return -EAGAIN;
	if (h->nlmsg_type == NLMSG_ERROR)
		return error->error == -ENOENT ? -ESRCH : -EAGAIN;
	if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    h->nlmsg_len < sizeof(*h) + sizeof(*a.m))
		return -EAGAIN;
	take_attributes((const uint8_t *)(a.m + 1),
			h->nlmsg_len - sizeof(*h) - sizeof(*a.m), &a);
	name_of(c, name);
	len = strlen(name);
	if (!a.uid)
		return -EAGAIN;
	if (a.m->udiag_type != SOCK_SEQPACKET || a.m->udiag_state != LISTENS || !a.name ||
	    a.name_len != len + 1 || a.name[0] || memcmp(a.name + 1, name, len))
		return -ESRCH;
	*uid = *a.uid;
	return 0;
}

/* Who listens says it to those who connect, if his backlog has room. */
static int ask_owner(const struct claim *c, uid_t *uid)
{
	int fd = claim_connect(c), rc;
	pid_t pid;

	if (fd < 0)
		return fd == -ESRCH ? -ESRCH : -EAGAIN;
	rc = name_cred(fd, uid, &pid);
	close(fd);
	return rc ? -EAGAIN : 0;
}

int claim_owner(int diag, const struct claim *c, uid_t *uid)
{
	int rc = ask_kernel(diag, c, uid);

	return rc == -EAGAIN ? ask_owner(c, uid) : rc;
}
