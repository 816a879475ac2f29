/* SPDX-License-Identifier: BSD-2-Clause */
/* program.h - checks whether a program can be run with urnic's libraries. */
#ifndef TOOLS_PROGRAM_H
#define TOOLS_PROGRAM_H

#include <stddef.h>

/* Finds the file that execvp() would run for name.  Returns 0, -ENOENT or -EACCES. */
int program_find(const char *name, char *path, size_t size);

/* Returns 0, or -ENOEXEC if the dynamic loader would not load urnic's libraries into the
 * program at path; `why' says the reason: static, set-user-ID, 32-bit, another C library.
 * Of a script it checks the interpreter. */
int program_check(const char *path, char *why, size_t size);

#endif
