/* SPDX-License-Identifier: BSD-2-Clause */
/* host.c - a process takes a slot, and lets it go: see host.h. */
#include "host/host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "host/host_own.h"
#include "host/name.h"
#include "sys/clock.h"
#include "sys/closer.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "sys/rand.h"
#include "sys/secret.h"

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
	rc = reserve_listen(&h->reserve, &h->slot);
	if (rc >= 0) {
		h->listen_fd = rc;
		log_info("all abstract socket names of slots are bound by somebody: "
			 "slot %u is from the reserve",
			 h->slot);
		return 0;
	}
	log_error("all slots of this host are taken: `ss -xlp src @urnic/*' "
		  "shows by whom; a network namespace of its own has others");
	return rc;
}

static void draw_proof(struct msg_proof *p)
{
	struct secret s = { 0 };
	uint32_t word[sizeof(*p) / sizeof(uint32_t)];

	for (size_t i = 0; i < sizeof(word) / sizeof(word[0]); i++)
		word[i] = secret_word(&s);
	memcpy(p, word, sizeof(*p));
}

static int open_fds(struct host *h)
{
	h->epfd = fd_raise(epoll_create1(EPOLL_CLOEXEC));
	h->alarm_fd = fd_raise(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
	if (h->epfd < 0 || h->alarm_fd < 0 ||
	    !host_watch(h, h->alarm_fd, &h->alarm_fd, true))
		return -errno;
	return 0;
}

int host_open(struct host **out, const struct host_ops *ops, void *arg)
{
	struct host *h = calloc(1, sizeof(*h));
	int rc;

	if (!h)
		return -ENOMEM;
	h->ops = ops;
	h->arg = arg;
	h->listen_fd = h->spare_fd = -1;
	h->alarm_at = NEVER;
	user_open(&h->user);
	draw_proof(&h->proof);
	reserve_init(&h->reserve, h->user.uid);
	host_conns_init(h);
	services_init(&h->services);
	rc = open_fds(h);
	if (!rc)
		rc = take_slot(h);
	if (!rc && !host_watch(h, h->listen_fd, NULL, true))
		rc = -errno;
	if (rc) {
		host_close(h);
		return rc;
	}
	h->spare_fd = fd_raise(eventfd(0, EFD_CLOEXEC));
	*out = h;
	return 0;
}

/* --- closing ------------------------------------------------------------- */

static void close_copies(struct list *conns)
{
	list_for(n, conns)
	{
		struct host_conn *c = container_of(n, struct host_conn, node);

		if (c->fd >= 0)
			close(c->fd);
		c->fd = -1;
	}
}

static void close_fds(struct host *h)
{
	int *fds[] = { &h->epfd, &h->listen_fd, &h->spare_fd, &h->alarm_fd };

	/* The epoll set is shared with the parent, so nothing is removed from it. */
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
	close_copies(&h->conns);
	close_copies(&h->strangers);
	services_forked(&h->services);
}

void host_forked(struct host *h)
{
	close_fds(h);
	closer_forked();
}

static void free_conns(struct list *conns)
{
	list_for_safe(n, conns) free(container_of(n, struct host_conn, node));
}

static void hang_up(struct list *conns)
{
	list_for(n, conns) host_conn_hang_up(container_of(n, struct host_conn, node));
}

void host_close(struct host *h)
{
	hang_up(&h->conns);
	hang_up(&h->strangers);
	if (h->listen_fd >= 0)
		name_let_go(h->listen_fd);
	h->listen_fd = -1;
	services_let_go(&h->services);
	host_later_free(h);
	close_fds(h);
	free_conns(&h->conns);
	free_conns(&h->strangers);
	free_conns(&h->dead);
	free(h);
}

/* --- what there is -------------------------------------------------------- */

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

uid_t host_uid(const struct host *h)
{
	return h->user.uid;
}

bool host_hides(const struct host *h, uid_t uid)
{
	return user_is_hidden(&h->user, uid);
}
