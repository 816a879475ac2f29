/* SPDX-License-Identifier: BSD-2-Clause */
/* procmaps.h - the mappings of this process's memory from /proc, in ascending order.
 *
 * Nothing here allocates or is a cancellation point, so mappings, the heap's too, may be
 * changed while they are walked. */
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
	unsigned long inode; /* 0: no file */
	char perms[5];	     /* "rw-p" for private, "rw-s" for shared */
	/* Name of the file, cut to fit; or "[heap]" and the like; or "". */
	char name[256];
	char range[64]; /* the addresses as the kernel writes them */
};

struct procmaps {
	int fd; /* -1: /proc cannot be read, no mappings are shown */
	ssize_t n, at;
	char buf[4096];
};

void procmaps_open(struct procmaps *m);
/* Opens with the data for procmaps_flags(); the kernel then looks at every page. */
void procmaps_open_flags(struct procmaps *m);
bool procmaps_next(struct procmaps *m, struct procmap *out);
/* The VmFlags of the last mapping, from smaps: words of two letters, each followed by a
 * space, preceded by "pk " if the mapping has a protection key.  Returns false if they
 * are not known. */
bool procmaps_flags(struct procmaps *m, char flags[PROCMAP_FLAGS]);
void procmaps_close(struct procmaps *m);

/* Is all of [from, to), whole pages of which the first and the last are mapped, mapped,
 * whatever its protection?  No page is touched. */
bool mapped_all(uintptr_t from, uintptr_t to);
/* The same by the list in /proc, and does each of the mappings fit?  False if the list
 * cannot be read. */
bool mapped_all_so(uintptr_t from, uintptr_t to, bool (*fits)(const struct procmap *m));

#endif
