/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "fabric/topo.h"
#include "sys/rand.h"

static int parse(struct topo *t, const char *text, char err[TOPO_ERR])
{
	return topo_parse(t, "f", text, strlen(text), err);
}

static void good(struct topo *t, const char *text)
{
	char err[TOPO_ERR];

	if (parse(t, text, err))
		fail_msg("%s", err);
}

/* A topology as ibnetdiscover prints it. */
static void t_ibnetdiscover(void **state)
{
	static const char text[] =
		"#\n# Topology file: generated on Sat Jan  4 2025\n#\n"
		"# Initiated from node 0000000000100000 port 0000000000100001\n\n"
		"vendid=0x2c9\ndevid=0xc738\nsysimgguid=0x2c903000a\n"
		"switchguid=0x2c9030001(2c9030001)\n"
		"Switch\t36 \"S-00000002c9030001\"\t\t# \"leaf 1\" enhanced port 0 lid 7 lmc 0\n"
		"[1]\t\"H-00000002c9030010\"[2](2c9030012) \t\t# \"node a HCA-1\" lid 2 4xQDR\n"
		"[36]\t\"H-00000002c9030020\"[1](2c9030021) \t\t# \"node b HCA-1\" lid 4 4xEDR\n"
		"\nvendid=0x2c9\ndevid=0x1003\nsysimgguid=0x2c9030013\n"
		"caguid=0x2c9030010\n"
		"Ca\t2 \"H-00000002c9030010\"\t\t# \"node a HCA-1\"\n"
		"[2](2c9030012) \t\"S-00000002c9030001\"[1]\t\t# lid 2 lmc 1 \"leaf 1\" lid 7 4xQDR\n"
		"\ncaguid=0x2c9030020\n"
		"Ca\t1 \"H-00000002c9030020\"\t\t# \"node b HCA-1\"\n"
		"[1](2c9030021) \t\"S-00000002c9030001\"[36]\t\t# lid 4 lmc 0 \"leaf 1\" lid 7 4xEDR\n";
	struct topo t;
	uint32_t at;

	(void)state;
	good(&t, text);
	assert_int_equal(t.nodes, 3);
	assert_int_equal(t.node[0].type, TOPO_SWITCH);
	assert_int_equal(t.node[0].ports, 36);
	assert_string_equal(t.node[0].desc, "leaf 1");
	assert_true(t.node[0].enhanced0);
	assert_true(t.node[0].guid == 0x2c9030001 &&
		    t.node[0].port[0].guid == 0x2c9030001);
	assert_true(t.node[0].sys_guid == 0x2c903000a);
	assert_int_equal(t.node[0].port[0].lid, 7);
	assert_int_equal(t.node[0].vendor, 0x2c9);
	assert_int_equal(t.node[0].device, 0xc738);
	assert_int_equal(t.node[0].port[1].peer, 1);
	assert_int_equal(t.node[0].port[1].peer_port, 2);
	assert_int_equal(t.node[0].port[1].width, 2);
	assert_int_equal(t.node[0].port[1].speed, 7);
	assert_int_equal(t.node[0].port[1].ext, 0);
	assert_int_equal(t.node[0].port[36].ext, 3);
	assert_int_equal(t.node[1].port[2].lid, 2);
	assert_int_equal(t.node[1].port[2].lmc, 1);
	assert_int_equal(t.node[1].device, 0x1003);
	assert_true(t.node[1].port[2].guid == 0x2c9030012);
	assert_true(t.node[1].port[1].guid == 0x2c9030011);
	assert_int_equal(t.node[1].port[1].peer_port, 0);
	assert_true(t.node[2].sys_guid == 0x2c9030020);

	assert_int_equal(topo_find_ca(&t, "00000002c9030020", &at), 0);
	assert_int_equal(at, 2);
	assert_int_equal(topo_find_ca(&t, "node a HCA-1", &at), 0);
	assert_int_equal(at, 1);
	assert_int_equal(topo_find_ca(&t, "0x2c9030020", &at), 0);
	assert_int_equal(at, 2);
	assert_int_equal(topo_find_ca(&t, "leaf 1", &at), -ENOENT);
	assert_int_equal(topo_find_ca(&t, "", &at), -ENOENT);
	assert_int_equal(topo_find_ca(&t, "#0", &at), 0);
	assert_int_equal(at, 1);
	assert_int_equal(topo_find_ca(&t, "#1", &at), 0);
	assert_int_equal(at, 2);
	/* The number modulo the number of adapters. */
	assert_int_equal(topo_find_ca(&t, "#4294967296", &at), 0);
	assert_int_equal(at, 1);
	assert_int_equal(topo_find_ca(&t, "#", &at), -ENOENT);
	assert_int_equal(topo_find_ca(&t, "#1x", &at), -ENOENT);
	assert_int_equal(topo_find_node(&t, "#1", &at), -ENOENT);
	assert_int_equal(topo_find_node(&t, "leaf 1", &at), 0);
	assert_int_equal(at, 0);
	assert_int_equal(topo_find_node(&t, "00000002c9030020", &at), 0);
	assert_int_equal(at, 2);
	assert_int_equal(topo_find_node(&t, "", &at), -ENOENT);
	topo_free(&t);
}

