/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages of ours that become a file's, and private again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "direct/swap.h"

enum { PAGE = 4096, PAGES = 40, LEN = PAGES * PAGE };

static struct swap file;

static int begin(void **state)
{
	(void)state;
	return swap_open(&file);
}

static int end(void **state)
{
	(void)state;
	swap_close(&file);
	return 0;
}

static uint8_t *map(size_t len)
{
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void fill(uint8_t *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(seed + i * 7 + i / 251);
}

static void expect(const uint8_t *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		assert_int_equal(p[i], (uint8_t)(seed + i * 7 + i / 251));
}

static void expect_zeros(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		assert_int_equal(p[i], 0);
}

/* So many bytes at p are the file's. */
static uint64_t of_file(const uint8_t *p, size_t len)
{
	uint64_t lo = (uintptr_t)p, hi = lo + len, n = 0;
	struct procmap m;
	struct procmaps maps;

	procmaps_open(&maps);
	while (procmaps_next(&maps, &m))
		if (swap_has(&file, &m) && m.lo < hi && lo < m.hi)
			n += (m.hi < hi ? m.hi : hi) - (m.lo > lo ? m.lo : lo);
	procmaps_close(&maps);
	return n;
}

static uint64_t file_takes(void)
{
	struct stat st;

	assert_int_equal(fstat(file.fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static struct swap_run out(uint8_t *p, size_t len)
{
	struct swap_run run;

	assert_true(swap_out(&file, (uintptr_t)p, (uintptr_t)p + len, &run));
	assert_int_equal(run.lo, (uintptr_t)p);
	assert_int_equal(run.hi, (uintptr_t)p + len);
	assert_int_equal(of_file(p, len), len);
	return run;
}

static void there_and_back(void **state)
{
	uint8_t *p = map(LEN), *other;
	struct swap_run run;

	(void)state;
	fill(p, LEN, 1);
	run = out(p, LEN);
	expect(p, LEN, 1);
	other = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd,
		     (off_t)run.at);
	assert_ptr_not_equal(other, MAP_FAILED);
	expect(other, LEN, 1);
	fill(other, LEN, 2);
	expect(p, LEN, 2);
	assert_true(swap_in(&file, &run));
	assert_int_equal(of_file(p, LEN), 0);
	assert_int_equal(file_takes(), 0);
	expect(p, LEN, 2);
	memset(other, 9, LEN);
	expect(p, LEN, 2);
	munmap(other, LEN);
	munmap(p, LEN);
}

/* What was never touched takes no memory, before and after. */
static void holes_stay_holes(void **state)
{
	enum { MUCH = 256 << 20 };
	uint8_t *p = map(MUCH);
	struct swap_run run;
	unsigned char in[2];

	(void)state;
	madvise(p, MUCH, MADV_NOHUGEPAGE);
	p[MUCH / 2] = 5;
	run = out(p, MUCH);
	assert_int_equal(file_takes(), PAGE);
	assert_int_equal(p[MUCH / 2], 5);
	p[3 * PAGE] = 6;
	assert_true(swap_in(&file, &run));
	assert_int_equal(p[MUCH / 2], 5);
	assert_int_equal(p[3 * PAGE], 6);
	assert_int_equal(mincore(p, 2 * PAGE, in), 0);
	assert_int_equal(in[0] | in[1], 0);
	munmap(p, MUCH);
}

/* Made longer in its place or elsewhere it is followed by zeros, not by the next one's.
 */
static void what_grows_meets_nobody(void **state)
{
	uint8_t *p = map(LEN), *q = map(LEN), *more;
	struct swap_run a, b;

	(void)state;
	fill(p, LEN, 1);
	fill(q, LEN, 2);
	a = out(p, LEN);
	b = out(q, LEN);
	more = mremap(p, LEN, 3 * LEN, MREMAP_MAYMOVE);
	assert_ptr_not_equal(more, MAP_FAILED);
	expect(more, LEN, 1);
	expect_zeros(more + LEN, 2 * LEN);
	fill(more, 3 * LEN, 3);
	expect(q, LEN, 2);
	assert_true(swap_in(&file, &a));
	assert_int_equal(of_file(more, 3 * LEN), 0);
	expect(more, 3 * LEN, 3);
	assert_true(swap_in(&file, &b));
	expect(q, LEN, 2);
	munmap(more, 3 * LEN);
	munmap(q, LEN);
}

/* ... and what lies there now is let alone. */
static void what_is_unmapped_goes(void **state)
{
	uint8_t *p = map(LEN), *q;
	struct swap_run run;

	(void)state;
	fill(p, LEN, 1);
	run = out(p, LEN);
	munmap(p, LEN);
	q = mmap(p, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		 -1, 0);
	assert_ptr_equal(q, p);
	fill(q, LEN, 4);
	assert_int_equal(file_takes(), LEN);
	assert_true(swap_in(&file, &run));
	assert_int_equal(file_takes(), 0);
	expect(q, LEN, 4);
	munmap(q, LEN);
}

static void protection_stays(void **state)
{
	uint8_t *p = map(3 * LEN);
	struct swap_run run;
	struct procmaps maps;
	struct procmap m;
	char is[2][5] = { "", "" };

	(void)state;
	fill(p, 3 * LEN, 1);
	run = out(p, 3 * LEN);
	mprotect(p, LEN, PROT_READ);
	mprotect(p + LEN, LEN, PROT_NONE);
	assert_true(swap_in(&file, &run));
	procmaps_open(&maps);
	while (procmaps_next(&maps, &m))
		for (unsigned i = 0; i < 2; i++)
			if ((uintptr_t)p + i * LEN >= m.lo &&
			    (uintptr_t)p + i * LEN < m.hi)
				memcpy(is[i], m.perms, 5);
	procmaps_close(&maps);
	assert_string_equal(is[0], "r--p");
	assert_string_equal(is[1], "---p");
	mprotect(p, 3 * LEN, PROT_READ);
	expect(p, 3 * LEN, 1);
	munmap(p, 3 * LEN);
}

static void a_file_has_so_many(void **state)
{
	uint8_t *p = map(PAGE);
	struct swap_run run;

	(void)state;
	for (unsigned i = 0; i < SWAP_RUNS; i++) {
		p[0] = (uint8_t)i;
		run = out(p, PAGE);
		assert_true(swap_in(&file, &run));
		assert_int_equal(p[0], (uint8_t)i);
	}
	assert_false(swap_out(&file, (uintptr_t)p, (uintptr_t)p + PAGE, &run));
	assert_int_equal(of_file(p, PAGE), 0);
	munmap(p, PAGE);
}

/* The program has closed it, and has something else there. */
static void another_file_of_that_number(void **state)
{
	uint8_t *p = map(LEN);
	struct swap_run run, next;
	int fd = memfd_create("other", 0), was = dup(file.fd);

	(void)state;
	fill(p, LEN, 1);
	run = out(p, LEN / 2);
	assert_int_equal(dup2(fd, file.fd), file.fd);
	assert_false(swap_out(&file, (uintptr_t)p + LEN / 2, (uintptr_t)p + LEN, &next));
	assert_false(swap_in(&file, &run));
	expect(p, LEN, 1);
	assert_int_equal(lseek(fd, 0, SEEK_END), 0);
	assert_int_equal(dup2(was, file.fd), file.fd);
	assert_true(swap_in(&file, &run));
	expect(p, LEN, 1);
	close(was);
	close(fd);
	munmap(p, LEN);
}

static void no_file_where_files_are_short(void **state)
{
	struct rlimit was, lim;
	struct swap s = { .fd = -1 };

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	lim = (struct rlimit){ 1 << 20, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &lim), 0);
	assert_int_equal(swap_open(&s), -EFBIG);
	assert_int_equal(s.fd, -1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
}

/* --- fork ---------------------------------------------------------------- */

static void child_looks(uint8_t *p, int go, int said)
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
	_exit(of_file(p, LEN) ? 4 : 0);
}

/* Neither sees what the other writes. */
static void a_child_has_its_own(void **state)
{
	uint8_t *p = map(LEN);
	struct swap_run run;
	struct swap_copy *copy;
	int go[2], said[2], status;
	pid_t pid;
	char c;

	(void)state;
	fill(p, LEN, 1);
	run = out(p, LEN);
	mprotect(p, PAGE, PROT_READ);
	mprotect(p, PAGE, PROT_READ | PROT_WRITE);
	assert_int_equal(pipe(go) | pipe(said), 0);
	copy = swap_copy(&file);
	assert_non_null(copy);
	memset(p + LEN / 2, 3, 1); /* between the copy and the fork: another thread's */
	pid = fork();
	if (!pid) {
		swap_child(copy);
		child_looks(p, go[0], said[1]);
	}
	swap_parent(copy);
	assert_int_equal(read(said[0], &c, 1), 1);
	assert_int_equal(p[LEN / 2], 3);
	expect(p, LEN / 2, 1);
	memset(p, 7, LEN);
	assert_int_equal(write(go[1], "", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(p[LEN - 1], 7);
	assert_true(swap_in(&file, &run));
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(said[i]);
	}
	munmap(p, LEN);
}

/* Better no memory than another's. */
static void no_memory_for_a_copy(void **state)
{
	uint8_t *p = map(LEN);
	struct swap_run run;
	struct swap_copy *copy;
	struct rlimit was, lim;
	int status;
	pid_t pid;

	(void)state;
	fill(p, LEN, 1);
	run = out(p, LEN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	lim = (struct rlimit){ 1 << 20, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &lim), 0);
	copy = swap_copy(&file);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	pid = fork();
	if (!pid) {
		unsigned char in;

		swap_child(copy);
		_exit(of_file(p, LEN) || mincore(p, PAGE, &in) || write(1, p, 1) != -1 ||
		      errno != EFAULT);
	}
	swap_parent(copy);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	expect(p, LEN, 1);
	assert_true(swap_in(&file, &run));
	munmap(p, LEN);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		T(there_and_back),
		T(holes_stay_holes),
		T(what_grows_meets_nobody),
		T(what_is_unmapped_goes),
		T(protection_stays),
		T(a_file_has_so_many),
		T(another_file_of_that_number),
		T(no_file_where_files_are_short),
		T(a_child_has_its_own),
		T(no_memory_for_a_copy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
