/* SPDX-License-Identifier: BSD-2-Clause */
/* A fabric's answers to valid and to invalid requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/model.h"
#include "fabric_control.h"

static const char topology[] =
	"Switch 3 \"S-sw\" # \"m\xc3\xa4\xff\"\n[1] \"H-a\"[1]\n[2] \"H-b\"[2]\n\n"
	"Ca 1 \"H-a\"\n\nCa 2 \"H-b\"\n";

static struct topo topo;
static struct fabric *fabric;
static uint64_t now;
static struct control control = { .topo = &topo, .name = "test" };

static void deliver(void *ctx, uint32_t node, uint8_t port, const struct mad_pkt *pkt)
{
	(void)ctx;
	(void)node;
	(void)port;
	(void)pkt;
}

static enum fabric_take take(void *ctx, uint32_t node, uint8_t port,
			     const struct mad_pkt *pkt)
{
	(void)ctx;
	(void)node;
	(void)port;
	(void)pkt;
	return FABRIC_FULL;
}

static const struct fabric_ops ops = { .deliver = deliver, .take = take };

static int start(void **state)
{
	char err[TOPO_ERR];

	(void)state;
	now = 1;
	assert_int_equal(topo_parse(&topo, "t", topology, strlen(topology), err), 0);
	return fabric_new(&fabric, &topo, &ops, NULL);
}

static int end(void **state)
{
	(void)state;
	fabric_free(fabric);
	topo_free(&topo);
	return 0;
}

static json_t *ask_bytes(const char *ask, size_t n)
{
	size_t len;
	char *text = control_answer(&control, fabric, now, ask, n, &len);
	json_t *j;

	assert_non_null(text);
	j = json_loadb(text, len, 0, NULL);
	assert_true(json_is_object(j));
	free(text);
	return j;
}

static json_t *ask(const char *text)
{
	return ask_bytes(text, strlen(text));
}

static void wrong(const char *text, const char *why)
{
	json_t *j = ask(text);
	const char *error = json_string_value(json_object_get(j, "error"));

	assert_non_null(error);
	if (!strstr(error, why))
		fail_msg("%s: %s", text, error);
	json_decref(j);
}

/* The member `name' of port number `port' of node number `node' in the status. */
static json_t *member(unsigned node, unsigned port, const char *name)
{
	json_t *j = ask("{\"ask\": \"status\"}");
	json_t *n = json_array_get(json_object_get(j, "nodes"), node);
	json_t *p = json_array_get(json_object_get(n, "ports"), port);
	json_t *m = json_incref(json_object_get(p, name));

	json_decref(j);
	return m;
}

static void is_text(unsigned node, unsigned port, const char *name, const char *expected)
{
	json_t *m = member(node, port, name);

	assert_string_equal(json_string_value(m), expected);
	json_decref(m);
}

static void t_status(void **state)
{
	json_t *m;

	(void)state;
	is_text(0, 1, "state", "init");
	is_text(0, 1, "physical", "link up");
	is_text(0, 1, "speed", "4xEDR");
	is_text(0, 1, "peer", "H-a");
	is_text(0, 3, "speed", "");
	m = member(0, 3, "peer");
	assert_null(m);
	m = member(2, 0, "port"); /* an adapter has no port 0 */
	assert_int_equal(json_integer_value(m), 1);
	json_decref(m);
}

/* Packets that wait at an adapter's port for a program that takes none. */
static void t_summary(void **state)
{
	json_t *j = ask("{\"ask\": \"summary\"}");

	(void)state;
	assert_string_equal(json_string_value(json_object_get(j, "fabric")), "test");
	assert_int_equal(json_integer_value(json_object_get(j, "switches")), 1);
	assert_int_equal(json_integer_value(json_object_get(j, "adapters")), 2);
	assert_int_equal(json_integer_value(json_object_get(j, "links")), 2);
	assert_int_equal(json_integer_value(json_object_get(j, "active")), 0);
	assert_int_equal(json_integer_value(json_object_get(j, "programs")), 0);
	json_decref(j);
	fabric->node[0].port[2].pi.state = fabric->node[2].port[2].pi.state = PORT_ACTIVE;
	j = ask("{\"ask\": \"summary\"}");
	assert_int_equal(json_integer_value(json_object_get(j, "active")), 1);
	json_decref(j);
}

