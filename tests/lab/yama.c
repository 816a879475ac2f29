/* SPDX-License-Identifier: BSD-2-Clause */
/* yama.c - makes programs that are started with this library in LD_PRELOAD see a kernel
 * with Yama: ptrace_scope is $YAMA_SCOPE, and a process that has allowed all others to
 * reach its memory has a file of its process number in $YAMA_FOLDER. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *note_of(pid_t pid)
{
	static __thread char path[256];

	snprintf(path, sizeof(path), "%s/%d", getenv("YAMA_FOLDER"), (int)pid);
	return path;
}

static int forbidden(pid_t pid)
{
	int scope = atoi(getenv("YAMA_SCOPE"));

	if (pid == getpid() || scope == 0 ||
	    (scope == 1 && access(note_of(pid), F_OK) == 0))
		return 0;
	errno = EPERM;
	return 1;
}

FILE *fopen64(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen64");
	char *scope = getenv("YAMA_SCOPE");

	if (!strcmp(path, "/proc/sys/kernel/yama/ptrace_scope"))
		return fmemopen(scope, strlen(scope), "r");
	return real(path, mode);
}

int prctl(int what, ...)
{
	unsigned long a[4];
	va_list ap;

	va_start(ap, what);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	if (what != PR_SET_PTRACER)
		return (int)syscall(SYS_prctl, what, a[0], a[1], a[2], a[3]);
	close(creat(note_of(getpid()), 0644));
	return 0;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *here, unsigned long n,
			 const struct iovec *there, unsigned long m, unsigned long flags)
{
	if (forbidden(pid))
		return -1;
	return syscall(SYS_process_vm_readv, pid, here, n, there, m, flags);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *here, unsigned long n,
			  const struct iovec *there, unsigned long m, unsigned long flags)
{
	if (forbidden(pid))
		return -1;
	return syscall(SYS_process_vm_writev, pid, here, n, there, m, flags);
}
