/* SPDX-License-Identifier: BSD-2-Clause */
/* asker.h - a command that has asked this process for something, and how it is answered:
 * at once or later. driver/asked.h says the rest. */
#ifndef DRIVER_ASKER_H
#define DRIVER_ASKER_H

#include <stddef.h>
#include <stdint.h>

#include "host/host.h"

struct asker {
	struct host *host;
	uint16_t slot;
	uint32_t serial;
};

/* Answers: error is 0 or -errno; the bytes are what the kind gives, or text that explains
 * the error. A command that does not read its connection, or has ended, gets none. The
 * turn must be held. */
void asker_tell(const struct asker *by, int error, const void *bytes, size_t len);

#endif
