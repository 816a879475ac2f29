/* SPDX-License-Identifier: BSD-2-Clause */
/* objects.c - see objects.h. */
#include "objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/mark.h"

/* A number if it is decimal; keys and addresses are strings. */
static json_t *json_value(const char *text)
{
	size_t n = strspn(text, "0123456789");

	if (!text[n] && n && n < 19)
		return json_integer(strtoll(text, NULL, 10));
	return json_string(text);
}

/* Adds an object to the array of its kind. */
static json_t *json_object_of(json_t *all, const char *kind)
{
	json_t *array = json_object_get(all, kind), *object = json_object();

	if (!json_is_array(array)) {
		array = json_array();
		json_object_set_new(all, kind, array);
	}
	json_array_append_new(array, object);
	return object;
}

/* The first word of a line is an object's kind; lines that begin with a space go on with
 * the object.  The first line has the slot. */
json_t *objects_of(char *text)
{
	json_t *all = json_object(), *object = NULL;
	const char *name, *value;

	for (char *line; (line = strsep(&text, "\n"));) {
		char kind[16];

		snprintf(kind, sizeof(kind), "%.*s", (int)strcspn(line, " :"), line);
		if (*kind)
			object = object ? json_object_of(all, kind) : all;
		while (mark_next(&line, &name, &value))
			json_object_set_new(object, name, json_value(value));
	}
	return all;
}
