/* SPDX-License-Identifier: BSD-2-Clause */
/* settings.h - reads and checks the configuration before a program runs; the library
 * itself reports errors only when a device is opened. */
#ifndef TOOLS_SETTINGS_H
#define TOOLS_SETTINGS_H

#include "sys/conf.h"

/* As conf_read(); also checks that the faults can be parsed and that the named files can
 * be written, and that of suppressions be read.  Returns 0, or -errno with the reason in
 * err. */
int settings_read(struct conf *conf, struct conf_origin *origin, char err[CONF_ERR]);

/* The option of a key: with - where the key has _. */
const char *settings_option(const char *key);

#endif
