/* SPDX-License-Identifier: BSD-2-Clause */
/* sysfs.h - the files that Linux would have of urnic's devices in /sys
 * (docs/dev/sysfs.md). One description of a device and one function that writes it serve
 * the preload library, `urnic sysfs' and `urnic fabric sysfs'. */
#ifndef DRIVER_SYSFS_H
#define DRIVER_SYSFS_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/sysfs_tree.h"
#include "verbs/device.h"

struct sysfs_dev;

/* Writes the counters of a port: into the present folder the files that Linux has in
 * counters/ or, if hw, in hw_counters/. */
typedef void sysfs_counters(struct tree *t, const struct sysfs_dev *d, unsigned port,
			    bool hw);

struct sysfs_dev {
	const char *name, *desc;
	const char *uverbs; /* NULL: verbs programs do not see it */
	const char *netdev; /* NULL: none, it is a fabric's adapter */
	struct identity id;
	bool iwarp;
	uint64_t guid, sys_guid; /* network order */
	unsigned index;		 /* a number of its own, of the made-up PCI device */
	unsigned ports;
	const struct port *port; /* of each port */
	sysfs_counters *counters;
	const char *fabric, *node; /* for counters */
	const uint64_t *sum;	   /* the same, of a RoCE device */
};

struct sysfs {
	struct tree t;
	unsigned umads; /* written so far */
};

/* Surround a round of sysfs_put(); root and live: see tree_begin(). */
void sysfs_begin(struct sysfs *s, const char *root, bool live);
void sysfs_put(struct sysfs *s, const struct sysfs_dev *d);
/* Returns 0, or -errno; then s->t.path is the path that could not be written. */
int sysfs_end(struct sysfs *s);

/* Writes an adapter of a fabric. Returns 0 or the -errno of fabric/port/plug.h. index:
 * its number among the adapters that are written. */
int sysfs_put_adapter(struct sysfs *s, const char *fabric, const char *hca,
		      const struct identity *id, unsigned index, const char *uverbs);

/* What a call of sysfs_write() makes new: the tree, with the counters as they were last
 * read, or their values, or both. */
enum { SYSFS_TREE = 1, SYSFS_COUNTERS = 2 };

/* Writes the devices of this process, as ibv_get_device_list() has them, but says
 * nothing of those that are not there: who reads /sys may want none. Returns 0, or -errno
 * with the path, if any, in where. One thread at a time calls it. */
int sysfs_write(const char *root, unsigned what, char where[PATH_MAX]);
/* In the child of a fork, which may have come amid sysfs_write() of another thread. */
void sysfs_forked(void);

/* The folder of the device's PCI function below /sys, e.g.
 * devices/pci0000:00/0000:00:03.0: that of its interface, else one that is made up, below
 * the host's first bridge. */
void sysfs_pci_path(const struct sysfs_dev *d, char path[PATH_MAX]);
/* Fills that folder, which is entered. */
void sysfs_pci_put(struct tree *t, const struct sysfs_dev *d, const char *path);
/* Writes the other paths that lead to the folder: bus/pci/devices/FUNCTION and
 * class/pci_bus/BUS, from which programs go up to the function. */
void sysfs_pci_ways(struct tree *t, const char *path);

#endif
