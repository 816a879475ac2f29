/* SPDX-License-Identifier: BSD-2-Clause */
/* host.c - see host.h.
 *
 * A connection that we made to a slot's name leads to its owner.  One that
 * somebody made to us claims a slot in its greeting; the claim holds if the
 * kernel names the same process behind that slot's name, and is then used to
 * send as well.  Where both sides connected at once there are two.
 *
 * Of a name the kernel tells the user that its owner was when it took the slot,
 * of a connection the user that made it.  They differ after setuid(), and the
 * first is the one that counts.
 */
#include "host/host.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/fds.h"
#include "host/host_own.h"
#include "host/msg.h"
#include "host/name.h"
#include "host/reserve.h"
#include "sys/cancel.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/list.h"
#include "sys/log.h"
#include "sys/rand.h"

enum {
	OWN_MAX = 2048,
	FOREIGN_MAX = 2 * SLOT_LAST,
	STRANGERS_MAX = 64,
	AGAIN_NS = 1000000, /* a slot without owner is left alone so long */
};

/* --- connections --------------------------------------------------------- */

static unsigned *count_of(struct host *h, const struct conn *c)
{
	if (!c->foreign)
		return &h->nown;
	return c->stranger ? &h->nstrangers : &h->nforeign;
}

void host_conn_close(struct host *h, struct conn *c)
{
	uint16_t slot = c->slot;

	if (c->fd < 0)
		return;
	fds_close(c->proof);
	c->proof = -1;
	c->claimed = 0;
	/* Not by close() alone: a copy of the process may hold it open. */
	epoll_ctl(h->epfd, EPOLL_CTL_DEL, c->fd, NULL);
	close(c->fd);
	c->fd = -1;
	*count_of(h, c) -= 1;
	list_del(&c->node);
	list_add_tail(&h->dead, &c->node);
	if (slot && h->by_slot[slot] == c) {
		h->by_slot[slot] = NULL;
		h->ops->gone(h->arg, slot);
	}
}

void host_bury(struct host *h)
{
	list_for_safe(n, &h->dead)
	{
		list_del(n);
		free(container_of(n, struct conn, node));
	}
}

static unsigned count_user(const struct list *conns, uid_t uid)
{
	unsigned n = 0;

	list_for(node, conns) n += container_of(node, struct conn, node)->uid == uid;
	return n;
}

/* As many as are left to all others after it. */
static bool has_room(const struct host *h, uid_t uid, bool foreign)
{
	if (!foreign)
		return h->nown < OWN_MAX;
	return h->nforeign + count_user(&h->conns, uid) < h->foreign_max;
}

/* The oldest of the user who has most. */
static void close_a_stranger(struct host *h)
{
	struct conn *victim = NULL;
	unsigned most = 0;

	list_for(node, &h->strangers)
	{
		struct conn *c = container_of(node, struct conn, node);
		unsigned n = count_user(&h->strangers, c->uid);

		if (n > most) {
			most = n;
			victim = c;
		}
	}
	if (victim) {
		h->stats.refused++;
		host_conn_close(h, victim);
	}
}

bool host_conn_prove(struct host *h, struct conn *c, uint16_t slot, uid_t uid)
{
	bool foreign = !user_is_ours(&h->user, uid, c->pid);

	assert(c->fd >= 0);
	fds_close(c->proof);
	c->proof = -1;
	if ((c->stranger || c->foreign != foreign) && !has_room(h, uid, foreign))
		return false;
	*count_of(h, c) -= 1;
	c->slot = slot;
	c->uid = uid;
	c->foreign = foreign;
	c->stranger = false;
	*count_of(h, c) += 1;
	list_del(&c->node);
	list_add_tail(&h->conns, &c->node);
	return true;
}

