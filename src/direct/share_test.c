/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of which regions' memory becomes file pages, and how long it stays so. */
#include "direct/pages_fix.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "direct/direct.h"
#include "direct/share_own.h"

static void as_long_as_it_is_registered(void **state)
{
	struct mr *mr = reg(mem, LEN, RW);

	(void)state;
	expect_shared(0, 20);
	expect_content();
	dereg(mr);
	expect_shared(0, 0);
	expect_content();
}

/* A signal handler that has interrupted the holder of the turn does not wait for it. */
static void its_own_turn_is_not_waited_for(void **state)
{
	const struct extent all = { 0, UINT64_MAX };
	struct mr *mr = reg(mem, LEN, RW);
	struct rusage before, after;

	(void)state;
	expect_shared(0, 20);
	turn_take(&test_core.turn);
	assert_int_equal(getrusage(RUSAGE_THREAD, &before), 0);
	assert_false(share_make_private(&all));
	assert_int_equal(getrusage(RUSAGE_THREAD, &after), 0);
	turn_give(&test_core.turn);
	assert_in_range(after.ru_nvcsw - before.ru_nvcsw, 0, 100); /* naps */
	expect_shared(0, 20);
	assert_true(share_make_private(&all));
	expect_shared(0, 0);
	dereg(mr);
}

/* Pages that a region shares with other data stay private. */
static void whole_pages_only(void **state)
{
	struct mr *mr = reg(mem + 1, 3 * PAGE, RW), *small;

	(void)state;
	expect_shared(1, 2);
	small = reg(mem + 5 * PAGE + 8, 64, RW);
	expect_shared(1, 2);
	dereg(small);
	dereg(mr);
	expect_shared(0, 0);
	expect_content();
}

static void not_what_others_may_not_reach(void **state)
{
	struct mr *mr = reg(mem, LEN, IBV_ACCESS_LOCAL_WRITE);

	(void)state;
	expect_shared(0, 0);
	dereg(mr);
	mr = reg(mem, LEN, RW | IBV_ACCESS_ON_DEMAND);
	expect_shared(0, 0);
	dereg(mr);
}

/* The first of two has its pages until both have gone. */
static void two_regions_of_the_same(void **state)
{
	struct mr *a = reg(mem, 8 * PAGE, RW), *b = reg(mem + 4 * PAGE, 8 * PAGE, RW);

	(void)state;
	/* When b was registered, its first half was already reachable by a's key. */
	expect_shared(0, 8);
	dereg(a);
	expect_shared(0, 8);
	dereg(b);
	expect_shared(0, 0);
	expect_content();
}

/* The memory is not moved to a file while another region has it: peers may write to it
 * by that region's key at any time. */
static void not_what_is_a_region_already(void **state)
{
	struct mr *odp = reg(mem, LEN, RW | IBV_ACCESS_ON_DEMAND),
		  *mr = reg(mem, LEN, RW);

	(void)state;
	expect_shared(0, 0);
	dereg(odp);
	dereg(mr);
	mr = reg(mem, LEN, RW);
	expect_shared(0, 20);
	dereg(mr);
}

/* Counts the files of moved memory that this process has open. */
static unsigned files(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	unsigned n = 0;

	while ((e = readdir(d))) {
		char to[64] = "";

		(void)readlinkat(dirfd(d), e->d_name, to, sizeof(to) - 1);
		n += !strncmp(to, "/memfd:urnic-memory", 19);
	}
	closedir(d);
	return n;
}

/* With other threads the memory of a region stays a file's when the region goes, since
 * another thread may have moved it. A file that is mapped nowhere is closed. */
static void what_is_unmapped_with_other_threads(void **state)
{
	struct mr *a = reg(mem, 4 * PAGE, RW), *b = reg(mem + 4 * PAGE, 4 * PAGE, RW);

	(void)state;
	assert_int_equal(files(), 2);
	threads_end(); /* one thread counts as the program's */
	munmap(mem, 4 * PAGE);
	dereg(a);
	assert_int_equal(files(), 1);
	dereg(b);
	expect_shared(4, 4);
	assert_int_equal(files(), 1);
	count_threads();
	b = reg(mem + 12 * PAGE, PAGE, RW);
	dereg(b); /* a deregistration looks again for memory that had to stay a file's */
	expect_shared(0, 0);
	assert_int_equal(files(), 0);
}

/* The kernel holds a page of a region that has ended: deregistrations do not try each
 * time to make it private, and a later one does. */
static void what_stays_is_not_tried_each_time(void **state)
{
	enum { TIMES = 50 };
	uint8_t params[120] = { 0 };
	int ring = (int)syscall(SYS_io_uring_setup, 2, params), ends[2];
	struct iovec v = { mem, PAGE };
	struct mr *mr;

	(void)state;
	if (ring < 0)
		return; /* io_uring is forbidden */
	close(ring);
	mr = reg(mem, 4 * PAGE, RW);
	expect_shared(0, 4);
	ring = (int)syscall(SYS_io_uring_setup, 2, params);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(vmsplice(ends[1], &v, 1, 0), PAGE);
	dereg(mr);
	expect_shared(0, 4);
	for (int i = 0; i < TIMES; i++)
		dereg(reg(mem + 8 * PAGE, PAGE, RW));
	expect_shared(0, 4);
	assert_in_range(share.tried[0].end.times, 1, 5);
	close(ends[0]);
	close(ends[1]);
	while (runs_count())
		dereg(reg(mem + 8 * PAGE, PAGE, RW));
	expect_shared(0, 0);
	expect_content();
	close(ring);
}

