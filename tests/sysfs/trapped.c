/* SPDX-License-Identifier: BSD-2-Clause */
/* trapped.c - a program whose sandbox answers a system call in a handler of SIGSYS, as
 * browsers' do, has the files of /sys written. */
#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

static const char class[] = "/sys/class/infiniband";

static volatile sig_atomic_t traps;

/* The call has the result 0. */
static void on_trap(int sig, siginfo_t *info, void *context)
{
	mcontext_t *m = &((ucontext_t *)context)->uc_mcontext;

	(void)sig;
	(void)info;
	traps++;
#ifdef __x86_64__
	m->gregs[REG_RAX] = 0;
#else
	m->regs[0] = 0;
#endif
}

static void must(int done, const char *what)
{
	if (done)
		return;
	perror(what);
	exit(1);
}

int main(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_flock, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { sizeof(code) / sizeof(code[0]), code };
	const struct sigaction a = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	struct dirent *e;
	DIR *dir;

	must(!sigaction(SIGSYS, &a, NULL), "sigaction");
	must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
	must(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), "PR_SET_SECCOMP");
	dir = opendir(class);
	must(dir != NULL, class);
	while ((e = readdir(dir)))
		if (e->d_name[0] != '.')
			printf("%s\n", e->d_name);
	closedir(dir);
	return traps == 0;
}
