/* rules.h - a .rules file in memory. All of it is cdz_alloc's memory, constant once read. */
#ifndef RULES_H
#define RULES_H

#include <cadenza/loader.h>
#include <cadenza/processor.h>

enum { MAX_BYTES = 64 << 10, MAX_RULES = 4096, MAX_PARAMS = 16, NO_PARAM = -1 };

/* What a file says of one text. */
typedef struct rule {
    cdz_string text;
    uint32_t line;
    int32_t param; /* whose value multiplies bias; NO_PARAM: none */
    bool ban;
    double bias;
} rule;

typedef struct rules {
    cdz_processor processor;
    const cdz_plugin_base *list[1];
    const char *path; /* for sentences */
    cdz_param params[MAX_PARAMS];
    rule *at; /* (n) in the order of the file */
    uint32_t n;
} rules;

/* The struct that the parameters of every file are read into: params[i] is value[i]. */
typedef struct values {
    double value[MAX_PARAMS];
} values;

/* parse.c: reads a file into out, which is zeroed: id, version, summary and parameters of its processor, and the rules. */
cdz_status rules_parse(const cdz_step *step, const cdz_plugin_file *file, rules *out);

#endif
