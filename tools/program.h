/* SPDX-License-Identifier: BSD-2-Clause */
/* program.h - can a program be run with our libraries? */
#ifndef TOOLS_PROGRAM_H
#define TOOLS_PROGRAM_H

#include <stddef.h>

/* Where execvp() would find name.  0, -ENOENT or -EACCES. */
int program_find(const char *name, char *path, size_t size);

/* 0, or -ENOEXEC with the reason why the dynamic loader would not load our
 * libraries into the program at path: static, set-user-ID, 32-bit, another C
 * library.  For a script its interpreter is looked at. */
int program_check(const char *path, char *why, size_t size);

#endif