static void t_waiting(void **state)
{
	static const uint8_t bytes[1040];
	static struct fabric_data data[2]; /* the fabric has them until it is freed */
	json_t *m = member(1, 0, "waiting"), *w;

	(void)state;
	assert_null(m);
	fabric->node[1].port[1].pi.lid = 5;
	for (unsigned i = 0; i < 2; i++) {
		const struct mad_pkt pkt = { .data = &data[i],
					     .dlid = 5,
					     .slid = 5,
					     .pkey = PKEY_DEFAULT,
					     .dqpn = 0x4001 };

		data[i] = (struct fabric_data){ .bytes = bytes, .len = sizeof(bytes) };
		assert_int_equal(fabric_inject(fabric, 1, 1, &pkt), 0);
	}
	fabric_run(fabric, 1);
	now = 2000000001;
	m = member(1, 0, "waiting");
	assert_int_equal(json_array_size(m), 1);
	w = json_array_get(m, 0);
	assert_int_equal(json_integer_value(json_object_get(w, "vl")), 0);
	assert_true(json_is_true(json_object_get(w, "own")));
	assert_int_equal(json_integer_value(json_object_get(w, "packets")), 2);
	assert_int_equal(json_integer_value(json_object_get(w, "bytes")), 2 * 17 * 64);
	assert_true(json_number_value(json_object_get(w, "seconds")) == 2.0);
	json_decref(m);
}

static void t_link(void **state)
{
	(void)state;
	json_decref(ask("{\"ask\": \"link\", \"node\": \"sw\", \"port\": 2, \"up\": "
			"false}"));
	is_text(0, 2, "state", "down");
	is_text(2, 1, "state", "down");
	is_text(0, 1, "state", "init");
	json_decref(ask("{\"ask\": \"link\", \"node\": \"H-b\", \"port\": 2, \"up\": "
			"true}"));
	is_text(0, 2, "state", "init");
	is_text(2, 1, "state", "init");
}

static void ports_counted(const char *text, size_t expected)
{
	json_t *j = ask(text), *all = json_object_get(j, "ports");

	assert_int_equal(json_array_size(all), expected);
	assert_int_equal(json_object_size(
				 json_object_get(json_array_get(all, 0), "counters")),
			 21);
	json_decref(j);
}

static void t_counters(void **state)
{
	(void)state;
	ports_counted("{\"ask\": \"counters\"}", 4);
	ports_counted("{\"ask\": \"counters\", \"node\": \"sw\"}", 2);
	ports_counted("{\"ask\": \"counters\", \"node\": \"sw\", \"port\": 3}", 1);
	ports_counted("{\"ask\": \"counters\", \"node\": \"sw\", \"port\": 0}", 1);
}

static void t_wrong(void **state)
{
	static const char *const bad_links[] = {
		"{\"ask\": \"link\"}",
		"{\"ask\": \"link\", \"node\": \"sw\"}",
		"{\"ask\": \"link\", \"port\": 1, \"up\": true}",
		"{\"ask\": \"link\", \"node\": 1, \"port\": 1, \"up\": true}",
		"{\"ask\": \"link\", \"node\": \"sw\", \"port\": \"1\", \"up\": true}",
		"{\"ask\": \"counters\", \"port\": 1}",
	};

	(void)state;
	wrong("", "byte ");
	wrong("{", "byte ");
	wrong("[]", "expected an object");
	wrong("{}", "expected an object");
	wrong("{\"ask\": 1}", "expected an object");
	wrong("{\"ask\": \"x\", \"ask\": \"status\"}", "duplicate");
	wrong("{\"ask\": \"x\"}", "not 'x'");
	for (size_t i = 0; i < sizeof(bad_links) / sizeof(bad_links[0]); i++)
		wrong(bad_links[i], "expected \"node\" with a name");
	wrong("{\"ask\": \"link\", \"node\": \"sw\", \"port\": 1, \"up\": 1}",
	      "expected \"up\"");
	wrong("{\"ask\": \"link\", \"node\": \"sw\", \"port\": 3, \"up\": true}",
	      "there is no cable at port 3 of S-sw");
	wrong("{\"ask\": \"link\", \"node\": \"sw\", \"port\": 0, \"up\": true}",
	      "there is no cable");
	wrong("{\"ask\": \"link\", \"node\": \"a\", \"port\": 0, \"up\": true}",
	      "has no port 0");
	wrong("{\"ask\": \"counters\", \"node\": \"sw\", \"port\": 4294967297}",
	      "has no port 4294967297");
	wrong("{\"ask\": \"counters\", \"node\": \"sw\", \"port\": -1}",
	      "has no port -1");
	wrong("{\"ask\": \"counters\", \"node\": \"x\\u00e4\\u2028\"}",
	      "there is no node");
}

/* A valid request in which one byte is changed, for each byte and value. */
static void t_bytes(void **state)
{
	static const char right[] =
		"{\"ask\": \"counters\", \"node\": \"sw\", \"port\": 3}";
	char text[sizeof(right)];

	(void)state;
	for (size_t i = 0; i < strlen(right); i++) {
		for (unsigned b = 0; b < 256; b++) {
			memcpy(text, right, sizeof(right));
			text[i] = (char)b;
			json_decref(ask_bytes(text, strlen(right)));
		}
		json_decref(ask_bytes(right, i));
	}
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, start, end)
	const struct CMUnitTest tests[] = {
		TEST(t_status),	  TEST(t_summary), TEST(t_waiting), TEST(t_link),
		TEST(t_counters), TEST(t_wrong),   TEST(t_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
