/* SPDX-License-Identifier: BSD-2-Clause */
/* umad_own.h - what the files of libibumad.so.3 share. */
#ifndef ABI_UMAD_OWN_H
#define ABI_UMAD_OWN_H

#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))

struct plug_ca;

/* umad_place() finds the adapter of this process. Returns 0, or -errno after logging the
 * reason once; -ENODEV without a line if no adapter is configured. */
struct umad_place {
	const char *fabric, *hca;
};
int umad_place(struct umad_place *at, struct plug_ca *ca);

/* Finds the port that a program means by a name (NULL: any adapter) and a number (0: any
 * port). Returns 0, -ENODEV, -EIO, or the error of umad_place(). */
int umad_resolve(struct umad_place *at, const char *ca_name, int *port);

/* The same questions about RoCE devices, where this process has no adapter of a fabric
 * (umad_roce.c). */
struct umad_ca;
struct umad_port;
int umad_roce_names(char cas[][20 /* UMAD_CA_NAME_LEN */], int max);
int umad_roce_ca(const char *name, struct umad_ca *ca);
int umad_roce_port(const char *name, int num, struct umad_port *port);

#endif
