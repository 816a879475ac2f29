/* SPDX-License-Identifier: BSD-2-Clause */
/* stuck_testing.h - for unit tests: a descriptor whose close(2) does not return.  It is a
 * file of a FUSE mount, whose daemon answers all requests but the one that close(2)
 * makes. */
#ifndef SYS_STUCK_TESTING_H
#define SYS_STUCK_TESTING_H

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/msg.h"

/* A close that hangs ends after STUCK_S, so the test can go on and fail. */
enum { STUCK_S = 40 };

struct stuck {
	int fd;
	pid_t daemon, opener;
};

static inline void stuck_answer(int dev, const struct fuse_in_header *in,
				const void *data, size_t len, int error)
{
	struct {
		struct fuse_out_header head;
		uint8_t data[256];
	} out = { .head = { .unique = in->unique, .error = -error } };

	memcpy(out.data, data, len);
	out.head.len = (uint32_t)(sizeof(out.head) + len);
	(void)!write(dev, &out, out.head.len);
}

static inline void stuck_serve(int dev)
{
	static _Alignas(8) uint8_t buf[1 << 17];
	const struct fuse_in_header *in = (const void *)buf;
	const struct fuse_init_out init = { .major = 7, .minor = 31, .max_write = 4096 };
	const struct fuse_attr_out attr = {
		.attr = { .ino = 1, .mode = S_IFREG | 0600, .nlink = 1 },
	};
	const struct fuse_open_out opened = { .fh = 1 };

	alarm(STUCK_S);
	for (;;) {
		if (read(dev, buf, sizeof(buf)) < 0) {
			if (errno != EPERM)
				_exit(0);
			sched_yield(); /* it is not mounted yet */
			continue;
		}
		switch (in->opcode) {
		case FUSE_INIT:
			stuck_answer(dev, in, &init, sizeof(init), 0);
			break;
		case FUSE_GETATTR:
			stuck_answer(dev, in, &attr, sizeof(attr), 0);
			break;
		case FUSE_OPEN:
			stuck_answer(dev, in, &opened, sizeof(opened), 0);
			break;
		case FUSE_FLUSH:
			break;
		default:
			stuck_answer(dev, in, "", 0, ENOSYS);
		}
	}
}

/* Opens the file; the mount is in a mount namespace of its own. */
static inline int stuck_open(int dev)
{
	char at[] = "/tmp/urnic-stuck-XXXXXX", how[64];
	int file = mkstemp(at), fd = -1;

	snprintf(how, sizeof(how), "fd=%d,rootmode=100000,user_id=0,group_id=0", dev);
	if (file >= 0 && unshare(CLONE_NEWNS) == 0 &&
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	    mount("stuck", at, "fuse", MS_NOSUID | MS_NODEV, how) == 0) {
		close(dev); /* so that the mount ends with the daemon */
		fd = open(at, O_RDONLY | O_CLOEXEC);
		umount2(at, MNT_DETACH);
	}
	unlink(at);
	return fd;
}

static inline pid_t stuck_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

/* Has nothing waited for a close that hangs?  The daemon's end would have ended it. */
static inline bool stuck_unnoticed(const struct stuck *s)
{
	return waitpid(s->daemon, NULL, WNOHANG) == 0;
}

/* Lets what hangs go on.  Does nothing if it has ended, or has never begun. */
static inline void stuck_end(struct stuck *s)
{
	int status;

	if (!s->daemon)
		return;
	kill(s->daemon, SIGKILL);
	waitpid(s->daemon, &status, 0);
	kill(s->opener, SIGKILL);
	waitpid(s->opener, &status, 0);
	s->daemon = 0;
}

/* Returns false after printing the reason, if the system refuses: skip the test. */
static inline bool stuck_begin(struct stuck *s)
{
	int dev = open("/dev/fuse", O_RDWR | O_CLOEXEC), pair[2];
	struct iovec iov = { &(char){ 0 }, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} u;

	if (dev < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		fprintf(stderr, "SKIPPED: no FUSE here: %s\n", strerror(errno));
		return false;
	}
	s->daemon = stuck_fork();
	if (s->daemon == 0)
		stuck_serve(dev);
	s->opener = stuck_fork();
	if (s->opener == 0) {
		int fd = stuck_open(dev);

		if (fd >= 0)
			msg_put_fds(&m, &u.head, &fd, 1);
		sendmsg(pair[1], &m, MSG_NOSIGNAL);
		for (;;)
			pause();
	}
	close(dev);
	close(pair[1]);
	m.msg_control = &u;
	m.msg_controllen = sizeof(u);
	s->fd = -1;
	if (recvmsg(pair[0], &m, MSG_CMSG_CLOEXEC) > 0 && CMSG_FIRSTHDR(&m))
		memcpy(&s->fd, CMSG_DATA(&u.head), sizeof(s->fd));
	close(pair[0]);
	if (s->fd >= 0)
		return true;
	fprintf(stderr, "SKIPPED: no file of a FUSE mount can be had here\n");
	stuck_end(s);
	return false;
}

#endif
