/* SPDX-License-Identifier: BSD-2-Clause */
/* probe_host.c - checks what a process of this host may have and make. */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/host.h"
#include "host/name.h"
#include "host/reserve.h"
#include "probe.h"

/* Does the folder have urnic's libraries: both libibverbs.so.1 and liburnic.so? */
static bool has_ours(const char *folder, size_t len)
{
	static const char *const file[] = { "libibverbs.so.1", "liburnic.so" };
	char path[PATH_MAX];

	for (int i = 0; i < 2; i++) {
		int n = snprintf(path, sizeof(path), "%.*s/%s", (int)len, folder,
				 file[i]);

		if (n >= (int)sizeof(path) || access(path, R_OK))
			return false;
	}
	return true;
}

void probe_programs(struct finding *f)
{
	const char *at = getenv("LD_LIBRARY_PATH");

	for (size_t len; at && *at; at += len + (at[len] == ':')) {
		len = strcspn(at, ":");
		if (!has_ours(at, len))
			continue;
		finding(f, OK, "", "",
			"LD_LIBRARY_PATH leads to urnic (%.*s), also without `urnic run'",
			(int)len, at);
		return;
	}
	finding(f, OK, "", "",
		"`urnic run -- PROGRAM' gives a program urnic's devices; a program "
		"that is started without it loads the system's libibverbs, which "
		"does not have them");
}

static void count_slots(struct finding *f)
{
	int names = 0, n;

	for (uint16_t slot = SLOT_FIRST; slot <= SLOT_NAMED; slot++) {
		int fd = name_connect(slot);

		names += fd != -ESRCH;
		if (fd >= 0)
			close(fd);
	}
	n = names + (int)reserve_claimed();
	if (names == SLOT_NAMED)
		finding(f, LIMITED,
			"processes get slots of the reserve, which are"
			" found in the kernel's list of sockets",
			"`ss -xlp src @urnic/*' shows which program has them",
			"all %d names of slots are taken", names);
	else
		finding(f, OK, "", "",
			"%d of %d slots are taken (one for each process with a"
			" device open)",
			n, SLOT_LAST);
}

void probe_names(struct finding *f)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "urnic-doctor/%d",
			 (int)getpid());
	socklen_t len =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) != 0)
		finding(f, MISSING,
			"no process can have a slot, so no device can"
			" be opened",
			"allow abstract unix sockets (Landlock or"
			" a security module forbids them)",
			"%s", strerror(errno));
	else
		count_slots(f);
	if (fd >= 0)
		close(fd);
}

static int try_unshare(int flags)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(unshare(flags) == 0 ? 0 : errno);
	if (pid < 0)
		return errno;
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
}

void probe_userns(struct finding *f)
{
	int rc = try_unshare(CLONE_NEWUSER);

	if (rc == 0)
		finding(f, OK, "", "", "an ordinary user can make them");
	else
		finding(f, LIMITED,
			"`make demo' and the tests between two namespaces"
			" need root; programs do not need it",
			"set sysctl kernel.unprivileged_userns_clone=1, raise "
			"user.max_user_namespaces, or lift AppArmor's restriction of "
			"user namespaces",
			"%s", strerror(rc));
}

void probe_netns(struct finding *f)
{
	int rc = try_unshare(CLONE_NEWUSER | CLONE_NEWNET);

	if (rc)
		rc = try_unshare(CLONE_NEWNET);
	if (rc == 0)
		finding(f, OK, "", "", "can be made");
	else
		finding(f, LIMITED,
			"two hosts cannot be played on this one;"
			" programs do not need it",
			"see user namespaces", "%s", strerror(rc));
}

void probe_memlock(struct finding *f)
{
	struct rlimit lim = { 0 };

	getrlimit(RLIMIT_MEMLOCK, &lim);
	if (lim.rlim_cur == RLIM_INFINITY)
		finding(f, OK, "", "", "no limit; urnic pins nothing");
	else
		finding(f, OK, "", "",
			"%llu KiB, which does not matter: urnic"
			" pins nothing",
			(unsigned long long)lim.rlim_cur / 1024);
}

/* Descriptors: three of the program, and those of one device. */
enum { FILES_MIN = 20 };

void probe_files(struct finding *f)
{
	struct rlimit lim = { 0 };

	getrlimit(RLIMIT_NOFILE, &lim);
	if (lim.rlim_cur < FILES_MIN)
		finding(f, MISSING,
			"a device takes about 17 descriptors: no device can be opened",
			"ulimit -n 1024", "%llu", (unsigned long long)lim.rlim_cur);
	else if (lim.rlim_cur >= 1024)
		finding(f, OK, "", "", "%llu; urnic's own are 768 and up",
			(unsigned long long)lim.rlim_cur);
	else
		finding(f, LIMITED,
			"every context, channel and peer process takes"
			" one",
			"ulimit -n 1024", "%llu", (unsigned long long)lim.rlim_cur);
}

void probe_cpus(struct finding *f)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);

	if (n > 1)
		finding(f, OK, "", "", "%d", n);
	else
		finding(f, LIMITED,
			"a program that polls and its peer on the same"
			" processor wait for the scheduler: milliseconds of"
			" latency",
			"give the programs two processors, or let them"
			" wait for events instead of polling",
			"1");
}