/* Most of the few descriptors that are allowed are left to the program: regions share
 * files then. */
static void with_few_descriptors(void **state)
{
	enum { ALL = LEN / PAGE };
	struct rlimit was, few;
	struct mr *mr[ALL];

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	few = (struct rlimit){ 32, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (unsigned i = 0; i < ALL; i++)
		mr[i] = reg(mem + i * PAGE, PAGE, RW);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	expect_shared(0, ALL);
	expect_content();
	assert_int_equal(files(), 2);
	/* The first has the file of all from the third on. */
	for (unsigned i = 0; i < ALL; i++) {
		dereg(mr[i]);
		expect_shared(i + 1, ALL - i - 1);
		expect_content();
	}
	assert_int_equal(files(), 0);
}

/* The memory of urnic's own objects stays private: the engine thread works in it without
 * the turn, too. */
static void not_what_has_our_own_nic(void **state)
{
	struct core *in = (struct core *)(void *)mem;
	struct pd *of;
	struct mr *mr;

	(void)state;
	memset(mem, 0, LEN);
	assert_int_equal(core_init(in, 1), 0);
	assert_int_equal(pd_alloc(in, NULL, &of), 0);
	share_start(in, false);
	assert_int_equal(mr_reg(of, mem, LEN, 0, RW, &mr), 0);
	expect_shared(0, 0);
	dereg(mr);
	assert_int_equal(pd_free(of), 0);
	core_fini(in);
}

static void a_region_that_moves(void **state)
{
	struct mr *mr = reg(mem, 4 * PAGE, RW);

	(void)state;
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				  mem + 8 * PAGE, PAGE, 0),
			 0);
	expect_shared(8, 1);
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				  IBV_ACCESS_LOCAL_WRITE),
			 0);
	expect_shared(0, 0);
	assert_int_not_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      1 << 19),
			     0);
	dereg(mr);
	expect_shared(0, 0);
	expect_content();
}

/* More regions than urnic keeps track of: no memory becomes a file's until they have
 * gone. */
static void many_regions(void **state)
{
	enum { MANY = 1100 };
	static struct mr *mr[MANY];

	(void)state;
	for (unsigned i = 0; i < MANY; i++)
		mr[i] = reg(mem + LEN - 8, 8, RW);
	dereg(reg(mem, PAGE, RW));
	expect_shared(0, 0);
	for (unsigned i = 0; i < MANY; i++)
		dereg(mr[i]);
	mr[0] = reg(mem, PAGE, RW);
	expect_shared(0, 1);
	dereg(mr[0]);
}

/* When a region in the middle of a mapping has gone, the mapping is one again, so
 * mremap() can move it whole. */
static void part_of_a_mapping(void **state)
{
	struct mr *mr = reg(mem + 4 * PAGE, 4 * PAGE, RW);
	uint8_t *to;

	(void)state;
	expect_shared(4, 4);
	dereg(mr);
	to = mremap(mem, LEN, 2 * LEN, MREMAP_MAYMOVE);
	assert_ptr_not_equal(to, MAP_FAILED);
	mem = to;
	expect_content();
	munmap(mem + LEN, LEN);
}

/* A child of fork() has a copy of its parent's memory, and can register memory anew. */
static void fork_copies(void **state)
{
	struct mr *mr = reg(mem, LEN, RW);
	int status;
	pid_t pid;

	(void)state;
	share_prepare();
	assert_true(share_hold(LOCK_SURELY));
	assert_true(share_copy());
	pid = fork();
	if (!pid) {
		struct core other = { 0 };
		struct pd *of;
		struct mr *its;

		share_copied_to_child();
		share_forked();
		count_threads();
		expect_shared(0, 0);
		expect_content();
		memset(mem, 1, LEN);
		assert_int_equal(core_init(&other, 1), 0);
		assert_int_equal(pd_alloc(&other, NULL, &of), 0);
		share_start(&other, false);
		assert_int_equal(mr_reg(of, mem, LEN, 0, RW, &its), 0);
		expect_shared(0, 20);
		_exit(0);
	}
	share_copied();
	share_let_go();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	expect_shared(0, 20);
	expect_content();
	dereg(mr);
	expect_shared(0, 0);
}

/* urnic keeps no descriptor of a directory open: with fchdir() a program that has
 * changed its root could get out by it. */
static void no_directory_is_kept(void **state)
{
	DIR *fds = opendir("/proc/self/fd");
	struct dirent *e;

	(void)state;
	assert_non_null(fds);
	while ((e = readdir(fds))) {
		int fd = atoi(e->d_name);
		struct stat st;

		if (e->d_name[0] != '.' && fd != dirfd(fds) &&
		    fcntl(fd, F_GETFD) == FD_CLOEXEC && !fstat(fd, &st) &&
		    S_ISDIR(st.st_mode)) /* only descriptors that exec closes are urnic's
					  */
			fail_msg("descriptor %d is a directory", fd);
	}
	closedir(fds);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		T(as_long_as_it_is_registered),
		T(its_own_turn_is_not_waited_for),
		T(whole_pages_only),
		T(no_directory_is_kept),
		T(not_what_others_may_not_reach),
		T(two_regions_of_the_same),
		T(not_what_is_a_region_already),
		T(what_is_unmapped_with_other_threads),
		T(what_stays_is_not_tried_each_time),
		T(with_few_descriptors),
		T(not_what_has_our_own_nic),
		T(a_region_that_moves),
		T(many_regions),
		T(part_of_a_mapping),
		T(fork_copies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
