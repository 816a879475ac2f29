/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/refused.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "rdmacm/bind.h"
#include "rdmacm/connect.h"
#include "rdmacm/fix.h"
#include "rdmacm/resolve.h"
#include "sys/log_testing.h"

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
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_names_address_and_reason, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(calls_say_why, fix_begin, fix_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
