/* SPDX-License-Identifier: BSD-2-Clause */
/* bare.h - does the program have code that makes system calls by instructions of its own,
 * so that the preloaded library sees none of them? Known by that: Go's runtime. */
#ifndef DIRECT_BARE_H
#define DIRECT_BARE_H

#include <stdbool.h>
#include <stddef.h>

/* Asked again when a library has been loaded since. */
bool bare_calls(void);
/* Is Go's build id among these ELF notes? */
bool bare_notes(const void *notes, size_t len);

#endif
