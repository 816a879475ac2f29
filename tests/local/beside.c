/* SPDX-License-Identifier: BSD-2-Clause */
/* beside.c - private memory that is registered while --count threads store to it, by
 * themselves and by system calls.  Another process WRITEs and READs beside them.  No
 * store is lost, none of the calls fails, and a child has its memory as it was. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crew.h"

enum { PAGE = 4096, PAGES = 48, SIZE = PAGES * PAGE, MOST = 16, USES = 40, ROUNDS = 10 };

static struct {
	struct card owner, user;
	_Atomic uint32_t there, joined, used;
} * sh;

static struct rig r;
static volatile uint8_t *mem;

struct busy {
	pthread_t t;
	unsigned id;
	_Atomic uint64_t n;
	int ends[2];
};

static struct busy busy[MOST];
static atomic_bool stop;

/* Each thread has two words in each page but the first, which is the other process's. */
static volatile uint64_t *word_of(const struct busy *b, unsigned page, unsigned which)
{
	return (volatile uint64_t *)(uintptr_t)(mem + page * PAGE) + 2 * b->id + which;
}

static void *work(void *arg)
{
	struct busy *b = arg;

	for (; !stop; b->n++)
		for (unsigned page = 1; page < PAGES; page++) {
			volatile uint64_t *own = word_of(b, page, 0),
					  *got = word_of(b, page, 1);
			const uint64_t value = b->n + 1;

			CHECK(*own == b->n && *got == b->n);
			*own = value;
			CHECK(write(b->ends[1], &value, sizeof(value)) == sizeof(value));
			CHECK(read(b->ends[0], (void *)(uintptr_t)got, sizeof(value)) ==
			      sizeof(value));
		}
	return NULL;
}

static void begin_work(void)
{
	stop = false;
	for (unsigned i = 0; i < lopt.count; i++) {
		busy[i] = (struct busy){ .id = i };
		CHECK(!pipe(busy[i].ends));
		CHECK(!pthread_create(&busy[i].t, NULL, work, &busy[i]));
	}
}

static void await_work(void)
{
	for (unsigned i = 0; i < lopt.count; i++)
		for (const uint64_t from = busy[i].n; busy[i].n < from + 2;)
			crew_nap();
}

static void end_work(void)
{
	await_work();
	stop = true;
	for (unsigned i = 0; i < lopt.count; i++) {
		CHECK(!pthread_join(busy[i].t, NULL));
		for (unsigned page = 1; page < PAGES; page++)
			CHECK(*word_of(&busy[i], page, 0) == busy[i].n &&
			      *word_of(&busy[i], page, 1) == busy[i].n);
		close(busy[i].ends[0]);
		close(busy[i].ends[1]);
	}
}

/* The other process is not using its page. */
static void fork_child(void)
{
	const uint8_t was = mem[0];
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		mem[0] = (uint8_t)(was + 1);
		_exit(is_a_file((const void *)(uintptr_t)mem));
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status && mem[0] == was);
}

static void own_round(struct ibv_qp *qp, uint32_t round)
{
	struct ibv_mr *mr;

	mem = rig_memory(SIZE);
	begin_work();
	if (round % 2)
		await_work(); /* else pages are touched for the first time meanwhile */
	mr = ibv_reg_mr(r.pd, (void *)(uintptr_t)mem, SIZE, RIG_ACCESS);
	CHECK(mr && is_a_file((const void *)(uintptr_t)mem) &&
	      is_a_file((const void *)(uintptr_t)(mem + SIZE - 1)));
	sh->owner = (struct card){ qp->qp_num, mr->rkey, (uintptr_t)mem, r.gid };
	sh->there = round;
	if (round == 1) {
		crew_wait(&sh->joined, 1);
		crew_join(&r, qp, &sh->user);
		sh->joined = 2;
	}
	crew_wait(&sh->used, round);
	fork_child();
	CHECK(!ibv_dereg_mr(mr));
	end_work();
	munmap((void *)(uintptr_t)mem, SIZE);
}

static void be_owner(void *arg)
{
	struct ibv_qp *qp;

	(void)arg;
	rig_open(&r);
	qp = rig_qp(&r);
	for (uint32_t round = 1; round <= ROUNDS; round++)
		own_round(qp, round);
	CHECK(!ibv_destroy_qp(qp));
	rig_close(&r);
}

static void use(struct ibv_qp *qp)
{
	for (int i = 1; i <= USES; i++) {
		memset(r.buf, i, PAGE);
		crew_expect(&r, qp, &sh->owner, IBV_WR_RDMA_WRITE, 0, PAGE, 0);
		crew_expect(&r, qp, &sh->owner, IBV_WR_RDMA_READ, PAGE, PAGE, 0);
		CHECK(!memcmp(r.buf, r.buf + PAGE, PAGE));
	}
}

static unsigned mapped_files(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned n = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:urnic-memory") != NULL;
	fclose(f);
	return n;
}

/* The other process answers when it may, so the first round lasts until it has. */
static void use_until_mapped(struct ibv_qp *qp)
{
	const unsigned had = mapped_files();

	while (mapped_files() == had)
		use(qp);
}

static void be_user(void *arg)
{
	struct ibv_qp *qp;

	(void)arg;
	rig_open(&r);
	qp = rig_qp(&r);
	sh->user = crew_card(&r, qp);
	crew_wait(&sh->there, 1);
	sh->joined = 1;
	crew_wait(&sh->joined, 2);
	crew_join(&r, qp, &sh->owner);
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		crew_wait(&sh->there, round);
		if (round == 1)
			use_until_mapped(qp);
		use(qp);
		sh->used = round;
	}
	CHECK(!ibv_destroy_qp(qp));
	rig_close(&r);
}

int beside(void)
{
	pid_t owner, user;

	CHECK(lopt.count <= MOST);
	opt.privileged = true; /* stores wait by CAP_SYS_PTRACE */
	sh = crew_share(sizeof(*sh));
	owner = crew_fork(be_owner, NULL);
	user = crew_fork(be_user, NULL);
	crew_reap(owner);
	crew_reap(user);
	say("all right");
	return 0;
}
