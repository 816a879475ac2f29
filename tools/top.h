/* SPDX-License-Identifier: BSD-2-Clause */
/* top.h - how `urnic top' shows what it sees: top_model.h has the contents. */
#ifndef TOOLS_TOP_H
#define TOOLS_TOP_H

#include <stdio.h>

#include "seen.h"
#include "top_model.h"

/* Print a look. before: the look before it, from which rates come, or NULL. */
void top_print_text(FILE *out, const struct seen *now, const struct seen *before);
void top_print_json(FILE *out, const struct seen *now, const struct seen *before);
/* The text format of Prometheus, version 0.0.4. */
void top_print_prometheus(FILE *out, const struct seen *now, const struct seen *before);

/* Writes file in one step, so that a reader finds the old text or the new one: it is
 * written beside it under another name first. A file that is no regular one is written to
 * as it is. Returns 0 or -errno, and then the old file is as it was. */
int top_write(const char *file,
	      void (*print)(FILE *out, const struct seen *now, const struct seen *before),
	      const struct seen *now, const struct seen *before);

/* Shows the terminal view until the user quits. Returns the exit status. */
int top_screen(struct seen_watch *w, unsigned interval_ms);

#endif
