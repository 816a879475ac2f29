/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_sysfs.h - which file a program gets that names one of /sys (docs/dev/sysfs.md).
 *
 * A function that takes a path calls libc's with each path that look_for() and look_on()
 * give until it succeeds:
 *
 *	struct look l;
 *
 *	look_for(&l, AT_FDCWD, path);
 *	do
 *		rc = fn(l.path);
 *	while (rc && look_on(&l));
 */
#ifndef TOOLS_PRELOAD_SYSFS_H
#define TOOLS_PRELOAD_SYSFS_H

#include "preload.h"

#include <stddef.h>

/* Signal handlers may open files on a stack of 8 KB: buffers are as long as paths in the
 * tree, not as long as any path. */
enum { SYS_MAX = 512, ROOT_MAX = 256 };

struct look {
	const char *path; /* to try now; the program's own, or in buf */
	int dir, saved;	  /* errno as it was */
	bool last;
	const char *given;
	char buf[ROOT_MAX + SYS_MAX];
};

/* Begins; dir: as of openat(). */
void look_for(struct look *l, int dir, const char *path);
/* libc's call has failed with errno: is there another path to try? If so errno is as it
 * was before the first. */
bool look_on(struct look *l);

/* For functions that cannot be called twice: looks on until the file is there. */
void look_until_there(struct look *l);

/* If the path lies in a process's tree (a child may have got its directory there),
 * changes it to what the program knows: below /sys. */
void show_as_sys(char *path);
/* The process's directory is in the tree now, and so will be that of programs that it
 * starts or becomes: they hold the tree, too. */
void keep_for_programs(void);

/* Is name, which is absent, an entry of a GID table that is not used?  Linux lets a
 * program open it, and then says EINVAL. */
bool is_unused_entry(const char *path);

#endif