/* An adapter is found by its ID first, then by its ID without H-, then by its
 * description. */
static void t_find(void **state)
{
	static const char text[] = "Switch 2 \"S-x\"\n\nCa 1 \"H-x\" # \"y\"\n\n"
				   "Ca 1 \"y\"\n\nCa 1 \"z\" # \"w\"\n\n"
				   "Ca 1 \"H-z\" # \"w\"\n\nCa 1 \"S-y\"\n\n"
				   "Ca 1 \"0x200000\"\n";
	char err[TOPO_ERR];
	struct topo t;
	uint32_t at = 9;

	(void)state;
	assert_int_equal(topo_parse(&t, "t", text, strlen(text), err), 0);
	assert_int_equal(topo_find_node(&t, "x", &at), -ENOTUNIQ);
	assert_int_equal(topo_find_ca(&t, "x", &at), 0);
	assert_int_equal(at, 1);
	assert_int_equal(topo_find_node(&t, "S-x", &at), 0);
	assert_int_equal(at, 0);
	assert_int_equal(topo_find_node(&t, "y", &at), 0);
	assert_int_equal(at, 2);
	assert_int_equal(topo_find_node(&t, "z", &at), 0);
	assert_int_equal(at, 3);
	assert_int_equal(topo_find_node(&t, "w", &at), -ENOTUNIQ);
	assert_int_equal(topo_find_ca(&t, "S-x", &at), -ENOENT);
	assert_true(t.node[0].guid == 0x200000);
	assert_int_equal(topo_find_node(&t, "0x200000", &at), 0);
	assert_int_equal(at, 6);
	topo_free(&t);
}

/* ibsim's short form: a link is given at one end only, and GUIDs are numbered. */
static void t_short(void **state)
{
	static const char text[] =
		"Switch\t8 \"Switch1\"\n[1]\t\"Hca1\"[1]\tw=1 s=3\n"
		"[2]\t\"Hca2\"[2]\r\n# a comment ends nothing\n[3] \"Switch2\"[3]\n\n"
		"Switch 8 \"Switch2\"\n[3]\t\"Switch1\"[3]\n\n"
		"Hca\t2 \"Hca1\"\n\nHca 2 \"Hca2\" # two words\n[1] \"Switch2\"\n";
	struct topo t;

	(void)state;
	good(&t, text);
	assert_int_equal(t.nodes, 4);
	assert_true(t.node[0].guid == 0x200000 && t.node[1].guid == 0x200001);
	assert_true(t.node[2].guid == 0x100000 && t.node[3].guid == 0x100003);
	assert_true(t.node[3].port[2].guid == 0x100005);
	assert_int_equal(t.node[2].port[1].peer_port, 1);
	/* The width is given at the other end. */
	assert_int_equal(t.node[2].port[1].width, 1);
	assert_int_equal(t.node[0].port[1].speed, 3);
	assert_int_equal(t.node[1].port[1].peer, 3);
	assert_int_equal(t.node[1].port[1].peer_port, 1);
	assert_string_equal(t.node[0].desc, "Switch1");
	assert_string_equal(t.node[3].desc, "two words");
	topo_free(&t);
}

