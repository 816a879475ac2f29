/* SPDX-License-Identifier: BSD-2-Clause */
/* sysfs_tree_test.c - rounds of writing a tree: what stays, what goes, what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/sysfs_tree.h"

struct fix {
	char top[40], root[60];
	struct tree t;
};

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	strcpy(f->top, "/tmp/sysfs-tree-XXXXXX");
	assert_non_null(mkdtemp(f->top));
	snprintf(f->root, sizeof(f->root), "%s/tree", f->top);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	tree_remove(f->top);
	free(f);
	return 0;
}

static const char *text_of(const struct fix *f, const char *name)
{
	static char text[80];
	char path[120];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", f->root, name);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return NULL;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	assert_true(n >= 0);
	text[n] = '\0';
	return text;
}

/* A round that writes a/one, and a/b/two unless two is NULL. */
static int put_round(struct fix *f, const char *one, const char *two)
{
	size_t was;

	tree_begin(&f->t, f->root, false);
	was = tree_enter(&f->t, "a");
	tree_file(&f->t, "one", "%s", one);
	if (two) {
		size_t at = tree_enter(&f->t, "b");

		tree_file(&f->t, "two", "%s", two);
		tree_link(&f->t, "up", "../one");
		tree_leave(&f->t, at);
	}
	tree_leave(&f->t, was);
	return tree_end(&f->t);
}

/* The time that the file system gives to a file that is written now. */
static struct timespec time_of_file(const struct fix *f)
{
	struct stat st;
	char path[80];
	int fd;

	snprintf(path, sizeof(path), "%s/probe", f->top);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
	assert_int_equal(stat(path, &st), 0);
	return st.st_ctim;
}

/* Waits until the clock of the file system, which counts in ticks, has moved. */
static void pass_tick(const struct fix *f)
{
	struct timespec first = time_of_file(f), now;

	do
		now = time_of_file(f);
	while (now.tv_sec == first.tv_sec && now.tv_nsec == first.tv_nsec);
}

static void a_round_replaces_the_last(void **state)
{
	struct fix *f = *state;

	assert_int_equal(put_round(f, "1", "2"), 0);
	assert_string_equal(text_of(f, "a/one"), "1\n");
	assert_string_equal(text_of(f, "a/b/up"), "1\n");
	pass_tick(f);
	assert_int_equal(put_round(f, "3", NULL), 0);
	assert_string_equal(text_of(f, "a/one"), "3\n");
	assert_null(text_of(f, "a/b/two"));
	assert_null(text_of(f, "a/b"));
}

static void an_empty_folder_stays_while_rounds_have_it(void **state)
{
	struct fix *f = *state;
	char path[80];

	snprintf(path, sizeof(path), "%s/bus/0", f->root);
	for (int round = 0; round < 4; round++) {
		tree_begin(&f->t, f->root, false);
		if (round < 3)
			tree_leave(&f->t, tree_enter_path(&f->t, "bus/0"));
		assert_int_equal(tree_end(&f->t), 0);
		assert_int_equal(access(path, F_OK), round < 3 ? 0 : -1);
		pass_tick(f);
	}
	*strrchr(path, '/') = '\0';
	assert_int_equal(access(path, F_OK), -1);
}

static void a_live_round_writes_what_changes(void **state)
{
	struct fix *f = *state;
	size_t was;

	assert_int_equal(put_round(f, "1", "2"), 0);
	tree_begin(&f->t, f->root, true);
	was = tree_enter(&f->t, "a");
	tree_file(&f->t, "one", "5");
	tree_leave(&f->t, was);
	assert_int_equal(tree_end(&f->t), 0);
	assert_string_equal(text_of(f, "a/one"), "5\n");
	assert_string_equal(text_of(f, "a/b/two"), "2\n");
}

static void a_folder_of_others_is_left_alone(void **state)
{
	struct fix *f = *state;
	char path[80];
	int fd;

	assert_int_equal(mkdir(f->root, 0755), 0);
	snprintf(path, sizeof(path), "%s/theirs", f->root);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	close(fd);
	assert_int_equal(put_round(f, "1", "2"), -ENOTEMPTY);
	assert_non_null(text_of(f, "theirs"));
	assert_null(text_of(f, "a/one"));
	assert_null(text_of(f, ".urnic"));
	unlink(path);
	assert_int_equal(put_round(f, "1", "2"), 0);
}

static void a_folder_where_others_write_is_refused(void **state)
{
	struct fix *f = *state;

	assert_int_equal(put_round(f, "1", "2"), 0);
	assert_int_equal(chmod(f->root, 01777), 0);
	assert_int_equal(put_round(f, "3", "4"), -EPERM);
	assert_string_equal(text_of(f, "a/one"), "1\n");
	assert_int_equal(chmod(f->root, 0755), 0);
	if (geteuid() != 0)
		return;
	assert_int_equal(chown(f->root, 1, 1), 0);
	assert_int_equal(put_round(f, "3", "4"), -EPERM);
	assert_string_equal(text_of(f, "a/one"), "1\n");
	assert_int_equal(chown(f->root, 0, 0), 0);
	assert_int_equal(put_round(f, "3", "4"), 0);
}

static void nothing_stays_of_a_failed_round(void **state)
{
	static const char *const bad[] = { "", ".", "..", ".x", "a/b", "/a" };
	struct fix *f = *state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		for (int how = 0; how < 3; how++) {
			tree_begin(&f->t, f->root, false);
			tree_file(&f->t, "good", "1");
			if (how == 0)
				tree_file(&f->t, bad[i], "1");
			else if (how == 1)
				tree_link(&f->t, bad[i], "good");
			else
				tree_enter(&f->t, bad[i]);
			tree_file(&f->t, "after", "1");
			assert_int_equal(tree_end(&f->t), -EBADMSG);
			assert_int_equal(access(f->root, F_OK), -1);
		}
	}
}

/* The path of the error is told, of what could not be made. */
static void the_first_error_is_told(void **state)
{
	struct fix *f = *state;
	char want[80];
	int fd;

	assert_int_equal(put_round(f, "1", NULL), 0);
	snprintf(want, sizeof(want), "%s/a/b", f->root);
	fd = open(want, O_WRONLY | O_CREAT, 0644);
	close(fd);
	assert_int_equal(put_round(f, "2", "3"), -ENOTDIR);
	assert_int_equal(strncmp(f->t.path, want, strlen(want)), 0);
	snprintf(f->root, sizeof(f->root), "%s/none/tree", f->top);
	assert_int_equal(put_round(f, "1", NULL), -ENOENT);
	assert_string_equal(f->t.path, f->root);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_round_replaces_the_last),
		TEST(an_empty_folder_stays_while_rounds_have_it),
		TEST(a_live_round_writes_what_changes),
		TEST(a_folder_of_others_is_left_alone),
		TEST(a_folder_where_others_write_is_refused),
		TEST(nothing_stays_of_a_failed_round),
		TEST(the_first_error_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
