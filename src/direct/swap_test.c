/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of turning private pages into file pages and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "direct/swap.h"

enum { PAGE = 4096, PAGES = 40, LEN = PAGES * PAGE };

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

/* Returns how many of the len bytes at p are mapped from the run's file. */
static uint64_t of_file(const struct swap_run *run, const uint8_t *p, size_t len)
{
	uint64_t lo = (uintptr_t)p, hi = lo + len, n = 0;
	struct procmap m;
	struct procmaps maps;

	procmaps_open(&maps);
	while (procmaps_next(&maps, &m))
		if (swap_has(run, &m) && m.lo < hi && lo < m.hi)
			n += (m.hi < hi ? m.hi : hi) - (m.lo > lo ? m.lo : lo);
	procmaps_close(&maps);
	return n;
}

static uint64_t file_takes(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static struct swap_run out(uint8_t *p, size_t len)
{
	struct swap_run run;

	assert_int_equal(swap_out((uintptr_t)p, (uintptr_t)p + len, &run), 0);
	assert_int_equal(run.lo, (uintptr_t)p);
	assert_int_equal(run.hi, (uintptr_t)p + len);
	assert_int_equal(of_file(&run, p, len), len);
	return run;
}

static void there_and_back(void **state)
{
	uint8_t *p = map(LEN), *other;
	struct swap_run run, was;

	(void)state;
	fill(p, LEN, 1);
	run = out(p, LEN);
	expect(p, LEN, 1);
	other = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, run.fd, 0);
	assert_ptr_not_equal(other, MAP_FAILED);
	expect(other, LEN, 1);
	fill(other, LEN, 2);
	expect(p, LEN, 2);
	was = run;
	assert_true(swap_in(&run, false));
	assert_int_equal(run.fd, -1);
	assert_int_equal(of_file(&was, p, LEN), 0);
	assert_false(fd_is(was.fd, &was.id));
	expect(p, LEN, 2);
	memset(other, 9, LEN); /* the copy is still memory, but no longer the run's */
	expect(p, LEN, 2);
	munmap(other, LEN);
	munmap(p, LEN);
}

/* Another process still has the file mapped or open: after the pages have gone back, and
 * if nobody else has mapped them, the file holds none of their bytes. */
static void it_leaves_nothing_in_the_file(void **state)
{
	(void)state;
	for (int alone = 0; alone < 2; alone++) {
		uint8_t *p = map(LEN);
		struct swap_run run;
		int theirs;

		fill(p, LEN, 1);
		run = out(p, LEN);
		theirs = dup(run.fd);
		assert_int_equal(file_takes(theirs), LEN);
		assert_true(swap_in(&run, alone));
		expect(p, LEN, 1);
		assert_int_equal(file_takes(theirs), alone ? 0 : LEN);
		close(theirs);
		munmap(p, LEN);
	}
}

/* Pages that were never touched take no memory, before and after the move. */
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
	assert_int_equal(file_takes(run.fd), PAGE);
	assert_int_equal(p[MUCH / 2], 5);
	p[3 * PAGE] = 6;
	assert_true(swap_in(&run, false));
	assert_int_equal(p[MUCH / 2], 5);
	assert_int_equal(p[3 * PAGE], 6);
	assert_int_equal(mincore(p, 2 * PAGE, in), 0);
	assert_int_equal(in[0] | in[1], 0);
	munmap(p, MUCH);
}

/* Memory that mremap() makes longer, in its place or elsewhere, continues with zeros,
 * not with another run's bytes. */
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
	assert_int_equal(of_file(&a, more, 3 * LEN), 3 * LEN);
	assert_true(swap_in(&a, false));
	assert_int_equal(of_file(&a, more, 3 * LEN), 0);
	expect(more, 3 * LEN, 3);
	assert_true(swap_in(&b, false));
	expect(q, LEN, 2);
	munmap(more, 3 * LEN);
	munmap(q, LEN);
}

/* Other memory that the program has mapped there since is left alone. */
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
	assert_int_equal(file_takes(run.fd), LEN);
	assert_true(swap_in(&run, false));
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
	assert_true(swap_in(&run, false));
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

/* The program has closed the run's descriptor and opened another file by its number. */
static void another_file_of_that_number(void **state)
{
	uint8_t *p = map(LEN);
	struct swap_run run;
	int fd = memfd_create("other", 0);

	(void)state;
	fill(p, LEN, 1);
	run = out(p, LEN);
	mprotect(p, PAGE, PROT_NONE);
	assert_int_equal(dup2(fd, run.fd), run.fd);
	assert_true(swap_in(&run, false));
	assert_int_equal(of_file(&run, p, LEN), 0);
	mprotect(p, PAGE, PROT_READ);
	expect(p, LEN, 1);
	assert_int_equal(lseek(fd, 0, SEEK_END), 0);
	assert_int_equal(fcntl(run.fd, F_GETFD), -1);
	close(fd);
	munmap(p, LEN);
}

static void no_file_where_files_are_short(void **state)
{
	uint8_t *p = map(LEN);
	struct swap_run run;
	struct rlimit was, lim;

	(void)state;
	fill(p, LEN, 1);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	lim = (struct rlimit){ 1 << 20, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &lim), 0);
	assert_int_equal(swap_out((uintptr_t)p, (uintptr_t)p + LEN, &run), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	expect(p, LEN, 1);
	munmap(p, LEN);
}

