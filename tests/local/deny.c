/* SPDX-License-Identifier: BSD-2-Clause */
/* deny.c - run a program to which process_vm_readv(), process_vm_writev() and
 * userfaultfd() are forbidden (seccomp), as Yama or a container would:
 *
 *	deny eperm|enosys PROGRAM [ARGUMENT...]
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

int main(int argc, char **argv)
{
	unsigned answer = argc > 1 && !strcmp(argv[1], "enosys") ? ENOSYS : EPERM;
	/* clang-format off */
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | answer),
	};
	/* clang-format on */
	struct sock_fprog filter = { sizeof(code) / sizeof(code[0]), code };

	if (argc < 3)
		errx(2, "usage: deny eperm|enosys PROGRAM [ARGUMENT...]");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		err(2, "seccomp");
	execvp(argv[2], argv + 2);
	err(2, "%s", argv[2]);
}
