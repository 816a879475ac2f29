/* SPDX-License-Identifier: BSD-2-Clause */
/* report.h - writes what was found (check_report() of check.h) to the log, each check
 * once for each place. */
#ifndef CHECK_REPORT_H
#define CHECK_REPORT_H

#include <stdbool.h>

/* Forgets what was found, and reads a file of suppressions; "": none. abort_at_once:
 * after the first report. Returns 0, or -errno after an error line that names file and
 * line. */
int report_start(const char *suppressions, bool abort_at_once);

/* Writes how often things were found, and returns that number. */
unsigned long report_totals(void);

#endif
