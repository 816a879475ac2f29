/* SPDX-License-Identifier: BSD-2-Clause */
/* deaths.c - in each round a new process, the victim, works with one that
 * survives them all, and is killed or stopped, each time at another point:
 *
 *	--mode=time	killed so many steps of 7 us after some traffic
 *	--mode=work	... by itself, in midst of posting its n-th request
 *	--mode=call	... at its n-th system call's beginning or end
 *	--mode=start	... the same, from before it opens a device
 *	--mode=stop	stopped so many steps of 7 us after some traffic, goes on
 *	--mode=wait	the same with the survivor stopped
 *	--mode=late	neither, but its QPs are ready some steps late, one by one
 *
 * Some are not killed, and must find all well.
 *
 * With --threads, threads of the victim store to private memory from before it opens a
 * device, and after some traffic it registers that piece by piece.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "duo.h"
#include "pattern.h"
#include "trace.h"

enum {
	BEFORE = 20,
	AFTER = 200,
	LEFT_ALONE = 16,
	SETTLED = 24,
	STEP_NS = 7000,
	AT_ONCE = 5, /* seconds: not by a timeout, which takes 9 */
	IN_TIME = 30,
	PAGE = 4096,
	PIECES = 16,
	PIECE = 32 * PAGE,
	MOST = 16,
	UDP_FDS = 4,
	UDP_MAPS = 1, /* the memory into which UDP receives */
};

enum mode { TIME, WORK, CALL, START, STOP, WAIT, LATE, MODES };
static const char *const names[MODES] = {
	"time", "work", "call", "start", "stop", "wait", "late",
};
static enum mode mode;

/* A word holds the number of the round for which it is true. */
static struct {
	_Atomic uint32_t round, victim_card, our_card, victim_done, we_are_done;
	_Atomic uint32_t under_way, gone, checked, over, survivor_joined;
	_Atomic uint32_t counting, spared, mapped;
	struct duo_card victim, us;
} * sh;

static bool kills(void)
{
	return mode < STOP;
}

/* Before the two processes have agreed on a pipe, a death is noticed only when all
 * retries are used up. A spared victim must find all well, however late the survivor
 * is. */
static void set_timeout(uint32_t round)
{
	opt.timeout = mode == START && sh->spared != round ? 14 : 18;
	opt.retries = 7;
}

/* --- threads that store while memory is registered ------------------------ */

static struct busy {
	pthread_t t;
	volatile uint64_t *word; /* its own, of the first page */
	uint64_t n;
} busy[MOST];
static uint8_t *pieces;
static unsigned registered;
static atomic_bool stop;

static void *store(void *arg)
{
	struct busy *b = arg;

	for (; !stop; b->n++)
		for (size_t i = 0; i < PIECES * PIECE / 8; i += PAGE / 8) {
			CHECK(b->word[i] == b->n);
			b->word[i] = b->n + 1;
		}
	return NULL;
}

static void begin_threads(void)
{
	CHECK(lopt.threads <= MOST);
	pieces = rig_memory(PIECES * PIECE);
	for (unsigned i = 0; i < lopt.threads; i++) {
		busy[i].word = (volatile uint64_t *)(void *)pieces + i;
		CHECK(!pthread_create(&busy[i].t, NULL, store, &busy[i]));
	}
}

static void register_piece(struct rig *r)
{
	uint8_t *at = pieces + registered * PIECE;
	struct ibv_mr *mr;

	if (!lopt.threads || registered == PIECES)
		return;
	mr = ibv_reg_mr(r->pd, at, PIECE, RIG_ACCESS);
	CHECK(mr);
	sh->mapped += is_a_file(at);
	CHECK(!ibv_dereg_mr(mr));
	registered++;
}

static void end_threads(void)
{
	stop = true;
	for (unsigned i = 0; i < lopt.threads; i++) {
		CHECK(!pthread_join(busy[i].t, NULL));
		for (size_t k = 0; k < PIECES * PIECE / 8; k += PAGE / 8)
			CHECK(busy[i].word[k] == busy[i].n);
	}
	munmap(pieces, PIECES * PIECE);
}

