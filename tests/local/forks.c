/* SPDX-License-Identifier: BSD-2-Clause */
/* forks.c - a process that works with another one of its host
 *
 *	--mode=fork	forks --count children in midst of it, which end, open a
 *			device of their own, or run something else
 *	--mode=close	closes all descriptors, --count times
 *	--mode=exec	becomes another program, --count times; what that one
 *			has at the same addresses is not touched
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "duo.h"

enum { BEFORE = 30, BETWEEN = 15, SIZE = 1 << 20, WATCH_MS = 10, AT_ONCE = 5 };

static struct {
	struct duo_card subject, other;
	_Atomic uint32_t round, subject_is_there, other_is_there, other_joined;
	_Atomic uint32_t other_knows;
	_Atomic uint32_t over, quiet;
} * sh;

static bool is(const char *mode)
{
	return !strcmp(opt.mode, mode);
}

static void work(struct duo *d, unsigned n)
{
	double end = now_s() + 40;

	for (n += d->done; d->done < n;)
		CHECK(duo_turn(d, true) && now_s() < end);
}

static void end_well(struct duo *d)
{
	double end = now_s() + 40;

	while (d->busy)
		CHECK(duo_turn(d, false) && now_s() < end);
	sh->quiet++;
	while (sh->quiet < 2)
		CHECK(duo_turn(d, false) && now_s() < end);
}

/* --- who forks, closes or becomes another -------------------------------- */

static void child(struct duo *d, unsigned n)
{
	struct loop own = { 0 };
	struct ibv_wc wc;

	CHECK(ibv_poll_cq(d->r->cq, 1, &wc) < 0);
	if (n % 3 == 0)
		_exit(0);
	if (n % 3 == 1) {
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	loop_open(&own);
	for (uint64_t i = 0; i < 3; i++)
		loop_traffic(&own, i);
	loop_close(&own);
	_exit(0);
}

static void fork_all(struct duo *d)
{
	pid_t pid;

	for (unsigned n = 0; n < lopt.count; n++) {
		pid = fork();
		CHECK(pid >= 0);
		if (!pid)
			child(d, n);
		work(d, BETWEEN);
		crew_reap(pid);
		work(d, BETWEEN);
	}
	sh->over = 1;
	end_well(d);
}

static void close_all(struct duo *d)
{
	double end = now_s() + 20;
	struct ibv_wc wc;

	CHECK(!close_range(3, ~0u, 0));
	while (ibv_poll_cq(d->r->cq, 1, &wc) >= 0)
		CHECK(now_s() < end);
	/* This process lives, and the other one notices that its device is gone all the
	 * same. */
	crew_wait(&sh->other_knows, sh->round);
	_exit(0);
}

static void become_another(struct duo *d)
{
	char where[32], *argv[] = { "local", "executed", "-m", where, NULL };

	/* The other process is stopped during the exec, wherever it is. */
	CHECK(!kill(getppid(), SIGSTOP));
	sleep_ms(1);
	snprintf(where, sizeof(where), "%p", (void *)d->map);
	execv("/proc/self/exe", argv);
	_exit(1);
}

/* The program that the process has become by exec. */
int executed(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	uint8_t *at = (void *)strtoul(opt.mode, NULL, 16);
	uint8_t *map = mmap(at, SIZE, PROT_READ | PROT_WRITE, flags, -1, 0);

	CHECK(!kill(getppid(), SIGCONT));
	if (map != at)
		return 0; /* another mapping is there already */
	sleep_ms(WATCH_MS);
	for (size_t i = 0; i < SIZE; i++)
		CHECK(map[i] == 0);
	return 0;
}

static void subject(void *arg)
{
	struct duo d;
	struct rig r;

	(void)arg;
	rig_open(&r);
	duo_make(&d, &r, sh->round);
	sh->subject = d.mine;
	sh->subject_is_there = sh->round;
	crew_wait(&sh->other_is_there, sh->round);
	duo_join(&d, &sh->other);
	work(&d, BEFORE + sh->round % 7);
	/* A QP whose peer had gone before it joined would wait for its retries. */
	crew_wait(&sh->other_joined, sh->round);
	if (is("close"))
		close_all(&d);
	if (is("exec"))
		become_another(&d);
	fork_all(&d);
	duo_check_guards(&d);
	duo_free(&d);
	rig_close(&r);
}

/* --- the other ----------------------------------------------------------- */

static void lose_it(struct duo *d)
{
	double end;

	while (duo_turn(d, true))
		;
	end = now_s() + AT_ONCE;
	while (d->busy || !d->bad[0] || !d->bad[1]) {
		/* More than one request: the first one to mapped memory may still
		 * succeed. */
		for (int q = 0; q < DUO_QPS; q++)
			if (!d->bad[q])
				duo_poke(d, q);
		duo_turn(d, false);
		CHECK(now_s() < end);
	}
	for (int q = 0; q < DUO_QPS; q++)
		CHECK(d->bad[q] == IBV_WC_RETRY_EXC_ERR);
}

static void one_round(struct rig *r, uint32_t round)
{
	pid_t pid;
	struct duo d;

	sh->round = round;
	pid = crew_fork(subject, NULL);
	duo_make(&d, r, 1000 + round);
	crew_wait(&sh->subject_is_there, round);
	sh->other = d.mine;
	sh->other_is_there = round;
	duo_join(&d, &sh->subject);
	sh->other_joined = round;
	if (is("fork")) {
		while (!sh->over)
			CHECK(duo_turn(&d, true));
		end_well(&d);
	} else {
		lose_it(&d);
		sh->other_knows = round;
	}
	crew_reap(pid);
	duo_check_guards(&d);
	duo_free(&d);
}

int forked(void)
{
	uint32_t rounds;
	struct rig r;

	CHECK(opt.mode);
	rounds = is("fork") ? 1 : lopt.count;
	opt.timeout = 18; /* the requester gives up after at least 9 s */
	sh = crew_share(sizeof(*sh));
	rig_open(&r);
	for (uint32_t round = 1; round <= rounds; round++)
		one_round(&r, round);
	rig_close(&r);
	say("%s, %u times: all right", opt.mode, lopt.count);
	return 0;
}
