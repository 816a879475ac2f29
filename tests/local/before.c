/* SPDX-License-Identifier: BSD-2-Clause */
/* before.c - programs that do something before they open their first device. */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "crew.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

enum { SIZE = 256 << 10 };

static uint8_t stack[64 << 10] __attribute__((aligned(16)));

static int nothing(void *arg)
{
	(void)arg;
	return 0;
}

/* A process that shares this one's memory, and could still run. */
static void share_memory(void)
{
	pid_t pid = clone(nothing, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);

	CHECK(pid > 0);
	crew_reap(pid);
}

/* By its system call number the clone shares memory and stack. This one fails, but it
 * was attempted. */
static void share_memory_by_number(void)
{
	CHECK(syscall(SYS_clone, CLONE_VM | CLONE_SIGHAND | CLONE_FS | CLONE_NEWNS, 0, 0,
		      0, 0) < 0);
}

/* The library prefers functions of its own dependencies, such as libc's, to preloaded
 * ones. */
static void load_deep(void)
{
	CHECK(dlopen(getenv("URNIC_TEST_LOADS"), RTLD_NOW | RTLD_DEEPBIND));
}

static void act(void)
{
	if (!strcmp(opt.mode, "clone"))
		share_memory();
	else if (!strcmp(opt.mode, "clone-by-number"))
		share_memory_by_number();
	else if (!strcmp(opt.mode, "deep"))
		load_deep();
	else if (!strcmp(opt.mode, "namespace"))
		CHECK(dlmopen(LM_ID_NEWLM, getenv("URNIC_TEST_LOADS"), RTLD_NOW));
	else if (!strcmp(opt.mode, "chroot"))
		CHECK(chroot("/nowhere")); /* fails, but was attempted */
	else if (!strcmp(opt.mode, "traced"))
		CHECK(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	else if (!strcmp(opt.mode, "userfaultfd"))
		(void)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
}

int beforehand(void)
{
	static struct rig r;
	struct ibv_mr *mr;
	uint8_t *at;

	act();
	rig_open(&r);
	at = rig_memory(SIZE);
	mr = ibv_reg_mr(r.pd, at, SIZE, RIG_ACCESS);
	CHECK(mr);
	say("its region is %s", is_a_file(at) ? "a file's" : "private");
	CHECK(!ibv_dereg_mr(mr));
	rig_close(&r);
	say("all right");
	return 0;
}

/* --- a library that is loaded meanwhile --------------------------------------- */

static void *load(void *name)
{
	CHECK(dlopen(name, RTLD_NOW));
	return NULL;
}

/* The thread makes its first calls of these functions. */
int loads(void)
{
	int there[2], on[2];
	char fds[32], byte;
	pthread_t t;
	void *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);

	CHECK(at != MAP_FAILED && !pipe(there) && !pipe(on));
	snprintf(fds, sizeof(fds), "%d,%d", there[1], on[0]);
	CHECK(!setenv("URNIC_TEST_LOADING", fds, 1));
	CHECK(!pthread_create(&t, NULL, load, getenv("URNIC_TEST_LOADS")));
	CHECK(read(there[0], &byte, 1) == 1);
	alarm(20);
	CHECK(!madvise(at, SIZE, MADV_DONTNEED));
	at = mremap(at, SIZE, 2 * SIZE, MREMAP_MAYMOVE);
	CHECK(at != MAP_FAILED);
	CHECK(!mlock(at, 4096) && syscall(SYS_getpid) == getpid());
	CHECK(write(on[1], "", 1) == 1);
	CHECK(!pthread_join(t, NULL));
	say("all right");
	return 0;
}
