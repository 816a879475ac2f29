/* SPDX-License-Identifier: BSD-2-Clause */
/* fault_keys.c - see fault_keys.h; net/fault_key.def is the table. */
#include "fault_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/upset.h"
#include "net/fault_spec.h"

enum { TEXT_AT = 27, LINE_END = 79 };

/* Writes text from column TEXT_AT on, word by word. */
static void put_words(FILE *out, const char *text)
{
	size_t at = TEXT_AT;

	while (*text) {
		size_t n = strcspn(text, " ");

		if (at > TEXT_AT && at + 1 + n > LINE_END) {
			fprintf(out, "\n%*s", TEXT_AT, "");
			at = TEXT_AT;
		}
		if (at > TEXT_AT) {
			fputc(' ', out);
			at++;
		}
		fprintf(out, "%.*s", (int)n, text);
		at += n;
		text += n + (text[n] == ' ');
	}
	fputc('\n', out);
}

static void put_key(FILE *out, const char *name, const char *value, const char *text)
{
	int n = fprintf(out, "  %s=%s", name, value);

	if (n >= TEXT_AT) {
		fputc('\n', out);
		n = 0;
	}
	fprintf(out, "%*s", TEXT_AT - n, "");
	put_words(out, text);
}

char *fault_keys_text(void)
{
	const struct upset_key *v;
	const struct fault_key *k;
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	fputs("SPEC is a list of faults and of what they are for, separated by commas.\n"
	      "A fault before which tx: or rx: stands is for that direction only. Groups\n"
	      "with targets of their own are separated by a semicolon.\n\n",
	      out);
	for (unsigned i = 0; (k = fault_key(i)); i++)
		put_key(out, k->name, k->value, k->text);
	fputs("\nThese are not faults of packets:\n\n", out);
	for (unsigned i = 0; (v = upset_key(i)); i++)
		put_key(out, v->name, v->value, v->text);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}
