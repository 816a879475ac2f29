/* SPDX-License-Identifier: BSD-2-Clause */
/* close.c - a program closes urnic's descriptors, and opens files that get their numbers.
 *
 *	--mode=idle	while the engine sleeps
 *	--mode=poll	while the program polls
 *	--mode=work	while requests are under way
 *	--mode=unseen	and forks and closes the device before anything was noticed
 *	--mode=files	and files have all the numbers before anything was noticed
 *	--mode=keep	but keeps the descriptor of asynchronous events
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

enum { FILES = 1100, OURS_MAX = 64, AGAIN = 300, SIZE = 8 };

static struct stranger {
	int fd;
	ino_t ino;
} files[FILES + OURS_MAX];
static int nfiles;

static void open_files(void)
{
	const char *dir = getenv("TMPDIR");
	struct stat st;
	char path[256];

	for (nfiles = 0; nfiles < FILES; nfiles++) {
		int fd;

		snprintf(path, sizeof(path), "%s/stranger.XXXXXX", dir ? dir : "/tmp");
		fd = mkstemp(path);
		if (fd < 0)
			break;
		unlink(path);
		CHECK(write(fd, "stranger", SIZE) == SIZE);
		CHECK(!lseek(fd, 0, SEEK_SET) && !fstat(fd, &st));
		files[nfiles] = (struct stranger){ fd, st.st_ino };
	}
	CHECK(errno == EMFILE || nfiles == FILES);
	CHECK(files[nfiles - 1].fd >= 1023); /* all numbers up to 1023 are taken */
}

/* All threads share the processors in cpus, and threads of the library run only when no
 * other thread wants to. */
static void hold_others_back(const cpu_set_t *cpus)
{
	DIR *dir = opendir("/proc/self/task");
	struct sched_param none = { 0 };
	struct dirent *e;

	CHECK(dir);
	while ((e = readdir(dir))) {
		pid_t tid = atoi(e->d_name);

		if (tid == 0)
			continue;
		if (sched_setaffinity(tid, sizeof(*cpus), cpus) ||
		    (tid != gettid() && sched_setscheduler(tid, SCHED_IDLE, &none)))
			CHECK(errno == ESRCH); /* the thread has ended */
	}
	closedir(dir);
}

/* Replaces each descriptor by a copy of one of the files, at once. */
static void replace(const int *fd, int n)
{
	for (int i = 0; i < n; i++) {
		CHECK(dup2(files[i].fd, fd[i]) == fd[i]);
		files[nfiles++] = (struct stranger){ fd[i], files[i].ino };
	}
}

static int list_ours(int *fd)
{
	int n = 0;

	for (int i = 3; i < FILES; i++)
		if (fcntl(i, F_GETFD) >= 0) {
			CHECK(n < OURS_MAX);
			fd[n++] = i;
		}
	return n;
}

/* Checks that none of the files from number `from` on was written to, read or closed. */
static void expect_untouched(int from)
{
	char text[SIZE + 1];
	struct stat st;

	for (int i = from; i < nfiles; i++) {
		int fd = files[i].fd;

		CHECK(!fstat(fd, &st) && st.st_ino == files[i].ino);
		CHECK(lseek(fd, 0, SEEK_CUR) == 0);
		CHECK(pread(fd, text, sizeof(text), 0) == SIZE);
		CHECK(!memcmp(text, "stranger", SIZE));
	}
}