/* Opens the files that t_modules() includes. */
static int open_one(const char *file, char **text, size_t *len)
{
	static const char *const files[][2] = {
		{ "leaf", "module = \"one\"\nSwitch 4 \"leaf\"\n[1] \"H-a\"[1]\n"
			  "@[4] \"up\" w=1\n\nCa 1 \"H-a\"\n[1] \"leaf\"[1]\n" },
		{ "again", "include \"again\"\n" },
		{ "wrong", "\nCa 1 \"b\"\n[1] \"x\"\n" },
		{ "worse", "Ca 0\n" },
	};

	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (strcmp(files[i][0], file) != 0)
			continue;
		*text = strdup(files[i][1]);
		*len = strlen(*text);
		return 0;
	}
	return -ENOENT;
}

static int parse_files(struct topo *t, const char *text, char err[TOPO_ERR])
{
	return topo_parse_files(t, "f", text, strlen(text), open_one, err);
}

/* Modules as ibsim reads them; test_ibsim.py has ibsim read such a file. */
static void t_modules(void **state)
{
	static const char text[] =
		"include \"leaf\"\nCa 1 \"H-b\"\n[1] \"leaf\"[2]\n\n"
		"module=\"two\"\nSwitch 2 \"leaf\"\n[2] \"one#leaf\"[3]\n[1] \"@x\"\n\n"
		"Ca 1 \"H-a\"\n@[1] \"x\"\n\nmodule=\"\" # none\n"
		"Switch 1 \"spine\"\n[1] \"one@up\"\n";
	char err[TOPO_ERR];
	struct topo t;

	(void)state;
	if (parse_files(&t, text, err))
		fail_msg("%s", err);
	assert_int_equal(t.nodes, 6);
	assert_string_equal(t.node[0].id, "one#leaf");
	assert_string_equal(t.node[1].desc, "one#H-a");
	/* A module that is set in an included file stays set after it. */
	assert_string_equal(t.node[2].id, "one#H-b");
	assert_int_equal(t.node[2].port[1].peer, 0);
	assert_string_equal(t.node[3].id, "two#leaf");
	assert_int_equal(t.node[3].port[2].peer, 0);
	assert_int_equal(t.node[3].port[1].peer, 4);
	assert_int_equal(t.node[4].port[1].peer, 3);
	assert_string_equal(t.node[5].id, "spine");
	assert_int_equal(t.node[5].port[1].peer, 0);
	assert_int_equal(t.node[5].port[1].peer_port, 4);
	/* The width in the line that gives the alias. */
	assert_int_equal(t.node[5].port[1].width, 1);
	topo_free(&t);
}

static void t_wrong_files(void **state)
{
	static const char *const bad[][2] = {
		{ "\ninclude \"none\"\n", "f:2:1: none: No such file or directory" },
		{ "include \"again\"\n",
		  "again:1:1: expected fewer included files: at most 8" },
		{ "include \"wrong\"\n",
		  "wrong:3:1: expected the name of a node, not \"x\"" },
		{ "include \"worse\"\n", "worse:1:5: expected the number of ports" },
		{ "include \"leaf\"\nx\n", "f:2:1: expected Switch" },
		{ "include \"leaf\"\n[1] \"leaf\"[2]\n", "f:2:1: expected a node" },
		{ "Ca 1 \"one#b\"\n", "f:1:13" },
		{ "include \"leaf\"\nCa 1 \"H-a\"\n",
		  "f:2:1: expected a new name: leaf:6 has a node \"one#H-a\"" },
		{ "Ca 1 \"a\"\n[1] \"leaf\"[4]\n\nmodule=\"one\"\n"
		  "Switch 1 \"s\"\n[1] \"one@up\"\ninclude \"leaf\"\n",
		  "f:2:1: expected the name of a node, not \"leaf\"" },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char err[TOPO_ERR];
		struct topo t;

		assert_int_equal(parse_files(&t, bad[i][0], err), -EINVAL);
		if (strncmp(err, bad[i][1], strlen(bad[i][1])) != 0)
			fail_msg("%u: %s", i, err);
	}
}

