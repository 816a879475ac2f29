/* SPDX-License-Identifier: BSD-2-Clause */
/* procmaps.h - what lies in this process's memory: /proc/self/maps, line by line. */
#ifndef SYS_PROCMAPS_H
#define SYS_PROCMAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A mapping: the bytes [lo, hi), from offset on in its file. */
struct procmap {
	uint64_t lo, hi, offset;
	unsigned major, minor;
	unsigned long inode; /* 0: of no file */
	char perms[5];	     /* as "rw-p": private, as "rw-s": shared */
	char name[256];	     /* of the file, or as "[heap]", or "" */
	char range[64];	     /* the addresses as the kernel writes them */
};

struct procmaps {
	FILE *file;
	char *line;
	size_t size;
};

void procmaps_open(struct procmaps *m); /* one that cannot be read has no lines */
bool procmaps_next(struct procmaps *m, struct procmap *out);
void procmaps_close(struct procmaps *m);

#endif