/* A child has copies of the files, and the library's fork handler closes descriptors. */
static void expect_untouched_by_fork(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		expect_untouched(0);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void post_write(struct loop *l, size_t len)
{
	struct ibv_sge sge = { (uintptr_t)l->rig.buf, (uint32_t)len, l->rig.mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
		.wr.rdma = { (uintptr_t)l->rig.buf + RIG_BUF / 2,
			     l->rig.mr->rkey },
	}, *bad;

	ibv_post_send(l->a, &wr, &bad);
}

static void expect_eio(struct loop *l)
{
	double end = now_s() + 20;
	struct ibv_wc wc;

	post_write(l, 8);
	while (ibv_poll_cq(l->rig.cq, 1, &wc) >= 0)
		CHECK(now_s() < end);
	CHECK(!ibv_alloc_pd(l->rig.ctx) && errno == EIO);
}

static void before(struct loop *l)
{
	double end = now_s() + 0.05;
	struct ibv_wc wc;

	if (!strcmp(opt.mode, "poll"))
		while (now_s() < end)
			CHECK(ibv_poll_cq(l->rig.cq, 1, &wc) == 0);
	else if (!strcmp(opt.mode, "work"))
		for (int i = 0; i < RIG_DEPTH; i++)
			post_write(l, 100000);
	else
		sleep_ms(20);
}

static void expect_fatal_event(struct ibv_context *ctx)
{
	struct pollfd p = { ctx->async_fd, POLLIN, 0 };
	struct ibv_async_event event;

	CHECK(poll(&p, 1, 20000) == 1);
	CHECK(!ibv_get_async_event(ctx, &event));
	CHECK(event.event_type == IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&event);
}

static void expect_no_event(struct ibv_context *ctx)
{
	struct ibv_async_event event;

	CHECK(ibv_get_async_event(ctx, &event) == -1);
}

/* Replaces each descriptor while no thread of the library runs. Returns with these
 * threads held back; *all: the processors that they had before. */
static void replace_unseen(cpu_set_t *all)
{
	int ours[OURS_MAX], n = list_ours(ours);
	cpu_set_t one;

	CHECK(n > 8);
	open_files();
	CHECK(!sched_getaffinity(0, sizeof(*all), all));
	CPU_ZERO(&one);
	CPU_SET((unsigned)sched_getcpu(), &one);
	hold_others_back(&one);
	replace(ours, n);
}

static void close_unseen(struct loop *l)
{
	cpu_set_t all;

	replace_unseen(&all);
	expect_untouched_by_fork();
	ibv_destroy_qp(l->a);
	hold_others_back(&all);
}

static void exchange_for_files(void)
{
	cpu_set_t all;

	replace_unseen(&all);
	hold_others_back(&all);
}

static void close_all_but(int fd)
{
	if (fd > 3)
		CHECK(!close_range(3, (unsigned)fd - 1, 0));
	CHECK(!close_range(fd < 3 ? 3 : (unsigned)fd + 1, ~0u, 0));
}

static void open_again(void)
{
	struct loop own = { 0 };

	for (int i = 0; i < AGAIN; i++)
		CHECK(!close(files[i].fd));
	loop_open(&own);
	for (uint64_t i = 0; i < 20; i++)
		loop_traffic(&own, i);
	expect_untouched(AGAIN);
	loop_close(&own);
	expect_untouched(AGAIN);
}

int closes(void)
{
	struct loop l = { 0 };
	bool keep;

	CHECK(opt.mode);
	keep = !strcmp(opt.mode, "keep");
	loop_open(&l);
	for (uint64_t i = 0; i < 20; i++)
		loop_traffic(&l, i);
	before(&l);
	if (!strcmp(opt.mode, "unseen")) {
		close_unseen(&l);
	} else if (!strcmp(opt.mode, "files")) {
		exchange_for_files();
	} else {
		close_all_but(keep ? l.rig.ctx->async_fd : -1);
		open_files();
	}
	if (keep) {
		expect_fatal_event(l.rig.ctx);
	} else if (strcmp(opt.mode, "unseen")) {
		expect_eio(&l);
		expect_no_event(l.rig.ctx);
	}
	expect_untouched(0);
	expect_untouched_by_fork();
	ibv_destroy_cq(l.rig.cq);
	ibv_destroy_comp_channel(l.rig.channel);
	ibv_close_device(l.rig.ctx);
	sleep_ms(50);
	expect_untouched(0);
	open_again();
	say("all right");
	return 0;
}
