/* SPDX-License-Identifier: BSD-2-Clause */
#include "crew.h"
#include "../lab/count.h"

#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void *crew_share(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

pid_t crew_fork(void (*role)(void *), void *arg)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(300);
	role(arg);
	exit(0);
}

void crew_reap(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void crew_become(unsigned user)
{
	if (!user)
		return;
	CHECK(!setgroups(0, NULL) && !setresgid(user, user, user));
	CHECK(!setresuid(user, user, user));
}

void crew_nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
}

void crew_wait(const _Atomic uint32_t *word, uint32_t value)
{
	double end = now_s() + 40;

	while (atomic_load(word) < value) {
		CHECK(now_s() < end);
		crew_nap();
	}
}

struct card crew_card(const struct rig *r, const struct ibv_qp *qp)
{
	return (struct card){ qp->qp_num, r->mr->rkey, (uintptr_t)r->buf, r->gid };
}

void crew_join(struct rig *r, struct ibv_qp *qp, const struct card *theirs)
{
	rig_join(r, qp, theirs->qpn, CREW_PSN, &theirs->gid);
}

void crew_expect(struct rig *r, struct ibv_qp *qp, const struct card *theirs,
		 enum ibv_wr_opcode op, size_t at, size_t len, size_t to)
{
	struct ibv_wc wc;

	rig_post(r, qp, op, at, len, theirs->addr + to, theirs->rkey, 1);
	wc = rig_wait(r);
	if (wc.status != IBV_WC_SUCCESS)
		say("opcode %d, %zu bytes: %s", op, len, ibv_wc_status_str(wc.status));
	CHECK(wc.status == IBV_WC_SUCCESS);
}

void crew_recv(struct rig *r, struct ibv_qp *qp, size_t at, size_t len)
{
	struct ibv_sge sge = {
		(uintptr_t)r->buf + at,
		(uint32_t)len,
		r->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = at, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(qp, &wr, &bad));
}

/* --- what a process holds ------------------------------------------------ */

struct census crew_census(void)
{
	struct census c = { 0 };
	char line[256];
	FILE *f = fopen("/proc/self/smaps_rollup", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "Rss: %u kB", &c.rss_kib);
	fclose(f);
	c.fds = count_entries("/proc/self/fd");
	c.maps = count_lines("/proc/self/maps");
	return c;
}

static bool no_more_than(struct census now, struct census before, unsigned kib)
{
	return now.fds <= before.fds &&
	       now.maps <= before.maps + 2 && /* descriptors of malloc */
	       now.rss_kib <= before.rss_kib + kib;
}

void crew_compare(const char *who, struct census before, unsigned kib)
{
	struct census now = crew_census();
	double end = now_s() + 10;

	/* The engine thread gives back what the last peer has left behind. */
	while (!no_more_than(now, before, kib) && now_s() < end) {
		crew_nap();
		now = crew_census();
	}
	say("%s: %u -> %u descriptors, %u -> %u mappings, %u -> %u KiB", who, before.fds,
	    now.fds, before.maps, now.maps, before.rss_kib, now.rss_kib);
	CHECK(no_more_than(now, before, kib));
}

bool is_a_file(const void *at)
{
	FILE *f = fopen("/proc/thread-self/maps", "r");
	unsigned long lo, hi;
	char line[400], perms[8];
	bool is = false;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %7s", &lo, &hi, perms) == 3 &&
		    lo <= (unsigned long)at && (unsigned long)at < hi)
			is = perms[3] == 's';
	fclose(f);
	return is;
}
