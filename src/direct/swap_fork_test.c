/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of what a child of fork() has where its parent has file pages in place of private
 * ones. */
#include "direct/swap_fix.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void child_looks(const struct swap_run *run, uint8_t *p, int go, int said)
{
	char c;

	for (size_t i = 0; i < LEN; i++)
		if (p[i] != (uint8_t)(1 + i * 7 + i / 251))
			_exit(1);
	memset(p, 8, LEN);
	if (write(said, "", 1) != 1 || read(go, &c, 1) != 1)
		_exit(2);
	for (size_t i = 0; i < LEN; i++)
		if (p[i] != 8)
			_exit(3);
	_exit(of_file(run, p, LEN) ? 4 : 0);
}

/* Parent and child do not see each other's stores. */
static void a_child_has_its_own(void **state)
{
	uint8_t *p = map(LEN);
	struct swap_run run;
	int go[2], said[2];
	pid_t pid;
	char c;

	(void)state;
	fill(p, LEN, 1);
	run = out(p, LEN);
	mprotect(p, PAGE, PROT_READ);
	mprotect(p, PAGE, PROT_READ | PROT_WRITE);
	assert_int_equal(pipe(go) | pipe(said), 0);
	swap_copy(&run);
	assert_true(run.copied >= LEN);
	/* Simulates a store by another thread between the copy and the fork. */
	memset(p + LEN / 2, 3, 1);
	pid = forked(&run);
	if (!pid)
		child_looks(&run, p, go[0], said[1]);
	assert_int_equal(read(said[0], &c, 1), 1);
	assert_int_equal(p[LEN / 2], 3);
	expect(p, LEN / 2, 1);
	memset(p, 7, LEN);
	assert_int_equal(write(go[1], "", 1), 1);
	ends_well(pid);
	assert_int_equal(p[LEN - 1], 7);
	assert_true(swap_in(&run, false));
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(said[i]);
	}
	munmap(p, LEN);
}

/* The program has closed the run's descriptor: the child's copy is read from memory. */
static void a_child_of_one_that_closes_descriptors(void **state)
{
	uint8_t *p = map(LEN);
	struct swap_run run;
	pid_t pid;

	(void)state;
	fill(p, LEN, 1);
	run = out(p, LEN);
	mprotect(p, PAGE, PROT_NONE);
	close(run.fd);
	swap_copy(&run);
	pid = forked(&run);
	if (!pid) {
		mprotect(p, PAGE, PROT_READ);
		for (size_t i = 0; i < LEN; i++)
			if (p[i] != (uint8_t)(1 + i * 7 + i / 251))
				_exit(1);
		_exit(0);
	}
	ends_well(pid);
	munmap(p, LEN);
}

/* The parent has no descriptors left, or no /proc: the child has a copy of its own all
 * the same; without descriptors even of memory that was moved. */
static void child_of_a_poor_one(void (*become_poor)(void), bool move)
{
	uint8_t *p = map(LEN), *moved;
	struct swap_run run;
	int status;
	pid_t pid;

	fill(p, LEN, 1);
	run = out(p, LEN);
	if (move) {
		moved = map(LEN);
		assert_ptr_equal(mremap(p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED,
					moved),
				 moved);
		p = moved;
	}
	pid = fork(); /* this child is the parent in the test */
	if (!pid) {
		become_poor();
		swap_copy(&run);
		pid = fork();
		if (!pid) {
			swap_child(&run, 1);
			for (size_t i = 0; i < LEN; i++)
				if (p[i] != (uint8_t)(1 + i * 7 + i / 251))
					_exit(3);
			memset(p, 8, LEN);
			_exit(0);
		}
		swap_parent(&run);
		if (waitpid(pid, &status, 0) != pid || status)
			_exit(1);
		for (size_t i = 0; i < LEN; i++)
			if (p[i] != (uint8_t)(1 + i * 7 + i / 251))
				_exit(2);
		_exit(0);
	}
	ends_well(pid);
	assert_true(swap_in(&run, false));
	munmap(p, LEN);
}

static void have_no_descriptors(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim))
		_exit(10);
	lim.rlim_cur = 0;
	if (setrlimit(RLIMIT_NOFILE, &lim))
		_exit(11);
}

