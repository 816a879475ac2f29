/* SPDX-License-Identifier: BSD-2-Clause */
/* umad.h - between the files of libibumad.so.3. */
#ifndef ABI_UMAD_H
#define ABI_UMAD_H

#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))

struct plug_ca;

/* The adapter that this process stands at.  0, or -errno that has been logged
 * once; -ENODEV without a word where none is configured. */
struct umad_place {
	const char *fabric, *hca;
};
int umad_place(struct umad_place *at, struct plug_ca *ca);

/* Which port a program means by a name (NULL: any) and a number (0: any). */
int umad_resolve(struct umad_place *at, const char *ca_name, int *port);

#endif
