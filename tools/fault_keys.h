/* SPDX-License-Identifier: BSD-2-Clause */
/* fault_keys.h - the language of faults as text for --help. */
#ifndef TOOLS_FAULT_KEYS_H
#define TOOLS_FAULT_KEYS_H

/* One paragraph, a key a line; to be freed.  NULL: no memory. */
char *fault_keys_text(void);

#endif
