/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids are made, get options, and are moved to another channel; refused calls say why. */
#include "rdmacm/id.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "rdmacm/bind.h"
#include "rdmacm/cma_event.h"
#include "rdmacm/connect.h"
#include "rdmacm/fix.h"
#include "rdmacm/resolve.h"
#include "sys/log_testing.h"

/* --- ids ----------------------------------------------------------------- */

static void port_spaces(void **state)
{
	struct cma_id *id;

	(void)state;
	assert_int_equal(cma_create(NULL, NULL, 0x1234, &id), -EINVAL);
	id = fix_id(NULL, RDMA_PS_UDP);
	assert_int_equal(id->id.qp_type, IBV_QPT_UD);
	assert_true(id->sync);
	assert_int_equal(cma_destroy(id), 0);
	id = fix_id(NULL, RDMA_PS_TCP);
	assert_int_equal(id->id.qp_type, IBV_QPT_RC);
	assert_int_equal(cma_destroy(id), 0);
}

static void options(void **state)
{
	struct cma_id *id = fix_id(NULL, RDMA_PS_TCP);
	uint8_t byte = 31;
	int on = 1;

	(void)state;
	assert_int_equal(cma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
					&byte, 1),
			 0);
	assert_int_equal(id->ack_timeout, 31);
	byte = 32;
	assert_int_equal(cma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
					&byte, 1),
			 -EINVAL);
	assert_int_equal(cma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1),
			 0);
	assert_int_equal(id->to.route.tclass, 32);
	assert_int_equal(cma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, 4),
			 -EINVAL);
	assert_int_equal(cma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on,
					4),
			 0);
	assert_true(id->afonly);
	id->state = CMA_ADDR;
	assert_int_equal(cma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on,
					4),
			 -EINVAL);
	assert_int_equal(cma_set_option(id, RDMA_OPTION_ID, 99, &on, 4), -ENOSYS);
	assert_int_equal(cma_set_option(id, RDMA_OPTION_IB, 1, &on, 4), -ENOSYS);
	assert_int_equal(cma_set_option(id, 99, 1, &on, 4), -ENOSYS);
	assert_int_equal(cma_destroy(id), 0);
}

static void ece(void **state)
{
	struct cma_id *id = fix_id(NULL, RDMA_PS_TCP);
	struct ibv_ece e = { .options = 1, .comp_mask = 1 };

	(void)state;
	assert_int_equal(cma_set_ece(id, &e), -EINVAL); /* of no vendor */
	e.vendor_id = 1;
	assert_int_equal(cma_set_ece(id, &e), -EINVAL); /* an unknown field */
	e.comp_mask = 0;
	assert_int_equal(cma_set_ece(id, &e), 0);
	assert_int_equal(cma_get_ece(id, &e), 0);
	assert_int_equal(e.vendor_id, 0); /* the peer's */
	assert_int_equal(cma_get_ece(id, NULL), -EINVAL);
	assert_int_equal(cma_destroy(id), 0);
}

static void it_moves_to_a_channel_and_back(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = fix_id(NULL, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(cma_migrate(id, NULL), -EINVAL);
	assert_int_equal(cma_post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL), 0);
	assert_int_equal(cma_migrate(id, &ch->ch), 0);
	assert_false(id->sync);
	fix_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(cma_migrate(id, NULL), 0);
	assert_true(id->sync);
	assert_ptr_not_equal(id->id.channel, &ch->ch);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

/* A request that no program has read ends with its listener. */
static void it_stops(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = fix_id(ch, RDMA_PS_TCP);

	(void)state;
	fix_ask(id, "192.0.2.1", false);
	cma_stop(id);
	assert_string_equal(fix_said(), "close");
	assert_int_equal(cma_post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL), -ECANCELED);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

/* Private data is cut to the room that an event has. */
static void long_private_data(void **state)
{
	static const uint8_t data[512] = { 1, 2, 3 };
	const struct cm_param peer = { .private = data, .private_len = sizeof(data) };
	const struct cm_event ev = { .type = CM_EV_REJECTED, .peer = &peer };
	struct cma_id *id = fix_id(NULL, RDMA_PS_TCP);
	struct cma_event *e;

	(void)state;
	assert_true(id->owner.event(&id->owner, &ev));
	e = cma_take((struct cma_channel *)id->id.channel);
	assert_int_equal(e->peer.private_len, CMA_PRIVATE_MAX);
	assert_memory_equal(e->peer.private, data, CMA_PRIVATE_MAX);
	cma_looked_at(e);
	cma_done(e);
	assert_int_equal(cma_destroy(id), 0);
}

/* --- calls that are refused ---------------------------------------------- */

static char text[1024];

/* The log has one line for a refusal, which ends with `want`. */
static void says(const struct cma_id *id, const char *call, const struct sockaddr *a,
		 int rc, const char *want)
{
	LOGGED(text, "info", cma_say_refused(id, call, a, rc));
	assert_non_null(strstr(text, call));
	assert_non_null(strstr(text, want));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void it_names_address_and_reason(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = fix_id(ch, RDMA_PS_TCP);
	struct sockaddr_in a = fix_addr("192.0.2.77", 7471);

	(void)state;
	says(id, "rdma_bind_addr", (struct sockaddr *)&a, -EADDRINUSE,
	     "rdma_bind_addr (192.0.2.77, port 7471) refused: Address already in use: ");
	says(NULL, "rdma_create_id", NULL, -ENOMEM, "refused: Cannot allocate memory\n");
	says(id, "rdma_connect", NULL, cma_not_now(id), "the id is new");
	says(id, "rdma_connect", NULL, -EINVAL, "an argument is invalid"); /* forgotten */
	LOGGED(text, "warn", cma_say_refused(id, "rdma_listen", NULL, -EINVAL));
	assert_string_equal(text, "");
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

/* Calls that come too early or too late, or ask for too much, say so. */
static void calls_say_why(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = fix_id(ch, RDMA_PS_TCP);
	struct rdma_conn_param much = { .responder_resources = 200 };
	struct sockaddr_in a = fix_addr("127.0.0.1", 7471);

	(void)state;
	says(id, "x", NULL, cma_connect(id, NULL), "rdma_resolve_addr and its event");
	says(id, "x", NULL, cma_resolve_route(id, 1), "the id is new");
	says(id, "x", NULL, cma_accept(id, NULL), "the id is new");
	assert_int_equal(cma_resolve_addr(id, NULL, (struct sockaddr *)&a), 0);
	fix_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	says(id, "x", NULL, cma_bind(id, (struct sockaddr *)&a), "address is resolved");
	says(id, "x", NULL, cma_connect(id, NULL), "rdma_resolve_route and its event");
	assert_int_equal(cma_resolve_route(id, 1), 0);
	fix_ack(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	says(id, "x", NULL, cma_connect(id, &much), "max_qp_rd_atom");
	says(id, "x", NULL, cma_listen(id, 1), "rdma_connect comes next");
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(port_spaces, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(options, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(ece, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(it_moves_to_a_channel_and_back, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(it_stops, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(long_private_data, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(it_names_address_and_reason, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(calls_say_why, fix_begin, fix_end),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
