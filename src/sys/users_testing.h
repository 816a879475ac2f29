/* SPDX-License-Identifier: BSD-2-Clause */
/* users_testing.h - for unit tests: child processes of other users. */
#ifndef SYS_USERS_TESTING_H
#define SYS_USERS_TESTING_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* USERS_HIDDEN: the uid that a user without a number has in a user namespace.
 * USERS_CANNOT: the exit status of a child that the system does not let become what the
 * test needs. */
enum { USERS_HIDDEN = 65534, USERS_CANNOT = 77 };

/* Forks a child that ends with this process: a test that fails leaves none behind. */
static inline pid_t users_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

/* Becomes user id; sets PR_SET_PDEATHSIG again, which setresuid() clears. */
static inline void users_become(uid_t id)
{
	if (setresgid(id, id, id) || setresuid(id, id, id))
		_exit(USERS_CANNOT);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Forks a child in a user namespace of its own, in which no user has a number.  Not by
 * unshare(), which the kernel refuses to a process with threads: a sanitizer has a
 * thread. */
static inline pid_t users_fork_hidden(void)
{
	return (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
}

/* The exit status of a child; -1: a signal ended it. */
static inline int users_wait(pid_t pid)
{
	int status = -1;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
								    : -1;
}

/* Whether users_fork_hidden() can work here: a chroot and many containers refuse it. */
static inline bool users_can_hide(void)
{
	pid_t pid = users_fork_hidden();

	if (pid == 0)
		_exit(0);
	return pid > 0 && users_wait(pid) == 0;
}

#endif
