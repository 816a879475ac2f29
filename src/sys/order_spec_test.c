/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "sys/order_spec.h"

static struct order_spec spec;
static char err[256];

static void good(const char *text)
{
	assert_int_equal(order_parse(text, &spec, err, sizeof(err)), 0);
}

static void bad(const char *text, const char *part)
{
	assert_int_equal(order_parse(text, &spec, err, sizeof(err)), -EINVAL);
	if (!strstr(err, part))
		fail_msg("\"%s\" is not in \"%s\"", part, err);
}

static void t_nothing(void **state)
{
	(void)state;
	good("");
	assert_true(!spec.write && !spec.delay && !spec.swap && !spec.one);
	assert_int_equal(spec.seed, 1);
}

static void t_each_key(void **state)
{
	(void)state;
	good("write=0.5,delay=2ms:0.25,swap=1,one,seed=7");
	assert_int_equal(spec.write, 500000);
	assert_int_equal(spec.delay, 250000);
	assert_int_equal(spec.delay_ns, 2000000);
	assert_int_equal(spec.swap, 1000000);
	assert_true(spec.one);
	assert_int_equal(spec.seed, 7);
	good("delay=1s");
	assert_int_equal(spec.delay, 1000000);
	assert_int_equal(spec.delay_ns, 1000000000);
	good("write=0.000001");
	assert_int_equal(spec.write, 1);
	good("delay=100us");
	assert_int_equal(spec.delay_ns, 100000);
}

static void t_wrong(void **state)
{
	static const char *const wrong[] = {
		"write",       "write=",     "write=2",	    "write=1.1",
		"write=-1",    "write=x",    "delay=5",	    "delay=2s",
		"delay=ms",    "delay=1ms:", "delay=1ms:2", "swap=.5",
		"one=1",       "seed=",	     "seed=-1",	    "seed=99999999999999999999",
		"one,seed=1x",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		bad(wrong[i], "is no item");
	bad("write=2",
	    "'write=2' is no item: it is write=P, where P is a probability from 0 "
	    "to 1, e.g. 0.5");
	bad("delay=2s", "TIME is 100us, 5ms or the like, 1s at most");
	bad("swap=1.5", "swap=P, where P is a probability from 0 to 1");
	bad("one=1", "'one=1' is no item: it is one, which has no value");
	bad("seed=4294967296", "seed=N, where N is a number from 0 to 4294967295");
	bad("wirte=1",
	    "unknown key 'wirte'; keys are write, delay, swap, one, seed; did you "
	    "mean write?");
	bad("one,one", "'one' is there twice");
	bad("write=0.5,seed=2,write=0.5", "'write' is there twice");
	bad(",", "unknown key");
	bad("one,", "unknown key");
	bad("write=0.1,write=0.1,write=0.1,write=0.1,write=0.1,write=0.1,write=0.1,write=0.1,"
	    "write=0.1,write=0.1,write=0.1,write=0.1,write=0.1",
	    "longer than 127 bytes");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_nothing),
		cmocka_unit_test(t_each_key),
		cmocka_unit_test(t_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
