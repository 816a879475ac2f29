/* SPDX-License-Identifier: BSD-2-Clause */
/* rs WHAT ADDRESS PORT [HOW] */
#include <string.h>

#include "rs.h"

int main(int argc, char **argv)
{
	const char *what = argc > 3 ? argv[1] : "";
	unsigned port = argc > 3 ? (unsigned)atoi(argv[3]) : 0;

	if (!strcmp(what, "bad"))
		return bad(argv[2], port);
	if (!strcmp(what, "rules"))
		return rules(argv[2], port);
	if (!strcmp(what, "datagrams"))
		return datagrams(argv[2], port);
	if (!strcmp(what, "strangers"))
		return strangers(argv[2], port);
	if (!strcmp(what, "cancel"))
		return cancel(argv[2], port);
	if (!strcmp(what, "lives"))
		return lives(argv[2], port);
	if (!strcmp(what, "dying"))
		return deaths_serve(argv[2], port, argc > 4 ? argv[4] : "");
	if (!strcmp(what, "watch"))
		return deaths_ask(argv[2], port);
	fprintf(stderr,
		"rs bad|rules|datagrams|strangers|cancel|lives|dying|watch IP PORT [HOW]\n");
	return 2;
}
