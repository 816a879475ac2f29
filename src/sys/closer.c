/* SPDX-License-Identifier: BSD-2-Clause */
/* closer.c - closes other users' descriptors in a thread, which exists while there are
 * any; see closer.h. */
#include "sys/closer.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sys/lock.h"
#include "sys/log.h"
#include "sys/threads.h"

/* When host/ ends it lets all its connections go at once. */
enum { ROOM = 4096 };

static struct lock lock;
/* An unordered set. */
static struct {
	int fd;
	uid_t uid;
} waiting[ROOM] GUARDED_BY(lock);
static _Atomic unsigned nwaiting;
static bool running GUARDED_BY(lock);

static int take_fd(void)
{
	int fd = -1;

	lock_take(&lock);
	if (nwaiting)
		fd = waiting[--nwaiting].fd;
	else
		running = false;
	lock_give(&lock);
	return fd;
}

static void *close_all(void *arg)
{
	int fd;

	threads_begin();
	while ((fd = take_fd()) >= 0)
		close(fd);
	threads_end();
	return arg;
}

/* Starts an ordinary thread, whatever policy the caller has. */
static bool start_thread(void)
{
	const struct sched_param none = { 0 };
	pthread_attr_t attr;
	pthread_t t;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
	pthread_attr_setschedparam(&attr, &none);
	rc = threads_create(&t, &attr, close_all, NULL);
	pthread_attr_destroy(&attr);
	return rc == 0;
}

void closer_put(uid_t uid, int fd)
{
	bool kept;

	if (fd < 0)
		return;
	lock_take(&lock);
	kept = nwaiting < ROOM;
	if (kept) {
		waiting[nwaiting].fd = fd;
		waiting[nwaiting++].uid = uid;
	}
	if (!running)
		running = start_thread();
	lock_give(&lock);
	if (!kept)
		log_error("descriptor %d stays open: too many descriptors of other "
			  "users wait to be closed",
			  fd);
}

enum looked { NOTHING, MESSAGE, DESCRIPTORS };

/* What is the next unread message at fd?  The control buffer has room for the sender's
 * credentials, which the kernel adds to every message, even an empty one, but not at the
 * end of the stream.  Descriptors find no room and set MSG_CTRUNC. */
static enum looked peek_message(int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(struct ucred))];
	} u;
	struct msghdr m = { .msg_control = &u, .msg_controllen = sizeof(u) };
	ssize_t n;

	do /* ECONNRESET comes once, if the other end closed with unread messages */
		n = recvmsg(fd, &m, MSG_PEEK | MSG_DONTWAIT);
	while (n < 0 && (errno == ECONNRESET || errno == EINTR));
	if (n == 0 && m.msg_controllen == 0)
		return NOTHING;
	return n < 0 || m.msg_flags & MSG_CTRUNC ? DESCRIPTORS : MESSAGE;
}

/* Discards unread messages at fd, a connected SOCK_SEQPACKET socket that was shut down
 * for reading, up to the first one with descriptors.  Returns true if nothing is left. */
static bool drop_unread(int fd)
{
	enum { MAX = 4096 }; /* SO_SNDBUF bounds their number */
	enum looked what = DESCRIPTORS;
	int on = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)))
		return false;
	for (int i = 0; i < MAX && (what = peek_message(fd)) == MESSAGE; i++)
		recv(fd, NULL, 0, MSG_DONTWAIT);
	return what == NOTHING;
}

void closer_hang_up(int fd)
{
	struct ucred c = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(c);

	shutdown(fd, SHUT_RDWR);
	if (drop_unread(fd)) {
		close(fd);
		return;
	}
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len);
	closer_put(c.uid, fd);
}

bool closer_is_full(void)
{
	return nwaiting >= CLOSER_ALL;
}

bool closer_is_full_of(uid_t uid)
{
	unsigned n = 0;

	if (nwaiting < CLOSER_EACH)
		return false;
	lock_take(&lock);
	for (unsigned i = 0; i < nwaiting; i++)
		n += waiting[i].uid == uid;
	lock_give(&lock);
	return n >= CLOSER_EACH || closer_is_full();
}

bool closer_try_again(void)
{
	bool runs;

	if (!nwaiting)
		return true;
	lock_take(&lock);
	if (nwaiting && !running)
		running = start_thread();
	runs = !nwaiting || running;
	lock_give(&lock);
	return runs;
}

/* In the child: the lock may have been held at the fork. */
__attribute__((no_sanitize("thread"))) void closer_forked(void) NO_TSA
{
	lock_init(&lock);
	nwaiting = 0;
	running = false;
}
