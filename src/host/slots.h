/* SPDX-License-Identifier: BSD-2-Clause */
/* slots.h - the range of slot numbers of a host's processes. */
#ifndef HOST_SLOTS_H
#define HOST_SLOTS_H

enum {
	SLOT_FIRST = 1,
	SLOT_LAST = 1022,
	SLOT_NAMED = 768, /* higher ones are the reserve's */
};

#endif
