/* SPDX-License-Identifier: BSD-2-Clause */
/* deny.c - run a program to which system calls are forbidden by seccomp:
 *
 *	deny eperm|enosys PROGRAM [ARGUMENT...]
 *		process_vm_readv(), process_vm_writev() and userfaultfd(), as Yama or a
 *		container would
 *	deny docker PROGRAM [ARGUMENT...]
 *		what Docker's default profile forbids without capabilities, old versions
 *and new ones together
 */
#include <err.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CALLS = 60 };

struct denied {
	struct sock_filter code[2 * CALLS + 2];
	unsigned short n;
};

static void put(struct denied *d, struct sock_filter f)
{
	d->code[d->n++] = f;
}

static void deny(struct denied *d, const unsigned *call, size_t n, unsigned answer)
{
	for (size_t i = 0; i < n; i++) {
		put(d, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call[i], 0,
						    1));
		put(d, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
						    SECCOMP_RET_ERRNO | answer));
	}
}

#define COUNT(calls) (sizeof(calls) / sizeof(*(calls)))

/* Calls on other processes' memory, and those that Docker forbids besides.  clone3() is
 * said not to exist, since a filter cannot look at its arguments; libc then uses clone().
 */
static const unsigned memory[] = { SYS_process_vm_readv, SYS_process_vm_writev,
				   SYS_userfaultfd };
static const unsigned besides[] = {
	SYS_io_uring_setup,
	SYS_io_uring_enter,
	SYS_io_uring_register,
	SYS_kcmp,
	SYS_pidfd_getfd,
	SYS_ptrace,
	SYS_process_madvise,
	SYS_perf_event_open,
	SYS_bpf,
	SYS_setns,
	SYS_unshare,
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_open_by_handle_at,
	SYS_keyctl,
	SYS_add_key,
	SYS_request_key,
	SYS_mbind,
	SYS_set_mempolicy,
	SYS_get_mempolicy,
	SYS_move_pages,
	SYS_fanotify_init,
	SYS_quotactl,
	SYS_syslog,
	SYS_vhangup,
	SYS_acct,
	SYS_swapon,
	SYS_swapoff,
	SYS_reboot,
	SYS_init_module,
	SYS_delete_module,
	SYS_kexec_load,
	SYS_clock_settime,
	SYS_settimeofday,
	SYS_sethostname,
	SYS_setdomainname,

};
static const unsigned unknown[] = { SYS_clone3 };

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[1] : "";
	struct denied d = { .n = 0 };
	struct sock_fprog filter;

	put(&d, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					     offsetof(struct seccomp_data, nr)));
	if (!strcmp(how, "eperm") || !strcmp(how, "docker"))
		deny(&d, memory, COUNT(memory), EPERM);
	else if (!strcmp(how, "enosys"))
		deny(&d, memory, COUNT(memory), ENOSYS);
	else
		errx(2, "usage: deny eperm|enosys|docker PROGRAM [ARGUMENT...]");
	if (!strcmp(how, "docker")) {
		deny(&d, besides, COUNT(besides), EPERM);
		deny(&d, unknown, COUNT(unknown), ENOSYS);
	}
	put(&d, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	filter = (struct sock_fprog){ d.n, d.code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		err(2, "seccomp");
	execvp(argv[2], argv + 2);
	err(2, "%s", argv[2]);
}
