/* SPDX-License-Identifier: BSD-2-Clause */
/* descriptors.h - does an input leave descriptors of this process open? */
#ifndef FUZZ_DESCRIPTORS_H
#define FUZZ_DESCRIPTORS_H

#include <dirent.h>
#include <stdbool.h>
#include <unistd.h>

#include "must.h"

static inline unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	MUST(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* The closer's thread (sys/closer.h) closes some of the descriptors. */
static inline bool are_closed(unsigned before)
{
	for (int i = 0; i < 100000; i++) {
		if (descriptors() == before)
			return true;
		usleep(100);
	}
	return false;
}

#endif
