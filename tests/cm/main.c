/* SPDX-License-Identifier: BSD-2-Clause */
/* cm WHAT ADDRESS PORT [N or STEP] */
#include <string.h>

#include "cm.h"

int main(int argc, char **argv)
{
	const char *what = argc > 3 ? argv[1] : "", *last = argc > 4 ? argv[4] : "";
	unsigned port = argc > 3 ? (unsigned)atoi(argv[3]) : 0;

	if (!strcmp(what, "rules"))
		return rules(argv[2], port);
	if (!strcmp(what, "races"))
		return races(argv[2]);
	if (!strcmp(what, "forks"))
		return forks(argv[2], port);
	if (!strcmp(what, "hold"))
		return hold(argv[2], port);
	if (!strcmp(what, "refused"))
		return refused(argv[2], port);
	if (!strcmp(what, "serve"))
		return cycles_serve(argv[2], port, (unsigned)atoi(last));
	if (!strcmp(what, "ask"))
		return cycles_ask(argv[2], port, (unsigned)atoi(last));
	if (!strcmp(what, "crowd"))
		return crowd_serve(argv[2], port);
	if (!strcmp(what, "many"))
		return crowd_ask(argv[2], port, (unsigned)atoi(last));
	if (!strcmp(what, "leaving"))
		return crowd_leave(argv[2], port, last);
	if (!strcmp(what, "dying"))
		return deaths_serve(argv[2], port, last);
	if (!strcmp(what, "watch"))
		return deaths_ask(argv[2], port, last);
	fprintf(stderr, "cm rules|races|forks|hold|refused|serve|ask|crowd|many|leaving|dying|"
		"watch IP PORT [N|STEP]\n");
	return 2;
}
