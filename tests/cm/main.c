/* SPDX-License-Identifier: BSD-2-Clause */
/* cm WHAT ADDRESS PORT [N or STEP] */
#include <string.h>

#include "cm.h"

int main(int argc, char **argv)
{
	const char *what = argc > 3 ? argv[1] : "", *last = argc > 4 ? argv[4] : "";
	unsigned port = argc > 3 ? (unsigned)atoi(argv[3]) : 0;

	cm_sleeps_inside = getenv("SLEEPS_INSIDE") != NULL;
	if (!strcmp(what, "rules"))
		return rules(argv[2], port);
	if (!strcmp(what, "wakes"))
		return wakes_at_once(argv[2], port);
	if (!strcmp(what, "source-port"))
		return source_port(argv[2], port);
	if (!strcmp(what, "races"))
		return races(argv[2]);
	if (!strcmp(what, "bad"))
		return bad(argv[2], port);
	if (!strcmp(what, "cancel"))
		return cancel(argv[2], port);
	if (!strcmp(what, "threads"))
		return threads(argv[2], port);
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
	if (!strcmp(what, "at-once-serve"))
		return at_once_serve(argv[2], port, (unsigned)atoi(last));
	if (!strcmp(what, "at-once"))
		return at_once_ask(argv[2], port, (unsigned)atoi(last));
	if (!strcmp(what, "in-turn-serve"))
		return in_turn_serve(argv[2], port, (unsigned)atoi(last));
	if (!strcmp(what, "in-turn"))
		return in_turn_ask(argv[2], port, (unsigned)atoi(last));
	if (!strcmp(what, "late-serve"))
		return late_serve(argv[2], port, (unsigned)atoi(last));
	if (!strcmp(what, "late"))
		return late_ask(argv[2], port, (unsigned)atoi(last));
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
	fputs("cm rules|wakes|source-port|bad|races|cancel|threads|forks|hold|refused|crowd IP PORT\n"
	      "cm serve|ask|at-once-serve|at-once|in-turn-serve|in-turn|late-serve|late|many IP "
	      "PORT N\n"
	      "cm dying|watch|leaving IP PORT STEP\n",
	      stderr);
	return 2;
}
