/* SPDX-License-Identifier: BSD-2-Clause */
/* make.h - makes topologies by rule:
 *
 *	star:n			one switch, n adapters
 *	ring:n[,h]		n switches in a circle, h adapters at each (1)
 *	mesh:x,y[,h]		a grid of switches
 *	torus:x,y[,z[,h]]	a grid whose edges meet
 *	clos:l,s,h		l leaf switches, each linked to s spines, h adapters each
 *	fattree:k,n		a k-ary n-tree: k^n adapters, switches of 2k ports
 *	dragonfly:a,h,p		groups of a switches that are all linked, h links out
 *				and p adapters at each; a*h+1 groups, a link for each two
 */
#ifndef FABRIC_MAKE_H
#define FABRIC_MAKE_H

#include <stdbool.h>
#include <stdio.h>

#include "fabric/topo.h"

/* Does spec begin with the name of a rule? */
bool make_is(const char *spec);

/* Returns 0, -ENOMEM, or -EINVAL with the reason in err. */
int make_topo(struct topo *out, const char *spec, char err[TOPO_ERR]);

/* Prints a topology as topo_parse() reads it, with both ends of every link.  The caller
 * checks f for errors. */
void make_print(FILE *f, const struct topo *t);

#endif