struct conn *host_conn_new(struct host *h, int fd, uint16_t slot)
{
	struct conn *c = calloc(1, sizeof(*c));
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };

	if (!c || name_cred(fd, &c->uid, &c->pid))
		goto fail;
	c->proof = -1;
	c->slot = slot;
	c->foreign = !user_is_ours(&h->user, c->uid, c->pid);
	c->stranger = !slot && c->foreign;
	if (c->stranger && h->nstrangers >= STRANGERS_MAX)
		close_a_stranger(h);
	if (!c->stranger && !has_room(h, c->uid, c->foreign))
		goto fail;
	if (epoll_ctl(h->epfd, EPOLL_CTL_ADD, fd, &ev))
		goto fail;
	c->fd = fd;
	*count_of(h, c) += 1;
	list_add_tail(c->stranger ? &h->strangers : &h->conns, &c->node);
	return c;
fail:
	free(c);
	close(fd);
	return NULL;
}

int host_proof(const struct host *h)
{
	return geteuid() != h->user.uid ? h->listen_fd : -1;
}

/* fd leads to slot's process.  Takes it over. */
static int introduce(struct host *h, uint16_t slot, int fd, struct conn **out)
{
	struct msg_hello hello;
	struct iovec iov = { &hello, sizeof(hello) };
	int proof = host_proof(h);
	struct conn *c;

	msg_put_hello(&hello, h->slot);
	if (fds_send(fd, &iov, 1, &proof, proof >= 0)) {
		h->not_before[slot] = clock_ns() + AGAIN_NS;
		close(fd);
		return -ESRCH;
	}
	c = host_conn_new(h, fd, slot);
	if (!c)
		return -EAGAIN;
	c->greeted = true;
	h->by_slot[slot] = c;
	*out = c;
	return 0;
}

static int conn_get(struct host *h, uint16_t slot, struct conn **out)
{
	int fd;

	if (slot < SLOT_FIRST || slot > SLOT_LAST || slot == h->slot)
		return -ESRCH;
	*out = h->by_slot[slot];
	if (*out)
		return 0;
	if (h->not_before[slot] && clock_ns() < h->not_before[slot])
		return -ESRCH;
	fd = name_connect(slot);
	if (fd < 0 && fd != -EAGAIN)
		h->not_before[slot] = clock_ns() + AGAIN_NS;
	if (fd < 0)
		return fd == -EAGAIN ? fd : -ESRCH;
	return introduce(h, slot, fd, out);
}

/* --- sending ------------------------------------------------------------- */

