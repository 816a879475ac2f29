/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of turning private pages into file pages and back. */
#include "direct/swap_fix.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t file_takes(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
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
		assert_true(swap_in(&run, alone ? SWAP_ALONE : 0));
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

/* The VmFlags of the mapping at p. */
static void flags_at(const uint8_t *p, char flags[PROCMAP_FLAGS])
{
	struct procmaps maps;
	struct procmap m;

	flags[0] = '\0';
	procmaps_open_flags(&maps);
	while (procmaps_next(&maps, &m))
		if (m.lo <= (uintptr_t)p && (uintptr_t)p < m.hi)
			assert_true(procmaps_flags(&maps, flags));
	procmaps_close(&maps);
}

/* What the program has said of the file's pages holds for the private ones. */
static void what_was_said_of_them_stays_said(void **state)
{
	uint8_t *p = map(LEN);
	struct swap_run run;
	char flags[PROCMAP_FLAGS];

	(void)state;
	fill(p, LEN, 1);
	run = out(p, LEN);
	/* Under a sanitizer mlock() does nothing. */
	assert_int_equal(syscall(SYS_mlock, p, PAGE), 0);
	assert_int_equal(madvise(p + PAGE, PAGE, MADV_DONTDUMP), 0);
	assert_int_equal(madvise(p + 2 * PAGE, PAGE, MADV_DONTFORK), 0);
	assert_true(swap_in(&run, SWAP_MARKED));
	assert_int_equal(of_file(&run, p, LEN), 0);
	expect(p, LEN, 1);
	flags_at(p, flags);
	assert_non_null(strstr(flags, "lo "));
	flags_at(p + PAGE, flags);
	assert_non_null(strstr(flags, "dd "));
	flags_at(p + 2 * PAGE, flags);
	assert_non_null(strstr(flags, "dc "));
	flags_at(p + 3 * PAGE, flags);
	assert_null(strstr(flags, "lo "));
	assert_null(strstr(flags, "dd "));
	munmap(p, LEN);
}

/* Has the kernel hold a page, as for direct I/O into it. Returns the end of a pipe by
 * which it is let go. */
static int hold(uint8_t *p, int *other)
{
	struct iovec v = { p, PAGE };
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(vmsplice(ends[1], &v, 1, 0), PAGE);
	*other = ends[1];
	return ends[0];
}

/* Pages that the kernel holds stay the file's, with all that the program has said of
 * them, and are private as soon as the kernel has let them go. */
static void what_the_kernel_holds_stays(void **state)
{
	uint8_t *p = map(3 * LEN);
	char flags[PROCMAP_FLAGS];
	struct swap_run run, was;
	int ends[2];

	(void)state;
	fill(p, 3 * LEN, 1);
	run = out(p + LEN, LEN);
	assert_int_equal(madvise(p + LEN, PAGE, MADV_DONTDUMP), 0);
	was = run;
	ends[0] = hold(p + LEN + PAGE, &ends[1]);
	assert_false(swap_in(&run, SWAP_MARKED | SWAP_PINNED));
	assert_int_equal(of_file(&run, p, 3 * LEN), LEN);
	assert_true(fd_is(run.fd, &run.id));
	flags_at(p + LEN, flags);
	assert_non_null(strstr(flags, "dd "));
	assert_non_null(strstr(flags, "sh "));
	expect(p, 3 * LEN, 1);
	close(ends[0]);
	close(ends[1]);
	fill(p, 3 * LEN, 2);
	assert_true(swap_in(&run, SWAP_MARKED | SWAP_PINNED));
	assert_int_equal(of_file(&was, p, 3 * LEN), 0);
	expect(p, 3 * LEN, 2);
	munmap(p, 3 * LEN);
}

/* The kernel does not tell of pages that another process has mapped, too. */
static void what_others_have_mapped_stays(void **state)
{
	uint8_t *p = map(LEN);
	struct swap_run run;
	int status;
	pid_t pid;

	(void)state;
	fill(p, LEN, 1);
	run = out(p, LEN);
	pid = fork(); /* has the mapping of its parent */
	if (!pid)
		for (;;)
			pause();
	assert_false(swap_in(&run, SWAP_PINNED));
	assert_int_equal(of_file(&run, p, LEN), LEN);
	expect(p, LEN, 1);
	fill(p, LEN, 2);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(swap_in(&run, SWAP_PINNED));
	expect(p, LEN, 2);
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
	assert_int_equal(swap_out((uintptr_t)p, (uintptr_t)p + LEN, &run, NULL), -EFBIG);
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

/* The same with a file that takes no stores any more, since it was lent for reading: what
 * the program stores afterwards is not in the file. */
static void replacing_lent_pages_fails_half_way(void **state)
{
	uint8_t *p = map(LEN);
	struct swap_run run;
	pid_t pid;

	(void)state;
	fill(p, LEN, 1);
	run = out(p, LEN);
	assert_true(swap_lend(&run, false));
	fails = true;
	assert_false(swap_in(&run, 0));
	assert_false(fails);
	expect(p, LEN, 1);
	fill(p, LEN, 2);
	swap_copy(&run);
	pid = forked(&run);
	if (!pid) {
		_exit(p[0] != 2);
	}
	ends_well(pid);
	assert_true(swap_in(&run, 0));
	assert_int_equal(of_file(&run, p, LEN), 0);
	expect(p, LEN, 2);
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
		T(what_was_said_of_them_stays_said),
		T(what_the_kernel_holds_stays),
		T(what_others_have_mapped_stays),
		T(no_file_where_files_are_short),
		T(replacing_fails_half_way),
		T(replacing_lent_pages_fails_half_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
