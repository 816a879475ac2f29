/* SPDX-License-Identifier: BSD-2-Clause */
/* Which memory is lent, and which is taken. */
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "direct/runs.h"
#include "direct/share.h"
#include "direct/shared_fix.h"
#include "direct/threads_fix.h"
#include "host/host.h"
#include "shm/rec.h"
#include "shm/say.h"

static void what_is_not_shared_is_not_lent(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct shared s = share(i ? FIX_ALL | IBV_ACCESS_ON_DEMAND : FIX_ALL,
					i ? MAP_SHARED : MAP_PRIVATE);

		use(&s);
		assert_null(map_of(&s));
		assert_int_equal(times(&s), 0);
		assert_false(pair_peer(s.f, 1)->reach.lent);
		unshare_(&s);
	}
}

/* Before a region is mapped, atomics go by segments, but count as uses of the region like
 * WRITEs. */
static void atomics_are_uses(void **state)
{
	struct shared s = share(FIX_ALL, MAP_SHARED);
	uint64_t sum = 0;

	(void)state;
	for (unsigned i = 0; i < USES; i++) {
		post(&s, IBV_WR_ATOMIC_FETCH_AND_ADD, i, 0, 0, 8);
		done(&s, i);
		fix_quiet(s.f);
	}
	assert_non_null(map_of(&s));
	assert_true(times(&s) > 0);
	memcpy(&sum, s.at, sizeof(sum));
	assert_int_equal(sum, 5 * USES);
	unshare_(&s);
}

/* A region's memory is lent from its beginning to where the file's mapping ends or jumps
 * within the file. Two adjacent mappings of consecutive parts of the file are one. */
static void as_far_as_the_file_goes_on(void **state)
{
	struct shared s = share(FIX_ALL, MAP_SHARED);
	struct reach *r = &pair_peer(s.f, 1)->reach;
	struct lent lent;
	int fd;

	(void)state;
	assert_ptr_equal(mmap(s.at + LEN / 2, 4096, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_FIXED, s.fd, 0),
			 s.at + LEN / 2);
	fd = reach_lend(r, s.mr->mkey.key, &lent);
	assert_true(fd >= 0);
	assert_int_equal(lent.lo, (uintptr_t)s.at);
	assert_int_equal(lent.hi, (uintptr_t)s.at + LEN / 2);
	assert_int_equal(lent.offset, 0);
	close(fd);
	unshare_(&s);
}

/* If the program has closed the descriptor and the file has no name, the region is lent
 * only if the kernel lets this process open the file by its mapping. A region that is
 * for reading only is lent for reading only. */
static void a_descriptor_is_found_or_not(void **state)
{
	struct shared s = share(IBV_ACCESS_REMOTE_READ, MAP_SHARED);
	struct reach *r = &pair_peer(s.f, 1)->reach;
	struct lent lent;
	int fd = reach_lend(r, s.mr->mkey.key, &lent);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	close(fd);
	assert_int_equal(reach_lend(r, s.mr->mkey.key + 1, &lent), -1);
	close(s.fd);
	fd = reach_lend(r, s.mr->mkey.key, &lent);
	if (fd >= 0)
		close(fd);
	s.fd = -1;
	unshare_(&s);
}

/* Can the file be changed by whoever has this descriptor? */
static bool lets_write(int fd)
{
	char path[64];
	void *at;
	int again;
	bool can;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	if (again < 0)
		return false;
	at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0);
	can = at != MAP_FAILED || pwrite(again, "x", 1, 0) == 1 ||
	      !fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) ||
	      !fcntl(again, F_ADD_SEALS, F_SEAL_WRITE);
	if (at != MAP_FAILED)
		munmap(at, 4096);
	close(again);
	return can;
}

/* A descriptor for reading can be opened again for writing by way of /proc: it is lent
 * only where that helps nobody. The owner itself goes on storing, and has zeros where
 * MADV_DONTNEED makes them. */
static void what_may_only_be_read_is_lent_so(void **state)
{
	struct shared s = share_private(IBV_ACCESS_REMOTE_READ);
	struct reach *r = &pair_peer(s.f, 1)->reach;
	const struct extent first = { (uintptr_t)s.at, (uintptr_t)s.at + 4096 };
	struct mr *writing;
	struct lent lent;
	int fd;

	(void)state;
	memset(s.at, 3, LEN);
	fd = reach_lend(r, s.mr->mkey.key, &lent);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_false(lets_write(fd));
	close(fd);
	memset(s.at, 4, LEN);
	assert_int_equal(mprotect(s.at, 4096, PROT_READ), 0);
	runs_zero(&first);
	for (size_t i = 0; i < 8192; i++)
		assert_int_equal(s.at[i], i < 4096 ? 0 : 4);
	assert_int_equal(mprotect(s.at, 4096, PROT_READ | PROT_WRITE), 0);
	/* The same pages are not lent for writing any more. */
	writing = sim_mr(s.f->s, 1, s.at, LEN, FIX_ALL);
	assert_int_equal(reach_lend(r, writing->mkey.key, &lent), -1);
	assert_int_equal(mr_dereg(writing), 0);
	assert_int_equal(mr_dereg(s.mr), 0);
	s.mr = NULL;
	assert_int_equal(runs_count(), 0);
	assert_int_equal(s.at[LEN - 1], 4);
	s.at[0] = 5;
	unshare_(&s);
}

