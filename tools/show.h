/* SPDX-License-Identifier: BSD-2-Clause */
/* show.h - what commands share that print on standard output: JSON, and words in
 * colour. */
#ifndef TOOLS_SHOW_H
#define TOOLS_SHOW_H

#include <argp.h>
#include <jansson.h>

/* The option --json, for commands that have no other; their input is a bool. */
extern const struct argp_option show_options[];
error_t show_parse(int key, char *arg, struct argp_state *state);

/* Prints j and frees it. */
void show_json(json_t *j);

enum colour { PLAIN, BOLD, GREEN, YELLOW, RED };

/* What begins that colour; empty unless standard output is a terminal and the user wants
 * colours. */
const char *show_colour(enum colour c);

#endif
