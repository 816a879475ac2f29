/* SPDX-License-Identifier: BSD-2-Clause */
/* fd.h - descriptors of ours keep out of the program's way. */
#ifndef SYS_FD_H
#define SYS_FD_H

/* Move fd to a high number, close-on-exec, below 1024 (programs may select()
 * on some of ours): programs that close or count the low ones do not meet it.
 * Returns the new number, or fd as it was where there is no such number; a
 * negative fd is handed through. */
int fd_raise(int fd);

#endif