static int send_dgram(struct conn *c, const struct dgram *d)
{
	struct msg_dgram head;
	struct iovec iov[DGRAM_IOV_MAX + 1] = { { &head, sizeof(head) } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = d->iovcnt + 1 };

	msg_put_dgram(&head, d, 0);
	memcpy(iov + 1, d->iov, d->iovcnt * sizeof(struct iovec));
	if (sendmsg(c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM ? -EAGAIN : -ESRCH;
}

int host_forward(struct host *h, uint16_t slot, const struct dgram *d)
{
	struct conn *c;
	int rc;

	if (d->iovcnt > DGRAM_IOV_MAX || d->len > MSG_PAYLOAD_MAX || d->len == 0)
		return -EMSGSIZE;
	rc = conn_get(h, slot, &c);
	if (!rc)
		rc = send_dgram(c, d);
	else
		c = NULL;
	switch (rc) {
	case 0:
		h->stats.forwarded++;
		break;
	case -EAGAIN:
		h->stats.dropped_full++;
		if (log_level >= LOG_INFO && log_allowed(&h->said_full))
			log_info("slot %u does not take what is forwarded to it: "
				 "%llu datagrams dropped so far",
				 slot, (unsigned long long)h->stats.dropped_full);
		break;
	default:
		h->stats.dropped_gone++;
		if (c)
			host_conn_close(h, c);
	}
	return rc;
}

int host_say(struct host *h, uint16_t slot, const void *buf, size_t len, const int *fds,
	     unsigned nfds)
{
	struct msg_local head = { .version = MSG_VERSION, .type = MSG_LOCAL };
	struct iovec iov[2] = { { &head, sizeof(head) },
				{ (void *)(uintptr_t)buf, len } };
	struct conn *c;
	int was = cancel_hold();
	int rc = conn_get(h, slot, &c);

	assert(len <= HOST_SAY_MAX && nfds <= HOST_FDS);
	if (!rc) {
		rc = fds_send(c->fd, iov, 2, fds, nfds);
		if (rc == -ESRCH)
			host_conn_close(h, c);
	}
	cancel_let(was);
	return rc;
}

int host_connect(struct host *h, uint16_t slot)
{
	struct conn *c;

	return conn_get(h, slot, &c);
}

uint16_t host_connect_user(struct host *h, uid_t uid)
{
	uint16_t slot;
	struct conn *c;
	uid_t owner;
	pid_t pid;
	int fd;

	for (slot = SLOT_FIRST; slot <= SLOT_LAST; slot++) {
		if (slot == h->slot || (slot > SLOT_NAMED && !h->by_slot[slot]))
			continue;
		if (host_cred(h, slot, &owner, &pid) == 0 && owner == uid &&
		    conn_get(h, slot, &c) == 0)
			return slot;
	}
	fd = reserve_connect_user(uid, &slot);
	return fd >= 0 && introduce(h, slot, fd, &c) == 0 ? slot : 0;
}

bool host_is_free(uint16_t slot)
{
	int fd = slot < SLOT_FIRST || slot > SLOT_LAST ? -ESRCH : name_connect(slot);

	if (fd >= 0)
		close(fd);
	return fd == -ESRCH;
}

int host_cred(struct host *h, uint16_t slot, uid_t *uid, pid_t *pid)
{
	int fd, rc;

	if (slot < SLOT_FIRST || slot > SLOT_LAST)
		return -ESRCH;
	if (h->by_slot[slot]) {
		*uid = h->by_slot[slot]->uid;
		*pid = h->by_slot[slot]->pid;
		return 0;
	}
	fd = name_connect(slot);
	if (fd < 0)
		return fd == -EAGAIN ? fd : -ESRCH;
	rc = name_cred(fd, uid, pid);
	close(fd);
	return rc ? -ESRCH : 0;
}

bool host_is_ours(struct host *h, uint16_t slot)
{
	uid_t uid;
	pid_t pid;

	return host_cred(h, slot, &uid, &pid) == 0 && user_is_ours(&h->user, uid, pid);
}

uid_t host_uid(const struct host *h)
{
	return h->user.uid;
}

/* Is fd the socket that listens as slot, made by this user and process? */
static bool is_listener(int fd, uint16_t slot, uid_t uid, pid_t pid)
{
	struct sockaddr_un a = { 0 };
	socklen_t len = sizeof(a), size = sizeof(int);
	int listens = 0, n;
	char name[NAME_MAX_LEN];
	uid_t its;
	pid_t by;

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) ||
	    !listens || name_cred(fd, &its, &by) || its != uid || by != pid ||
	    getsockname(fd, (struct sockaddr *)&a, &len) || a.sun_family != AF_UNIX)
		return false;
	n = snprintf(name, sizeof(name), "urnic/%u", slot);
	len -= (socklen_t)offsetof(struct sockaddr_un, sun_path);
	return len > (socklen_t)n && !a.sun_path[0] &&
	       !memcmp(a.sun_path + 1, name, (size_t)n) &&
	       (len == (socklen_t)n + 1 || a.sun_path[n + 1] == '/');
}

int host_owns(struct host *h, uint16_t slot, uid_t *uid, pid_t pid, int proof)
{
	uid_t owner;
	pid_t its;
	int rc = host_cred(h, slot, &owner, &its);

	if (rc)
		return rc;
	/* A number of 0 is of another pid namespace, as many are. */
	if (its != pid ||
	    !(user_is_same(&h->user, owner, *uid) || (pid && owner == *uid) ||
	      is_listener(proof, slot, owner, its)))
		return -EPERM;
	*uid = owner;
	return 0;
}

