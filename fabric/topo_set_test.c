/* SPDX-License-Identifier: BSD-2-Clause */
/* The file beside a topology: what it sets, and how errors in it are reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "fabric/topo.h"

static const char topology[] = "Switch 3 \"S-sw\"\n[1] \"H-a\"[1]\n[2] \"H-b\"[2]\n\n"
			       "Ca 1 \"H-a\" # \"the first\"\n\n"
			       "Ca 2 \"H-b\" # \"other\"\n\nCa 1 \"c\" # \"other\"\n";

static struct topo t;
static char err[TOPO_ERR];

static int set(const char *text)
{
	assert_int_equal(topo_parse(&t, "t", topology, strlen(topology), err), 0);
	return topo_set(&t, "f", text, strlen(text), err);
}

static void t_rates(void **state)
{
	(void)state;
	assert_int_equal(set("# all\n[sw]\nrate = 4xQDR ; slow\n\n [ \"the first\" ] \n"
			     "[H-b 2] # its end\n\trate=12xHDR\r\n"),
			 0);
	assert_int_equal(t.node[0].port[1].width, 2);
	assert_int_equal(t.node[0].port[1].speed, 7);
	assert_int_equal(t.node[0].port[1].ext, 0);
	assert_int_equal(t.node[0].port[3].width, 2);
	assert_int_equal(t.node[1].port[1].width, 2);
	assert_int_equal(t.node[0].port[2].width, 8);
	assert_int_equal(t.node[0].port[2].ext, 7);
	assert_int_equal(t.node[2].port[2].width, 8);
	assert_int_equal(t.node[2].port[1].width, 0);
	topo_free(&t);
}

static void t_addresses(void **state)
{
	(void)state;
	assert_int_equal(set("[a]\naddress = 127.1.0.1\naddress = 127.1.0.1\n"
			     "[b 2]\naddress = 10.0.0.255"),
			 0);
	assert_int_equal(t.node[1].port[1].address, 0x7f010001);
	assert_int_equal(t.node[2].port[2].address, 0x0a0000ff);
	assert_int_equal(t.node[2].port[1].address, 0);
	topo_free(&t);
}

/* Addresses that the file gives stay; the others are given out without duplicates;
 * switches get none. */
static void t_given_addresses(void **state)
{
	(void)state;
	assert_int_equal(set("[b 1]\naddress = 127.1.0.1\n"), 0);
	topo_give_addresses(&t, "default");
	assert_int_equal(t.node[0].port[1].address, 0);
	assert_int_equal(t.node[1].port[1].address, 0x7f010002);
	assert_int_equal(t.node[2].port[1].address, 0x7f010001);
	assert_int_equal(t.node[2].port[2].address, 0);
	assert_int_equal(t.node[3].port[1].address, 0x7f010003);
	topo_free(&t);
	assert_int_equal(set("[b 2]\naddress = 10.0.0.1\n"), 0);
	topo_give_addresses(&t, "other");
	assert_int_equal(t.node[1].port[1].address >> 24, 127);
	assert_in_range(t.node[1].port[1].address >> 16 & 255, 2, 254);
	assert_int_equal(t.node[1].port[1].address & 0xffff, 1);
	assert_int_equal(t.node[2].port[1].address & 0xffff, 2);
	topo_free(&t);
}

static void t_wrong(void **state)
{
	static const struct {
		const char *text, *err;
	} wrong[] = {
		{ "rate = 4xQDR", "f:1:1: expected a section, [NODE] or [NODE PORT], "
				  "not 'rate'" },
		{ "\nx", "f:2:1: expected a section, [NODE] or [NODE PORT], not 'x'" },
		{ "[", "f:1:2: expected the name of a node, not the end of the line" },
		{ "[]", "f:1:2: expected the name of a node of the topology, not ']'" },
		{ "[d]", "f:1:2: expected the name of a node of the topology, not 'd]'" },
		{ "[other]", "f:1:2: expected a name that only one node has, "
			     "not 'other]'" },
		{ "[a 2]", "f:1:4: expected the number of a port of that node, or ']', "
			   "not '2]'" },
		{ "[sw 0]", "f:1:5: expected the number of a port of that node, or ']', "
			    "not '0]'" },
		{ "[sw 3", "f:1:6: expected ']', not the end of the line" },
		{ "[sw] 3", "f:1:6: expected the end of the line, not '3'" },
		{ "[sw]\nspeed = 1",
		  "f:2:1: expected rate, address or a section, not 'speed'" },
		{ "[sw]\nrate 1", "f:2:6: expected '=', not '1'" },
		{ "[sw]\nrate = # 1", "f:2:8: expected a value, not '#'" },
		{ "[sw]\nrate = 4xqdr", "f:2:8: expected a rate such as 4xEDR, not "
					"'4xqdr'" },
		{ "[sw]\nrate = 4xEDR 1", "f:2:14: expected the end of the line, not "
					  "'1'" },
		{ "[sw]\naddress = 127.0.0.1",
		  "f:2:1: expected an address only in the section "
		  "of an adapter, not 'address'" },
		{ "[a]\naddress = 127.0.0.", "f:2:11: expected an IPv4 address, not "
					     "'127.0.0.'" },
		{ "[a]\naddress = 0.0.0.0", "f:2:11: expected an IPv4 address, not "
					    "'0.0.0.0'" },
		{ "[a]\naddress = 127.0.0.1\n[b]\naddress = 127.0.0.1",
		  "f:4:11: expected an address that no other adapter has, not "
		  "'127.0.0.1'" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(set(wrong[i].text), -EINVAL);
		assert_string_equal(err, wrong[i].err);
		topo_free(&t);
	}
}

/* Each byte of a good file replaced by any other, and the file cut at any place. */
static void t_bytes(void **state)
{
	static const char right[] = "[sw 1]\nrate=4xEDR\n[\"a\"]#x\naddress=127.1.0.1\n";
	char *text;

	(void)state;
	for (size_t i = 0; i < strlen(right); i++) {
		for (unsigned b = 0; b < 256; b++) {
			/* A copy without a NUL, so that ASan sees reads past the end. */
			text = malloc(strlen(right));
			memcpy(text, right, strlen(right));
			text[i] = (char)b;
			assert_int_equal(topo_parse(&t, "t", topology, strlen(topology),
						    err),
					 0);
			topo_set(&t, "f", text, b ? strlen(right) : i, err);
			topo_free(&t);
			free(text);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_rates),	     cmocka_unit_test(t_addresses),
		cmocka_unit_test(t_given_addresses), cmocka_unit_test(t_wrong),
		cmocka_unit_test(t_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
