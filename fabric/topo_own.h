/* SPDX-License-Identifier: BSD-2-Clause */
/* topo_own.h - what the files of the topology reader share. */
#ifndef FABRIC_TOPO_OWN_H
#define FABRIC_TOPO_OWN_H

#include "fabric/topo.h"

struct topo_text {
	const char *at;
	size_t len;
};

/* One end of a link, as written in its line. */
struct topo_end {
	uint32_t line, file, node;
	uint8_t port, peer_port;
	char peer_id[TOPO_ID]; /* may be an alias, MODULE@NAME */
};

/* The name of a port within a module. */
struct topo_alias {
	uint32_t line, file, node;
	uint8_t port;
	char name[TOPO_ID]; /* MODULE@NAME */
};

enum { TOPO_FILES = 256, TOPO_DEPTH = 8 /* limits of includes, as in ibsim */ };

struct topo_count {
	uint64_t base, next, port;
};

struct topo_read {
	struct topo t;
	uint32_t cap;
	struct topo_end *end;
	uint32_t ends, end_cap;
	struct topo_alias *alias;
	uint32_t aliases, alias_cap;
	char module[TOPO_ID]; /* "": no module */
	topo_open *open;      /* NULL: `include' is refused */
	const char *file_name[TOPO_FILES];
	uint32_t files, file, depth; /* file: index of the one that is being read */
	const char *name;	     /* its name */
	char *err;
	uint32_t line;		       /* from 1 */
	const char *start, *at, *stop; /* the line, [start, stop); read up to at */
	bool in_node;
	/* These apply to all following nodes; sys_guid only to the next one. */
	struct topo_count count[2]; /* adapters, switches */
	uint64_t sys_guid;
	uint32_t vendor, device;
	struct topo_port usual;
};

/* topo_text.c: reads the words of a line, and skips blanks before them.  A bool says
 * whether the text was there; if so, it has been read. */
bool text_next_line(struct topo_read *r, const char **text, size_t *len);
bool text_end(struct topo_read *r);	/* the end of the line, or a comment */
bool text_comment(struct topo_read *r); /* the '#' of a comment */
bool text_char(struct topo_read *r, char c);
bool text_word(struct topo_read *r, const char *word); /* the whole word must match */
bool text_option(struct topo_read *r, char name);      /* name= */
/* Reads a number; base 0: hexadecimal after 0x.  0, or -EINVAL and reads nothing. */
int text_number(struct topo_read *r, int base, uint64_t max, uint64_t *out);
int text_quoted(struct topo_read *r, struct topo_text *out);
/* Reads a comment's text up to the words that ibnetdiscover appends. */
int text_until_words(struct topo_read *r, struct topo_text *out);
/* Does the rest begin with `what`?  Reads only blanks. */
bool text_starts(struct topo_read *r, const char *what);
/* Look anywhere in the rest of the line, and read nothing.  A number that is missing or
 * too large is 0. */
bool text_has(struct topo_read *r, const char *what);
uint64_t text_number_after(struct topo_read *r, const char *what, uint64_t max);
void text_rate(struct topo_read *r, struct topo_port *p); /* 4xQDR, at the end */
bool text_rate_word(struct topo_text word, struct topo_port *p);
void text_copy(char *to, size_t size, struct topo_text from);

/* Write the message "name:line:column: expected ..., not ..." and return -EINVAL. */
int topo_fail(struct topo_read *r, const char *expected);
int topo_fail_at_start(struct topo_read *r, const char *expected);
int topo_fail_line(struct topo_read *r, uint32_t file, uint32_t line, const char *fmt,
		   ...) __attribute__((format(printf, 4, 5)));

/* topo.c */
int topo_lines(struct topo_read *r, const char *text, size_t len);
int topo_port_options(struct topo_read *r, struct topo_port *p);

/* topo_module.c: names of nodes and ports in a module, and included files. */
/* Makes a node's full name.  Returns false if it is too long, or has a '#' or '@'. */
bool topo_node_name(const struct topo_read *r, struct topo_text base, char to[TOPO_ID]);
/* Makes the full name of a link's other end, which may be an alias. */
bool topo_peer_name(const struct topo_read *r, struct topo_text base, char to[TOPO_ID]);
int topo_module_line(struct topo_read *r);
int topo_include_line(struct topo_read *r);
int topo_alias_line(struct topo_read *r); /* after the line's "@[" */
/* After the last line: sorts the aliases. Returns 0, or -EINVAL if two are equal. */
int topo_sort_aliases(struct topo_read *r);
/* Finds a sorted alias. Returns NULL if no port has it. */
const struct topo_alias *topo_find_alias(const struct topo_read *r, const char *name);
void topo_end_files(struct topo_read *r);

/* topo_link.c */
int topo_add_end(struct topo_read *r, const struct topo_end *e);
/* Joins the ends of links, and checks names, links and GUIDs.  Returns 0 or -errno. */
int topo_join(struct topo_read *r);

#endif