/* Pages that were lent for writing are not lent for reading only. */
static void what_may_be_written_is_not_lent_for_reading(void **state)
{
	struct shared s = share_private(FIX_ALL);
	struct reach *r = &pair_peer(s.f, 1)->reach;
	struct mr *reading = sim_mr(s.f->s, 1, s.at, LEN, IBV_ACCESS_REMOTE_READ);
	struct lent lent;
	int fd = reach_lend(r, s.mr->mkey.key, &lent);

	(void)state;
	assert_true(fd >= 0);
	assert_true(lets_write(fd));
	close(fd);
	assert_int_equal(reach_lend(r, reading->mkey.key, &lent), -1);
	assert_int_equal(mr_dereg(reading), 0);
	unshare_(&s);
}

/* A file of the program's own, without a name, that anybody with a descriptor could write
 * to. */
static void what_could_be_written_is_not_lent_for_reading(void **state)
{
	struct shared s = share(FIX_ALL, MAP_SHARED);
	struct reach *r = &pair_peer(s.f, 1)->reach;
	struct mr *reading = sim_mr(s.f->s, 1, s.at, LEN, IBV_ACCESS_REMOTE_READ);
	struct lent lent;

	(void)state;
	assert_int_equal(reach_lend(r, reading->mkey.key, &lent), -1);
	assert_int_equal(fcntl(s.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	close(reach_lend(r, reading->mkey.key, &lent));
	assert_int_equal(lent.lo, (uintptr_t)s.at);
	assert_int_equal(mr_dereg(reading), 0);
	unshare_(&s);
}

/* Nobody may trace this process, so nobody gets its memory. */
static void not_of_a_process_that_hides(void **state)
{
	struct shared s = share(FIX_ALL, MAP_SHARED);
	struct reach *r = &pair_peer(s.f, 1)->reach;
	struct lent lent;
	int fd;

	(void)state;
	assert_int_equal(prctl(PR_SET_DUMPABLE, 0), 0);
	assert_int_equal(reach_lend(r, s.mr->mkey.key, &lent), -1);
	assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0);
	fd = reach_lend(r, s.mr->mkey.key, &lent);
	assert_true(fd >= 0);
	close(fd);
	unshare_(&s);
}

/* A asks B for the region by a message that it makes up. Does B lend it? */
static bool lends_to(struct shared *s, const uint64_t proof[2])
{
	struct sim_node *b = &s->f->s->node[1];
	struct map_msg m = { .head = { .version = PIPE_VERSION, .what = SAY_ASK_MAP },
			     .lent = { .key = s->mr->mkey.key } };
	struct host_said said = { .slot = s->f->s->node[0].core.slot,
				  .uid = geteuid(),
				  .pid = getpid(),
				  .buf = &m,
				  .len = sizeof(m),
				  .fd = { -1, -1 } };

	memcpy(m.head.nonce.value, proof, sizeof(m.head.nonce.value));
	turn_take(&b->core.turn);
	peers_said(peers_of(&b->core), &said);
	turn_give(&b->core.turn);
	return pair_peer(s->f, 1)->reach.lent;
}

/* Whoever asks must have read what lies in this process's memory, and only there. */
static void not_to_who_cannot_read_our_memory(void **state)
{
	struct shared s = share(FIX_ALL, MAP_SHARED);
	struct reach *r = &pair_peer(s.f, 0)->reach;
	uint64_t proof[2] = { 0, 0 };

	(void)state;
	assert_false(lends_to(&s, proof));
	assert_false(lends_to(&s, r->nonce.value));
	assert_true(reach_prove(r, proof));
	proof[1]++;
	assert_false(lends_to(&s, proof));
	proof[1]--;
	assert_true(lends_to(&s, proof));
	/* The page is gone, or another process has its number. */
	r->nonce.value[0]++;
	assert_false(reach_prove(r, proof));
	r->nonce.value[0]--;
	r->vm = false;
	assert_false(reach_prove(r, proof));
	r->vm = true;
	unshare_(&s);
}

static void what_is_said_may_be_a_lie(void **state)
{
	struct shared s = mapped(FIX_ALL);
	struct reach *r = &pair_peer(s.f, 0)->reach;
	struct lent good = map_of(&s)->lent, l;
	int other = memfd_create("short", MFD_CLOEXEC), ends[2];

	(void)state;
	assert_int_equal(ftruncate(other, 4096), 0);
	assert_int_equal(pipe(ends), 0);
	l = good, l.version += 2;
	assert_false(reach_map(r, &l, s.fd));
	l = good, l.key ^= 1;
	assert_false(reach_map(r, &l, s.fd));
	l = good, l.key ^= 1 << 8;
	assert_false(reach_map(r, &l, s.fd));
	l = good, l.hi = l.lo;
	assert_false(reach_map(r, &l, s.fd));
	l = good, l.hi = l.lo - 1;
	assert_false(reach_map(r, &l, s.fd));
	l = good, l.lo = 0, l.hi = UINT64_MAX;
	assert_false(reach_map(r, &l, s.fd));
	l = good, l.offset = UINT64_MAX - 4095;
	assert_false(reach_map(r, &l, s.fd));
	l = good, l.offset = 4096;
	assert_false(reach_map(r, &l, s.fd));
	assert_false(reach_map(r, &good, other));
	assert_false(reach_map(r, &good, ends[0]));
	assert_false(reach_map(r, &good, -1));
	/* The peer lends a file for addresses where the region is not: the mapping is
	 * taken, and no access finds it. */
	l = good, l.lo += 1ull << 40, l.hi += 1ull << 40;
	assert_true(reach_map(r, &l, s.fd));
	memset(s.at, 0xee, 8);
	post(&s, IBV_WR_RDMA_WRITE, 1, 0, 0, 8);
	done(&s, 1);
	assert_memory_equal(s.at, s.f->mem[0], 8);
	/* The lent range may begin within a page, if the offset in the file does so by
	 * as much. */
	l = good, l.lo += 100, l.offset += 100;
	assert_true(reach_map(r, &l, s.fd));
	post(&s, IBV_WR_RDMA_WRITE, 2, 3, 200, 8);
	done_at_once(&s, 2);
	assert_memory_equal(s.at + 200, s.f->mem[0] + 3, 8);
	/* The lent range begins before the region: the region's own bytes are mapped as
	 * much later. */
	l = good, l.lo -= 4096, l.hi -= 4096;
	assert_true(reach_map(r, &l, s.fd));
	post(&s, IBV_WR_RDMA_WRITE, 3, 5, 8, 8);
	done_at_once(&s, 3);
	assert_memory_equal(s.at + 4096 + 8, s.f->mem[0] + 5, 8);
	post(&s, IBV_WR_RDMA_WRITE, 4, 7, LEN - 4096 - 4, 8);
	done(&s, 4);
	assert_memory_equal(s.at + LEN - 4096 - 4, s.f->mem[0] + 7, 8);
	close(other);
	close(ends[0]);
	close(ends[1]);
	unshare_(&s);
}

/* The peer's answer comes when its memory can no longer be reached directly. */
static void an_answer_comes_too_late(void **state)
{
	struct shared s = mapped(FIX_ALL);
	struct reach *r = &pair_peer(s.f, 0)->reach;
	struct lent lent = map_of(&s)->lent;

	(void)state;
	r->vm = false;
	assert_false(reach_map(r, &lent, s.fd));
	r->vm = true;
	unshare_(&s);
}

/* With share_start() the private memory of a region becomes a file's, which is then
 * lent. */
static void private_memory_is_lent(void **state)
{
	struct sim_conf conf = { .timeout = 10, .retry_cnt = 1 };
	struct shared s = { .f = pair_open(IBV_QPT_RC, &conf), .fd = -1 };
	uint8_t *before;

	(void)state;
	count_threads();
	share_start(&s.f->s->node[1].core, false);
	s.at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	assert_ptr_not_equal(s.at, MAP_FAILED);
	memset(s.at, 3, LEN);
	s.mr = sim_mr(s.f->s, 1, s.at + 8, LEN - 8, FIX_ALL);
	use(&s);
	assert_non_null(map_of(&s));
	/* The region begins within the first page, which the program shares with other
	 * data: that page is not lent. */
	post(&s, IBV_WR_RDMA_WRITE, 1, 3, 0, 8);
	done(&s, 1);
	before = s.at + 4096;
	post(&s, IBV_WR_RDMA_WRITE, 2, 3, 4096 - 8, 64);
	done_at_once(&s, 2);
	assert_memory_equal(before, s.f->mem[0] + 3, 64);
	post(&s, IBV_WR_RDMA_READ, 3, 100, 4096, 64);
	done_at_once(&s, 3);
	assert_memory_equal(s.f->mem[0] + 100, before + 8, 64);
	assert_int_equal(mr_dereg(s.mr), 0);
	s.mr = NULL;
	assert_memory_equal(before, s.f->mem[0] + 3, 64);
	assert_int_equal(s.at[LEN - 1], 3);
	unshare_(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_shared_is_not_lent),
		cmocka_unit_test(atomics_are_uses),
		cmocka_unit_test(as_far_as_the_file_goes_on),
		cmocka_unit_test(a_descriptor_is_found_or_not),
		cmocka_unit_test(what_may_only_be_read_is_lent_so),
		cmocka_unit_test(what_may_be_written_is_not_lent_for_reading),
		cmocka_unit_test(what_could_be_written_is_not_lent_for_reading),
		cmocka_unit_test(not_of_a_process_that_hides),
		cmocka_unit_test(not_to_who_cannot_read_our_memory),
		cmocka_unit_test(what_is_said_may_be_a_lie),
		cmocka_unit_test(an_answer_comes_too_late),
		cmocka_unit_test(private_memory_is_lent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
