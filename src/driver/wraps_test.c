/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/wraps.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "driver/nic_own.h"
#include "net/link_testing.h"
#include "net/loop.h"
#include "sys/conf.h"

static struct nic nic;
static struct conf conf;
static char path[] = "/tmp/urnic-wraps-XXXXXX";

struct pair {
	struct link *near, *far;
};

static struct pair join(bool ordered, int rc)
{
	struct pair p;

	assert_int_equal(loop_pair(&p.near, &p.far, &(struct loop_conf){ 0 }), 0);
	assert_int_equal(wraps_put(&nic, &conf, &p.near, ordered), rc);
	return p;
}

static void part(struct pair p)
{
	p.near->ops->close(p.near);
	p.far->ops->close(p.far);
}

static long file_size(void)
{
	struct stat st;

	return stat(path, &st) ? -1 : (long)st.st_size;
}

static int begin(void **state)
{
	(void)state;
	nic.captures = NULL;
	list_init(&nic.core.contexts);
	conf = (struct conf){ 0 };
	return 0;
}

static void nothing_is_asked_for(void **state)
{
	struct link *near, *far, *was;

	(void)state;
	assert_null(wraps_why(&conf));
	assert_int_equal(loop_pair(&near, &far, &(struct loop_conf){ 0 }), 0);
	was = near;
	assert_int_equal(wraps_put(&nic, &conf, &near, false), 0);
	assert_ptr_equal(near, was);
	part((struct pair){ near, far });
}

static void faults(void **state)
{
	struct pair p;

	(void)state;
	snprintf(conf.fault, sizeof(conf.fault), "tx:nth=2");
	assert_string_equal(wraps_why(&conf), "URNIC_FAULT is set");
	p = join(false, 0);
	for (uint32_t i = 1; i <= 3; i++)
		assert_int_equal(test_send(p.near, i, 0), 1);
	assert_int_equal(test_recv(p.far, 0), 1);
	assert_int_equal(test_recv(p.far, 0), 3);
	part(p);
}

static void faults_of_a_link_that_keeps_order(void **state)
{
	(void)state;
	snprintf(conf.fault, sizeof(conf.fault), "reorder=0.5");
	part(join(false, 0));
	part(join(true, -EINVAL));
}

/* Does the file say this? */
static bool file_says(const char *words)
{
	char bytes[4096];
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(bytes, 1, sizeof(bytes), f) : 0;

	if (f)
		fclose(f);
	return memmem(bytes, n, words, strlen(words));
}

/* A packet that was lost before it was sent is there, and says so. */
static void a_capture_shows_what_the_wire_carried(void **state)
{
	struct pair p;
	long none;

	(void)state;
	snprintf(conf.pcap, sizeof(conf.pcap), "%s", path);
	snprintf(conf.fault, sizeof(conf.fault), "tx:drop=1");
	assert_string_equal(wraps_why(&conf), "URNIC_PCAP is set");
	p = join(false, 0);
	assert_non_null(nic.captures);
	none = file_size();
	assert_true(none > 0);
	assert_int_equal(test_send(p.near, 1, 0), 1);
	part(p);
	wraps_close(&nic);
	assert_true(file_size() > none);
	assert_true(file_says("fault=drop group=1"));
}

static void links_of_a_nic_share_the_file(void **state)
{
	const struct captures *first;
	struct pair p, q;
	long none;

	(void)state;
	snprintf(conf.pcap, sizeof(conf.pcap), "%s", path);
	p = join(false, 0);
	first = nic.captures;
	q = join(true, 0);
	assert_ptr_equal(nic.captures, first);
	none = file_size();
	part(q);
	assert_int_equal(test_send(p.near, 1, 0), 1);
	part(p);
	wraps_close(&nic);
	assert_true(file_size() > none);
}

static void a_file_that_cannot_be_written(void **state)
{
	(void)state;
	snprintf(conf.pcap, sizeof(conf.pcap), "/nowhere/to/be/found");
	snprintf(conf.fault, sizeof(conf.fault), "drop=1");
	part(join(false, -ENOENT));
	assert_null(nic.captures);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_is_asked_for, begin),
		cmocka_unit_test_setup(faults, begin),
		cmocka_unit_test_setup(faults_of_a_link_that_keeps_order, begin),
		cmocka_unit_test_setup(a_capture_shows_what_the_wire_carried, begin),
		cmocka_unit_test_setup(links_of_a_nic_share_the_file, begin),
		cmocka_unit_test_setup(a_file_that_cannot_be_written, begin),
	};
	int failed;

	close(mkstemp(path));
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}