/* clang-format off */
static const struct { const char *text, *err; } wrong[] = {
	{ "", "f:1:1: expected at least one node" },
	{ "Swich 8 \"a\"\n", "f:1:1: expected Switch, Ca, Rt," },
	{ "Switch \"a\"\n", "f:1:8: expected the number of ports, 1 to 254, not '\"a\"'" },
	{ "Switch 255 \"a\"\n", "f:1:8: expected the number of ports, 1 to 254" },
	{ "Switch 0 \"a\"\n", "expected the number of ports" },
	{ "Switch 4 a\n", "f:1:10: expected the node's name in quotes, not 'a'" },
	{ "Switch 4 \"a\n", "f:1:10: expected the node's name in quotes" },
	{ "Switch 4 \"\"\n", "expected the node's name in quotes" },
	{ "[1] \"a\"[1]\n", "f:1:1: expected a node (Switch, Ca, Rt) before its ports" },
	{ "Ca 1 \"a\"\n[2] \"b\"[1]\n", "f:2:2: expected a port of this node" },
	{ "Ca 1 \"a\"\n[x] \"b\"[1]\n", "f:2:2: expected a port of this node" },
	{ "Ca 1 \"a\"\n[1 \"b\"[1]\n", "f:2:4: expected ], not '\"b\"[1]'" },
	{ "Ca 1 \"a\"\n[1] b[1]\n", "f:2:5: expected the name of the node at the other" },
	{ "Ca 1 \"a\"\n[1]\n", "f:2:4: expected the name of the node at the other end, in"
	  " quotes, not the end of the line" },
	{ "Ca 1 \"a\"\n[1] \"b\"[0]\n", "expected the port at the other end" },
	{ "Ca 1 \"a\"\n[1] \"b\"[1\n", "expected the port at the other end" },
	{ "Ca 1 \"a\"\n[1] \"b\"[1]\n", "f:2:1: expected the name of a node, not \"b\"" },
	{ "Ca 1 \"a\"\n[1](xyz) \"b\"[1]\n", "expected the port's GUID" },
	{ "Ca 1 \"a\"\n[1] \"b\"[1] w=9x\n", "expected w=, s=, e=, # or the end" },
	{ "Ca 1 \"a\"\n[1] \"b\"[1] w=32\n", "expected a width" },
	{ "Ca 1 \"a\"\n[1] \"b\"[1] s=8\n", "expected a speed" },
	{ "Ca 1 \"a\"\n[1] \"b\"[1] q=8\n", "f:2:12: expected w=, s=, e=" },
	{ "Ca 1 \"a\"\n\nCa 1 \"a\"\n", "f:3:1: expected a new name: f:1 has" },
	{ "Ca 1 \"a\"\n[1] \"a\"[1]\n", "is linked to itself" },
	{ "Ca 1 \"a\"\n[1] \"b\"[2]\n\nCa 1 \"b\"\n", "expected a port that \"b\" has" },
	{ "Ca 1 \"a\"\n[1] \"b\"[1]\n\nSwitch 2 \"b\"\n[1] \"c\"[1]\n\nCa 1 \"c\"\n",
	  "f:5:1: expected \"a\"[1], which \"b\" port 1 is linked to already" },
	{ "Ca 1 \"a\"\n[1] \"b\"[1]\n\nSwitch 2 \"b\"\n[2] \"a\"[1]\n",
	  "f:5:1: expected a free port: \"a\" port 1 is linked to \"b\"[1]" },
	{ "caguid=0x5\nCa 1 \"a\"\n\ncaguid=0x5\nCa 1 \"b\"\n",
	  "f:5:1: expected another GUID: 0x5 is \"a\"'s" },
	{ "caguid=0x5(77)\nCa 1 \"a\"\n\ncaguid=0x9(77)\nCa 1 \"b\"\n", "0x77 is \"a\"'s" },
	{ "caguid=\n", "f:1:8: expected a GUID, as 0x2c903000013, not the end" },
	{ "caguid 0x5\n", "f:1:8: expected = or +" },
	{ "caguid=0x11111111111111111\n", "expected a GUID" },
	{ "vendid=0x1000000\n", "expected a number" },
	{ "width=32\n", "expected a number" },
	{ "do link\n", "f:1:1: expected a node or a GUID (do is for ibsim's" },
	{ "module \"x\"\n", "f:1:8: expected =" },
	{ "module=x\n", "f:1:8: expected the module's name in quotes" },
	{ "module=\"a#b\"\n", "without # and @" },
	{ "include \"x\"\n", "f:1:1: expected a topology that includes no file" },
	{ "include x\n", "f:1:9: expected the name of a file in quotes" },
	{ "Ca 1 \"a#b\"\n", "without # and @" },
	{ "Ca 1 \"a@b\"\n", "without # and @" },
	{ "@[1] \"b\"\n", "f:1:1: expected a node" },
	{ "Ca 1 \"a\"\n@[2] \"b\"\n", "f:2:3: expected a port of this node" },
	{ "Ca 1 \"a\"\n@[1] \"b@\"\n", "without # and @" },
	{ "Ca 2 \"a\"\n@[1] \"b\"\n@[2] \"b\"\n",
	  "f:3:1: expected a new name: f:2 has a port \"@b\"" },
	{ "Ca 2 \"a\"\n@[1] \"b\"\n[1] \"a\"[2]\n[2] \"@c\"\n",
	  "f:4:1: expected the name of a port, not \"@c\"" },
	{ "Ca 1 \"a\"\n@[1] \"b\"\n[1] \"@b\"\n", "is linked to itself" },
	{ "Ca 1 \"a\x01\"\n", "f:1:6: expected the node's name in quotes" },
	{ "Ca 1 \"a\" # \"\x01\"\n\x02\n", "f:2:1: expected Switch, Ca, Rt, switchguid=, caguid=,"
	  " sysimgguid=, vendid=, devid=, width=, speed=, extspeed= or #, not byte 0x02" },
};
/* clang-format on */

