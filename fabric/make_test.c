/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "fabric/make.h"

/* clang-format off */
static const struct { const char *spec; unsigned switches, cas, links; } rows[] = {
	{ "star:1", 1, 1, 1 }, { "star:254", 1, 254, 254 },
	{ "ring:1", 1, 1, 1 }, { "ring:2", 2, 2, 3 }, { "ring:6,2", 6, 12, 18 },
	{ "mesh:3,4", 12, 12, 17 + 12 }, { "mesh:1,5,3", 5, 15, 4 + 15 },
	{ "torus:3,4", 12, 12, 24 + 12 }, { "torus:2,3,4,2", 24, 48, 12 + 24 + 24 + 48 },
	{ "clos:4,2,3", 6, 12, 8 + 12 },
	{ "fattree:4,2", 8, 16, 16 + 16 }, { "fattree:2,3", 12, 8, 16 + 8 },
	{ "fattree:3,1", 1, 3, 3 }, { "fattree:18,2", 36, 324, 324 + 324 },
	{ "dragonfly:1,1,1", 2, 2, 1 + 2 },
	{ "dragonfly:4,2,2", 36, 72, 9 * 6 + 36 + 72 },
};
/* clang-format on */

/* Checks the number of switches and adapters, and that the topology is connected. */
static void check(const struct topo *t, unsigned i)
{
	unsigned switches = 0, ends = 0, reached = 1;
	uint32_t *queue = calloc(t->nodes, sizeof(*queue));
	uint8_t *seen = calloc(t->nodes, 1);

	for (uint32_t n = 0; n < t->nodes; n++) {
		switches += t->node[n].type == TOPO_SWITCH;
		for (unsigned k = 1; k <= t->node[n].ports; k++)
			ends += t->node[n].port[k].peer_port != 0;
	}
	assert_int_equal(switches, rows[i].switches);
	assert_int_equal(t->nodes - switches, rows[i].cas);
	assert_int_equal(ends, 2 * rows[i].links);
	seen[0] = 1;
	for (uint32_t at = 0; at < reached; at++) {
		const struct topo_node *n = &t->node[queue[at]];

		for (unsigned k = 1; k <= n->ports; k++) {
			if (!n->port[k].peer_port || seen[n->port[k].peer])
				continue;
			seen[n->port[k].peer] = 1;
			queue[reached++] = n->port[k].peer;
		}
	}
	assert_int_equal(reached, t->nodes);
	free(queue);
	free(seen);
}

/* A printed topology is read back as the same topology. */
static void t_rules(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char err[TOPO_ERR], *text = NULL;
		size_t len = 0;
		struct topo t, again;
		FILE *f = open_memstream(&text, &len);

		assert_true(make_is(rows[i].spec));
		if (make_topo(&t, rows[i].spec, err))
			fail_msg("%s", err);
		make_print(f, &t);
		fclose(f);
		if (topo_parse(&again, "text", text, len, err))
			fail_msg("%s: %s", rows[i].spec, err);
		check(&again, i);
		free(text);
		topo_free(&t);
		topo_free(&again);
	}
}

static void t_wrong(void **state)
{
	/* clang-format off */
	static const char *const specs[] = {
		"star", "star:", "star:0", "star:1,2", "star:x", "star:1x", "star: 1",
		"star:-1", "star:255", "ring:1,2,3", "fattree:4", "fattree:4,2,1",
		"fattree:256,3", "fattree:2,65536", "torus:65536,65536,65536",
		"clos:300,2,2", "dragonfly:60,60,60", "star:99999999999999999999",
		"star:70000", "file.net", "",
	};
	/* clang-format on */

	(void)state;
	for (unsigned i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		char err[TOPO_ERR] = "";
		struct topo t;

		assert_int_equal(make_topo(&t, specs[i], err), -EINVAL);
		assert_non_null(strstr(err, ": expected "));
	}
	assert_false(make_is("file.net"));
	assert_false(make_is("starling:1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_rules),
		cmocka_unit_test(t_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