/* --- opening ------------------------------------------------------------- */

static int take_name(struct host *h)
{
	enum { N = SLOT_NAMED - SLOT_FIRST + 1 };
	unsigned start = (unsigned)(rand_start() % N);

	for (unsigned i = 0; i < N; i++) {
		uint16_t slot = (uint16_t)(SLOT_FIRST + (start + i) % N);
		int fd = name_listen(slot);

		if (fd >= 0) {
			h->slot = slot;
			h->listen_fd = fd;
			return 0;
		}
		if (fd != -EADDRINUSE)
			return fd;
	}
	return -EADDRINUSE;
}

static int take_slot(struct host *h)
{
	int rc = take_name(h);

	if (rc != -EADDRINUSE)
		return rc;
	rc = reserve_listen(&h->slot);
	if (rc >= 0) {
		h->listen_fd = rc;
		log_info("somebody has all names of slots: slot %u is from the "
			 "reserve",
			 h->slot);
		return 0;
	}
	log_error("all slots of this host are taken: `ss -xlp src @urnic/*' shows "
		  "by whom; a network namespace of its own has others");
	return rc;
}

/* Anybody may connect, and must not use up the program's descriptors. */
static unsigned foreign_max(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur / 2 >= FOREIGN_MAX)
		return FOREIGN_MAX;
	return (unsigned)lim.rlim_cur / 2;
}

int host_open(struct host **out, const struct host_ops *ops, void *arg)
{
	struct host *h = calloc(1, sizeof(*h));
	struct epoll_event ev = { .events = EPOLLIN };
	int rc;

	if (!h)
		return -ENOMEM;
	h->ops = ops;
	h->arg = arg;
	user_open(&h->user);
	h->foreign_max = foreign_max();
	list_init(&h->conns);
	list_init(&h->strangers);
	list_init(&h->dead);
	services_init(&h->services);
	h->epfd = fd_raise(epoll_create1(EPOLL_CLOEXEC));
	if (h->epfd < 0) {
		rc = -errno;
		goto free_host;
	}
	rc = take_slot(h);
	if (rc)
		goto close_epoll;
	if (epoll_ctl(h->epfd, EPOLL_CTL_ADD, h->listen_fd, &ev)) {
		rc = -errno;
		goto close_listen;
	}
	h->spare_fd = fd_raise(eventfd(0, EFD_CLOEXEC));
	*out = h;
	return 0;

close_listen:
	close(h->listen_fd);
close_epoll:
	close(h->epfd);
free_host:
	free(h);
	return rc;
}

static void close_copies(struct list *conns)
{
	list_for(n, conns)
	{
		struct conn *c = container_of(n, struct conn, node);

		close(c->fd);
		c->fd = -1;
	}
}

static void free_conns(struct list *conns)
{
	list_for_safe(n, conns) free(container_of(n, struct conn, node));
}

void host_forked(struct host *h)
{
	int *fds[] = { &h->epfd, &h->listen_fd, &h->spare_fd };

	/* The epoll set is shared with the parent: nothing is taken out. */
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
	close_copies(&h->conns);
	close_copies(&h->strangers);
	services_forked(&h->services);
}

struct services *host_services(struct host *h)
{
	return &h->services;
}

int host_watch(struct host *h, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &h->services };

	return epoll_ctl(h->epfd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

void host_close(struct host *h)
{
	host_forked(h);
	free_conns(&h->conns);
	free_conns(&h->strangers);
	free_conns(&h->dead);
	free(h);
}

uint16_t host_slot(const struct host *h)
{
	return h->slot;
}

int host_fd(const struct host *h)
{
	return h->epfd;
}

const struct host_stats *host_stats(const struct host *h)
{
	return &h->stats;
}