static void t_wrong(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char err[TOPO_ERR];
		struct topo t = { 0 };

		assert_int_equal(parse(&t, wrong[i].text, err), -EINVAL);
		if (!strstr(err, wrong[i].err))
			fail_msg("%u: %s", i, err);
		assert_null(t.node);
	}
}

/* A topology that is cut short, or has a byte changed, is either read or refused. */
static void t_spoilt(void **state)
{
	static const char text[] =
		"switchguid=0x1(1)\nSwitch 3 \"s\" # \"d\" base port 0 lid 1 lmc 0\n"
		"[1](2) \"a\"[1](3) w=1 s=1 e=1 # \"x\" lid 2 4xQDR\n\nCa 1 \"a\"\n"
		"[1] \"s\"[1] # lid 2 lmc 0 \"d\" lid 1 4xQDR\n";
	char buf[sizeof(text)], err[TOPO_ERR];
	struct prng r;

	(void)state;
	rand_seed(&r, 3);
	for (unsigned i = 0; i < 20000; i++) {
		size_t len = i < sizeof(text) ? i : sizeof(text) - 1;
		struct topo t;

		memcpy(buf, text, sizeof(text));
		for (unsigned k = 0; i >= sizeof(text) && k < 1 + i % 3; k++)
			buf[rand_below(&r, len)] = (char)rand_u64(&r);
		if (topo_parse(&t, "f", buf, len, err) == 0)
			topo_free(&t);
		else
			assert_non_null(strstr(err, ": expected "));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_ibnetdiscover), cmocka_unit_test(t_find),
		cmocka_unit_test(t_short),	   cmocka_unit_test(t_wrong),
		cmocka_unit_test(t_modules),	   cmocka_unit_test(t_wrong_files),
		cmocka_unit_test(t_spoilt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
