/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric TEST serve|ask ADDRESS PORT: one end of a test of libfabric's verbs provider;
 * rdm-...: with ofi_rxm over it. */
#include "fabric.h"

/* clang-format off */
static const struct {
	const char *name;
	void (*run)(const char *ip, const char *port, bool serves);
} tests[] = {
	{ "cq-data", test_cq_data }, { "rma", test_rma }, { "inject", test_inject }, { "many", test_many },
	{ "shared", test_shared }, { "resources", test_resources },
	{ "refused", test_refused }, { "nobody", test_nobody },
	{ "shutdown", test_shutdown }, { "closed", test_closed },
	{ "rdm-tagged", test_rdm_tagged }, { "rdm-rma", test_rdm_rma },
	{ "rdm-peers", test_rdm_peers }, { "rdm-big", test_rdm_big },
};
/* clang-format on */

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 5 && i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (strcmp(argv[1], tests[i].name))
			continue;
		tests[i].run(argv[3], argv[4], !strcmp(argv[2], "serve"));
		return 0;
	}
	fputs("fabric TEST serve|ask ADDRESS PORT\n", stderr);
	return 2;
}
