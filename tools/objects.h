/* SPDX-License-Identifier: BSD-2-Clause */
/* objects.h - the text of a dump (driver/dump_write.c) as JSON: arrays of objects by
 * their kind, and the slot. */
#ifndef TOOLS_OBJECTS_H
#define TOOLS_OBJECTS_H

#include <jansson.h>

/* Cuts the text to pieces. */
json_t *objects_of(char *text);

#endif