/* --- calls that fail half way --------------------------------------------- */

/* True: the next mmap() or mremap() that is to replace memory unmaps it, and fails. */
static bool fails;

static bool take(void *at, size_t len)
{
	if (!fails)
		return false;
	fails = false;
	assert_int_equal(munmap(at, len), 0);
	errno = ENOMEM;
	return true;
}

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t from)
{
	if (flags & MAP_FIXED && take(at, len))
		return MAP_FAILED;
	return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, from);
}

void *mremap(void *at, size_t len, size_t to_len, int flags, ...)
{
	va_list more;
	void *to;

	va_start(more, flags);
	to = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
	va_end(more);
	if (flags & MREMAP_FIXED && take(to, to_len))
		return MAP_FAILED;
	return (void *)syscall(SYS_mremap, at, len, to_len, flags, to);
}

/* The pages' bytes are in the file, so nothing is lost when replacing them fails. */
static void replacing_fails_half_way(void **state)
{
	uint8_t *p = map(LEN);
	struct swap_run run;

	(void)state;
	fill(p, LEN, 1);
	fails = true;
	run = out(p, LEN);
	assert_false(fails);
	expect(p, LEN, 1);
	fails = true;
	assert_false(swap_in(&run, false));
	assert_false(fails);
	expect(p, LEN, 1);
	assert_int_equal(of_file(&run, p, LEN), LEN);
	assert_true(swap_in(&run, false));
	expect(p, LEN, 1);
	munmap(p, LEN);
}

/* --- fork ---------------------------------------------------------------- */

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
	int go[2], said[2], status;
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
	pid = fork();
	if (!pid) {
		swap_child(&run, 1);
		child_looks(&run, p, go[0], said[1]);
	}
	swap_parent(&run);
	assert_int_equal(read(said[0], &c, 1), 1);
	assert_int_equal(p[LEN / 2], 3);
	expect(p, LEN / 2, 1);
	memset(p, 7, LEN);
	assert_int_equal(write(go[1], "", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
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
	int status;
	pid_t pid;

	(void)state;
	fill(p, LEN, 1);
	run = out(p, LEN);
	mprotect(p, PAGE, PROT_NONE);
	close(run.fd);
	swap_copy(&run);
	pid = fork();
	if (!pid) {
		swap_child(&run, 1);
		mprotect(p, PAGE, PROT_READ);
		for (size_t i = 0; i < LEN; i++)
			if (p[i] != (uint8_t)(1 + i * 7 + i / 251))
				_exit(1);
		_exit(0);
	}
	swap_parent(&run);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
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
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
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
	int status;
	pid_t pid;

	(void)state;
	fill(p, 2 * LEN, 1);
	run = out(p, 2 * LEN);
	swap_copy(&run);
	q = mmap(p, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		 -1, 0);
	assert_ptr_equal(q, p);
	fill(q, LEN, 4);
	pid = fork();
	if (!pid) {
		swap_child(&run, 1);
		for (size_t i = 0; i < 2 * LEN; i++)
			if (p[i] != (uint8_t)((i < LEN ? 4 : 1) + i * 7 + i / 251))
				_exit(1);
		_exit(of_file(&run, p, 2 * LEN) ? 2 : 0);
	}
	swap_parent(&run);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(swap_in(&run, false));
	munmap(p, 2 * LEN);
}

/* Memory that mremap() has made longer continues with zeros in the child, too. */
static void a_child_of_what_has_grown(void **state)
{
	uint8_t *p = map(LEN), *more;
	struct swap_run run;
	int status;
	pid_t pid;

	(void)state;
	fill(p, LEN, 1);
	run = out(p, LEN);
	more = mremap(p, LEN, 3 * LEN, MREMAP_MAYMOVE);
	assert_ptr_not_equal(more, MAP_FAILED);
	swap_copy(&run);
	assert_int_equal(run.copied, LEN);
	pid = fork();
	if (!pid) {
		swap_child(&run, 1);
		for (size_t i = 0; i < 3 * LEN; i++)
			if (more[i] != (i < LEN ? (uint8_t)(1 + i * 7 + i / 251) : 0))
				_exit(1);
		memset(more, 8, 3 * LEN);
		_exit(of_file(&run, more, 3 * LEN) ? 2 : 0);
	}
	swap_parent(&run);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
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
	int status;
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
	pid = fork();
	if (!pid) {
		unsigned char in;

		swap_child(&run, 1);
		_exit(of_file(&run, p, LEN) || mincore(p, PAGE, &in) ||
		      write(1, p, 1) != -1 || errno != EFAULT);
	}
	swap_parent(&run);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	expect(p, LEN, 1);
	assert_true(swap_in(&run, false));
	munmap(p, LEN);
}

int main(void)
{
#define T(f) cmocka_unit_test(f)
	const struct CMUnitTest tests[] = {
		T(there_and_back),
		T(it_leaves_nothing_in_the_file),
		T(holes_stay_holes),
		T(what_grows_meets_nobody),
		T(what_is_unmapped_goes),
		T(protection_stays),
		T(another_file_of_that_number),
		T(no_file_where_files_are_short),
		T(replacing_fails_half_way),
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