/* --- the victim ---------------------------------------------------------- */

static void arm(int sig, unsigned point)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = sig };
	struct itimerspec when = { .it_value.tv_nsec = 1 + point * STEP_NS };
	timer_t timer;

	CHECK(!timer_create(CLOCK_MONOTONIC, &ev, &timer));
	CHECK(!timer_settime(timer, 0, &when, NULL));
}

static void begin(struct duo *d, unsigned point)
{
	sh->counting = 1;
	sh->under_way = sh->round;
	if (sh->spared == sh->round)
		return;
	if (mode == TIME)
		arm(SIGKILL, point);
	if (mode == STOP)
		arm(SIGSTOP, point);
	if (mode == WORK)
		d->die_after = d->started + point;
}

/* A turn in which nothing may fail, before `end`. */
static void turn_well(struct duo *d, bool post, double end)
{
	bool fine = duo_turn(d, post) && now_s() < end;

	if (!fine)
		say("round %u: %u requests done, %u under way; the QPs say %s and %s",
		    sh->round, d->done, d->busy, ibv_wc_status_str(d->bad[0]),
		    ibv_wc_status_str(d->bad[1]));
	CHECK(fine);
}

static void be_victim(void *arg)
{
	const unsigned *point = arg;
	double end = now_s() + 40;
	uint32_t round = sh->round;
	bool spared = sh->spared == round;
	struct duo d;
	struct rig r;

	if (mode == CALL || mode == START)
		trace_me();
	if (mode == START)
		sh->counting = 1;
	set_timeout(round);
	begin_threads();
	rig_open(&r);
	duo_make(&d, &r, mix(lopt.seed) + round);
	sh->victim = d.mine;
	sh->victim_card = round;
	crew_wait(&sh->our_card, round);
	d.slow = mode == LATE ? 1 + *point * STEP_NS / 1000 : 0;
	duo_join(&d, &sh->us);
	/* A QP that the survivor connects after the victim's death learns of it by
	 * UDP. */
	while (d.done < BEFORE || sh->survivor_joined < round)
		turn_well(&d, true, end);
	begin(&d, *point);
	/* A victim that is to be killed goes on until it dies. */
	while (d.done < AFTER || (!spared && mode < START)) {
		register_piece(&r);
		turn_well(&d, true, end);
	}
	while (d.busy)
		turn_well(&d, false, end);
	sh->victim_done = round;
	while (sh->we_are_done < round)
		turn_well(&d, false, end);
	duo_check_guards(&d);
	duo_free(&d);
	rig_close(&r);
	end_threads();
}

/* --- the survivor -------------------------------------------------------- */

static void poke(struct duo *d)
{
	for (int q = 0; q < DUO_QPS; q++)
		if (!d->bad[q])
			duo_poke(d, q);
}

/* All outstanding requests have failed, and all further ones fail. */
static double bereaved(struct duo *d, bool connected)
{
	double start = now_s(), limit = start + (connected ? AT_ONCE : IN_TIME);
	double again = start + 0.001;

	poke(d);
	while (d->busy || !d->bad[0] || !d->bad[1]) {
		duo_turn(d, false);
		CHECK(now_s() < limit);
		/* Memory that is mapped can be written to until the death is known. */
		if (now_s() > again) {
			again += 0.001;
			poke(d);
		}
	}
	for (int q = 0; q < DUO_QPS; q++)
		CHECK(d->bad[q] == IBV_WC_RETRY_EXC_ERR);
	return now_s() - start;
}

/* Works until the victim has ended or both are done. Returns the seconds until its death
 * was noticed. */
static double live_through(struct duo *d, uint32_t round)
{
	bool fine = true;

	while (fine && sh->victim_done < round && sh->gone < round)
		fine = duo_turn(d, true);
	while (fine && d->busy && sh->gone < round)
		fine = duo_turn(d, false);
	if (fine && sh->victim_done == round && !d->busy) {
		sh->we_are_done = round;
		while (sh->gone < round) /* the victim may still ask for more */
			duo_turn(d, false);
		return 0;
	}
	if (!fine && sh->gone < round)
		crew_wait(&sh->gone, round);
	CHECK(sh->spared != round && kills());
	return bereaved(d, sh->under_way == round);
}

