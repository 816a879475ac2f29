/* SPDX-License-Identifier: BSD-2-Clause */
/* procmaps.h - what lies in this process's memory, in ascending order, as /proc has it.
 *
 * Nothing is allocated, and no thread is cancelled in here: mappings may be changed, the
 * heap's too, while they are gone through. */
#ifndef SYS_PROCMAPS_H
#define SYS_PROCMAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROCMAP_FLAGS = 160 };

/* A mapping: the bytes [lo, hi), from offset on in its file. */
struct procmap {
	uint64_t lo, hi, offset;
	unsigned major, minor;
	unsigned long inode; /* 0: of no file */
	char perms[5];	     /* as "rw-p": private, as "rw-s": shared */
	char name[256];	     /* of the file, as far as it fits, or as "[heap]", or "" */
	char range[64];	     /* the addresses as the kernel writes them */
};

struct procmaps {
	int fd; /* -1: it cannot be read, and has none */
	ssize_t n, at;
	char buf[4096];
};

void procmaps_open(struct procmaps *m);
/* ... with what procmaps_flags() wants, for which the kernel looks at every page. */
void procmaps_open_flags(struct procmaps *m);
bool procmaps_next(struct procmaps *m, struct procmap *out);
/* What the program or the kernel has said of the last mapping: VmFlags of smaps, words
 * of two letters with a space behind each, and "pk " if it has a protection key.  False:
 * it cannot be told. */
bool procmaps_flags(struct procmaps *m, char flags[PROCMAP_FLAGS]);
void procmaps_close(struct procmaps *m);

#endif
