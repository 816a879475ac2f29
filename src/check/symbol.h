/* SPDX-License-Identifier: BSD-2-Clause */
/* symbol.h - which function an address is in, by the symbol table in the object's file:
 * it has static functions, too, which dladdr() does not know. */
#ifndef CHECK_SYMBOL_H
#define CHECK_SYMBOL_H

#include <stdbool.h>
#include <stdint.h>

enum { SYMBOL_NAME = 128 };

struct symbol {
	char function[SYMBOL_NAME]; /* "": not known */
	char object[SYMBOL_NAME];   /* the file, without its folder */
	uint64_t offset;	    /* from the function's start */
	uint64_t address;	    /* in the object's file, for addr2line */
};

/* Reads files, and so is for what is printed. Returns false if no object is there. */
bool symbol_find(const void *address, struct symbol *s);
/* Only the object, without reading a file. */
bool symbol_object(const void *address, struct symbol *s);

#endif
