/* SPDX-License-Identifier: BSD-2-Clause */
/* fds_fix.h - for tests: a process of another user that sends descriptors which cannot
 * be closed. A process that holds such a descriptor cannot end, not even by SIGKILL,
 * before stuck_end(); so children that must end earlier are forked before
 * stuck_begin(). */
#ifndef HOST_FDS_FIX_H
#define HOST_FDS_FIX_H

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/fix.h"
#include "host/host.h"
#include "host/host_own.h"
#include "host/name.h"
#include "sys/closer.h"
#include "sys/seccomp_testing.h"
#include "sys/stuck_testing.h"

enum { DAEMON = 1, PASSRIGHTS = 83, FIRST_UID = 1000, UIDS = 60000 };

static bool older; /* act as on a kernel that cannot refuse descriptors */
static struct stuck stuck;
static int sent = -1; /* descriptor to send instead, unless -1 */
static struct side a;

/* The other user. The kernel limits a user's descriptors in flight over all of the user's
 * processes, so two tests that run at once must not be the same user. */
static uid_t anothers_uid;

static inline int set_up_without(void **state)
{
	(void)state;
	need_netns();
	if (geteuid()) {
		fprintf(stderr, "SKIPPED: cannot become another user\n");
		skip();
	}
	begin(&a);
	return 0;
}

static inline int set_up(void **state)
{
	if (!stuck_begin(&stuck))
		skip();
	return set_up_without(state);
}

/* Must run after a failure, too; otherwise this process could not end. */
static inline int tear_down(void **state)
{
	(void)state;
	stuck_end(&stuck);
	return 0;
}

/* --- the other user -------------------------------------------------------------- */

static inline void send_stuck(int to, const void *what, size_t len, unsigned n)
{
	struct iovec iov = { (void *)(uintptr_t)what, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fds[MSG_FDS_SENT];
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int[MSG_FDS_SENT]))];
	} u;

	for (unsigned i = 0; i < n; i++)
		fds[i] = sent < 0 ? stuck.fd : sent;
	msg_put_fds(&m, &u.head, fds, n);
	/* Limit of descriptors in flight (RLIMIT_NOFILE). */
	if (sendmsg(to, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0
		    ? !older
		    : errno != (older ? ETOOMANYREFS : EPERM))
		_exit(1);
}

/* Forks a process of user uid, which runs does() and then stays. */
static inline pid_t as_user(uid_t uid, void (*does)(void))
{
	int ready[2];
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		close(ready[0]);
		if (setresuid(uid, uid, uid))
			_exit(77);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		host_forked(a.host);
		does();
		stay_ready(ready);
	}
	wait_ready(ready);
	return pid;
}

static inline pid_t another_user(void (*does)(void))
{
	return as_user(anothers_uid, does);
}

/* Lets blocked closes go on; before that, no process that has the file could end. */
static inline void end_of(pid_t pid)
{
	stuck_end(&stuck);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(stuck.fd);
	while (closer_is_full() || closer_is_full_of(anothers_uid))
		sched_yield();
}

/* --- what we do ------------------------------------------------------------------- */

static inline void expect_another_gets_in(void)
{
	struct side b;
	unsigned want = a.got + 1;

	begin(&b);
	assert_int_equal(forward(&b, host_slot(a.host), "hello"), 0);
	run_until(&a, want);
	assert_int_equal(a.got, want);
	host_close(b.host);
}

/* Runs all tests on this kernel, and as on one where anybody may send descriptors. */
static inline int run_on_both(int (*run_all)(void))
{
	int fd, rc = 0;

	anothers_uid = FIRST_UID + (uid_t)getpid() % UIDS;
	enter();
	netns_lo_up();
	fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	older = !msg_refuse_fds(fd);
	close(fd);
	if (!older)
		rc = run_all();
	older = true;
	if (!seccomp_forget_option(PASSRIGHTS)) {
		fprintf(stderr, "SKIPPED: no seccomp here\n");
		return rc;
	}
	return run_all() || rc;
}

#endif