static void survivor(void *arg)
{
	struct census before = { 0 };
	double longest = 0, took;
	struct duo d;
	struct rig r;

	(void)arg;
	rig_open(&r);
	for (uint32_t round = 1;; round++) {
		crew_wait(&sh->round, round);
		if (sh->over)
			break;
		set_timeout(round);
		duo_make(&d, &r, round);
		sh->us = d.mine;
		sh->our_card = round;
		while (sh->victim_card < round && sh->gone < round)
			crew_nap();
		if (sh->victim_card == round) {
			duo_join(&d, &sh->victim);
			sh->survivor_joined = round;
			took = live_through(&d, round);
			if (took > longest && sh->under_way == round)
				longest = took;
		}
		duo_check_guards(&d);
		duo_free(&d);
		if (round == SETTLED)
			before = crew_census();
		sh->checked = round;
	}
	say("a death is known within %.3f s", longest);
	/* A victim that dies before the two have agreed makes the survivor use UDP,
	 * which needs sockets and memory of its own. On a busy machine that can happen
	 * in every mode. */
	before.fds += UDP_FDS;
	before.maps += before.maps ? UDP_MAPS : 0;
	if (before.maps)
		crew_compare("the survivor", before,
			     mode == START ? 2048 : 512 + CREW_TABLES_KIB);
	rig_close(&r);
}

/* --- the director -------------------------------------------------------- */

/* Stops the survivor for a while, while both work. */
static void stop_survivor(pid_t survivor, uint32_t round, unsigned point)
{
	struct timespec ts = { .tv_nsec = point * STEP_NS };

	crew_wait(&sh->under_way, round);
	nanosleep(&ts, NULL);
	CHECK(!kill(survivor, SIGSTOP));
	sleep_ms((unsigned)(mix(point) % 20));
	CHECK(!kill(survivor, SIGCONT));
}

/* Returns true if the victim was killed. */
static bool watch_victim(pid_t pid, unsigned point)
{
	int status;

	if (mode == CALL || mode == START)
		return trace_until(pid, point, &sh->counting);
	for (;;) {
		CHECK(waitpid(pid, &status, WUNTRACED) == pid);
		if (!WIFSTOPPED(status))
			break;
		sleep_ms((unsigned)(mix(point) % 20));
		CHECK(!kill(pid, SIGCONT));
	}
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && kills())
		return true;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		say("round %u, point %u: status %#x", sh->round, point, status);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return false;
}

/* Returns true if the victim was killed. */
static bool one_round(pid_t survivor, unsigned point)
{
	uint32_t round = sh->round + 1;
	bool spare = round % LEFT_ALONE == 0, killed;
	pid_t pid;

	sh->counting = 0;
	sh->spared = spare ? round : sh->spared;
	sh->round = round;
	pid = crew_fork(be_victim, &point);
	if (mode == WAIT && !spare)
		stop_survivor(survivor, round, point);
	killed = watch_victim(pid, spare ? 0 : point);
	sh->gone = round;
	crew_wait(&sh->checked, round);
	return killed;
}

int deaths(void)
{
	unsigned point = lopt.first, n = 0;
	pid_t pid;

	for (mode = 0; opt.mode && mode < MODES; mode++)
		if (!strcmp(opt.mode, names[mode]))
			break;
	CHECK(opt.mode && mode < MODES);
	opt.privileged = lopt.threads > 0; /* stores wait by CAP_SYS_PTRACE */
	sh = crew_share(sizeof(*sh));
	pid = crew_fork(survivor, NULL);
	for (; n < lopt.count; point += lopt.step) {
		bool killed = one_round(pid, point);

		n += killed || !kills();
		/* The point is beyond the victim's last system call. */
		if (mode == START && !killed && sh->spared != sh->round)
			break;
	}
	sh->over = 1;
	sh->round++;
	crew_reap(pid);
	if (lopt.threads)
		say("%u pieces were mapped", sh->mapped);
	say("%u times, up to point %u: all right", n, point);
	return 0;
}
