/* SPDX-License-Identifier: BSD-2-Clause */
/* settings.h - is what is configured any good?  The library says so when a
 * device is opened, which is late: the tools ask before. */
#ifndef TOOLS_SETTINGS_H
#define TOOLS_SETTINGS_H

#include "sys/conf.h"

/* conf_read(), and whether the faults can be understood and the files that are
 * named can be written.  0, or -errno with why in err. */
int settings_read(struct conf *conf, struct conf_origin *origin, char err[CONF_ERR]);

#endif