static void have_short_files(void)
{
	const struct rlimit lim = { 1 << 20, 1 << 20 };

	if (setrlimit(RLIMIT_FSIZE, &lim))
		_exit(12);
}

/* chroot() needs a privilege. */
static void have_no_proc(void)
{
	if (!chroot("/usr") && !access("/proc", F_OK))
		_exit(13);
}

static void a_child_of_one_without_descriptors(void **state)
{
	(void)state;
	child_of_a_poor_one(have_no_descriptors, true);
}

static void a_child_of_one_with_short_files(void **state)
{
	(void)state;
	child_of_a_poor_one(have_short_files, true);
}

static void a_child_of_one_without_proc(void **state)
{
	(void)state;
	child_of_a_poor_one(have_no_proc, false);
}

/* Another thread has mapped other memory over a part of the run since the copy was made:
 * the child has that memory there, and copies of the run's pages elsewhere. */
static void a_child_has_what_lies_there_now(void **state)
{
	uint8_t *p = map(2 * LEN), *q;
	struct swap_run run;
	pid_t pid;

	(void)state;
	fill(p, 2 * LEN, 1);
	run = out(p, 2 * LEN);
	swap_copy(&run);
	q = mmap(p, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		 -1, 0);
	assert_ptr_equal(q, p);
	fill(q, LEN, 4);
	pid = forked(&run);
	if (!pid) {
		for (size_t i = 0; i < 2 * LEN; i++)
			if (p[i] != (uint8_t)((i < LEN ? 4 : 1) + i * 7 + i / 251))
				_exit(1);
		_exit(of_file(&run, p, 2 * LEN) ? 2 : 0);
	}
	ends_well(pid);
	assert_true(swap_in(&run, false));
	munmap(p, 2 * LEN);
}

/* Memory that mremap() has made longer continues with zeros in the child, too. */
static void a_child_of_what_has_grown(void **state)
{
	uint8_t *p = map(LEN), *more;
	struct swap_run run;
	pid_t pid;

	(void)state;
	fill(p, LEN, 1);
	run = out(p, LEN);
	more = mremap(p, LEN, 3 * LEN, MREMAP_MAYMOVE);
	assert_ptr_not_equal(more, MAP_FAILED);
	swap_copy(&run);
	assert_int_equal(run.copied, LEN);
	pid = forked(&run);
	if (!pid) {
		for (size_t i = 0; i < 3 * LEN; i++)
			if (more[i] != (i < LEN ? (uint8_t)(1 + i * 7 + i / 251) : 0))
				_exit(1);
		memset(more, 8, 3 * LEN);
		_exit(of_file(&run, more, 3 * LEN) ? 2 : 0);
	}
	ends_well(pid);
	expect(more, LEN, 1);
	expect_zeros(more + LEN, 2 * LEN);
	assert_true(swap_in(&run, false));
	munmap(more, 3 * LEN);
}

/* Without memory for a copy the child has nothing at these addresses, rather than its
 * parent's memory. */
static void no_memory_for_a_copy(void **state)
{
	uint8_t *p = map(LEN);
	struct swap_run run;
	struct rlimit was, lim;
	pid_t pid;

	(void)state;
	fill(p, LEN, 1);
	run = out(p, LEN);
	assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
	lim = (struct rlimit){ 1 << 20, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_AS, &lim), 0);
	swap_copy(&run);
	assert_int_equal(setrlimit(RLIMIT_AS, &was), 0);
	assert_ptr_equal(run.copy, MAP_FAILED);
	pid = forked(&run);
	if (!pid) {
		unsigned char in;

		_exit(of_file(&run, p, LEN) || mincore(p, PAGE, &in) ||
		      write(1, p, 1) != -1 || errno != EFAULT);
	}
	ends_well(pid);
	expect(p, LEN, 1);
	assert_true(swap_in(&run, false));
	munmap(p, LEN);
}

int main(void)
{
#define T(f) cmocka_unit_test(f)
	const struct CMUnitTest tests[] = {
		T(a_child_has_its_own),
		T(a_child_of_one_that_closes_descriptors),
		T(a_child_of_one_without_descriptors),
		T(a_child_of_one_with_short_files),
		T(a_child_of_one_without_proc),
		T(a_child_has_what_lies_there_now),
		T(a_child_of_what_has_grown),
		T(no_memory_for_a_copy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
