/* link_phases.c - [phase:NAME] sections: which there are, and what each says.
 *
 * Owns: what may stand in one: a row of the profile whose stage edits one row at a time (profile.h), and the keys of phases.
 * Not: the lists that follow from it, request by request (plan_phases.c). */
#include <stdio.h>
#include <string.h>

#include "cadenza/ext/phase.h"
#include "config/linker.h"
#include "config/phases.h"
#include "config/profile.h"

/* --- names ------------------------------------------------------------------------------------------------------- */

static const char *const keys[] = {
    [CDZ_PHASE_BEGIN] = "begin",           [CDZ_PHASE_UNTIL] = "until",
    [CDZ_PHASE_MAX_TOKENS] = "max_tokens", [CDZ_PHASE_PROCESSORS] = "processors",
    [CDZ_PHASE_CHAIN] = "chain",
};

const char *cdz_phase_name(const char *section)
{
    return strncmp(section, "phase:", 6) == 0 ? section + 6 : NULL;
}

int cdz_phase_key_of(const char *name)
{
    for (int i = 0; i < CDZ_N_PHASE_KEYS; i++)
        if (strcmp(keys[i], name) == 0) return i;
    return -1;
}

/* Generation parameters that edit a row and ask for nothing but the row are called as their processors; constraints are
 * several of one processor. */
static bool edits_a_row(const char *name)
{
    if (cdz_hf_is_constraint(name)) return true;
    for (uint32_t i = 0; i < cdz_hf_n_processors; i++)
        if (strcmp(cdz_hf_processors[i].id, name) == 0)
            return cdz_hf_processors[i].traits & CDZ_HF_ROW_ALONE;
    return false;
}

/* The nearest key or parameter that a phase has. */
static const char *nearest(const char *name)
{
    const char *all[CDZ_N_PHASE_KEYS + 64];
    size_t n = CDZ_N_PHASE_KEYS;
    memcpy(all, keys, sizeof keys);
    for (uint32_t slot = 0; slot < cdz_generation_slots() && n < sizeof all / sizeof *all; slot++)
        if (edits_a_row(cdz_generation_slot_name(slot))) all[n++] = cdz_generation_slot_name(slot);
    return cdz_nearest_name(name, all, n);
}

int cdz_phase_slot(const cdz_sources *names, const char *name, cdz_error *err)
{
    const cdz_other_name *other = cdz_sources_other_name(names, name);
    if (other && strcmp(other->section, "generation") != 0) {
        cdz_err(err, CDZ_E_USAGE, "%s: belongs in [%s], which `processors` of a phase can name",
                name, other->section);
        return -1;
    }
    const char *own = other ? other->name : name;
    if (edits_a_row(own)) return cdz_generation_slot(own);
    const char *near = cdz_generation_slot(own) < 0 ? nearest(name) : NULL;
    if (cdz_generation_slot(own) >= 0)
        cdz_err(err, CDZ_E_USAGE,
                "%s: is the whole request's and belongs in [generation]; a phase sets what edits a "
                "row (temperature, top_k, repetition_penalty, ...)",
                name);
    else
        cdz_err(err, CDZ_E_USAGE, "%s: no such key%s%s%s", name,
                near ? ": did you mean '"
                     : "; a phase has begin, until, max_tokens, processors, chain and parameters "
                       "that edit a row",
                near ? near : "", near ? "'?" : "");
    return -1;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

/* Where a value is tried. */
typedef union slot {
    const char *text;
    cdz_opt_int number;
    cdz_int_list ids;
} slot;

static const cdz_param text_row = {.name = "text", .type = CDZ_T_STRING};
static const cdz_param ids_row = {.name = "ids", .type = CDZ_T_INTS, .max = 2147483647.0};
static const cdz_param number_row = {
    .name = "max_tokens", .type = CDZ_T_OPT_INT, .max = 2147483647.0};

static const cdz_param *row_of(cdz_phase_key key, bool ids)
{
    if (key == CDZ_PHASE_MAX_TOKENS) return &number_row;
    return ids ? &ids_row : &text_row;
}

/* "[12, 13]" are tokens; "[/THINK]" is a text. */
static bool writes_ids(const char *text)
{
    const size_t n = strspn(text, "[]0123456789, ");
    return *text == '[' && text[n] == '\0' && n > 2;
}

cdz_status cdz_phase_check_value(cdz_phase_key key, const cdz_json *value, cdz_arena *arena,
                                 cdz_error *err)
{
    const bool ids = value->type == CDZ_JSON_ARRAY || value->type == CDZ_JSON_INT;
    slot out = {0};
    cdz_error why = {0};
    if (value->type == CDZ_JSON_NULL) return CDZ_OK;
    cdz_param row = *row_of(key, ids);
    row.name = keys[key];
    CDZ_TRY(cdz_param_set(&row, &out, value, arena, &why) == CDZ_OK
                ? CDZ_OK
                : cdz_err(err, CDZ_E_USAGE, "%s", why.text));
    if (key != CDZ_PHASE_MAX_TOKENS && value->type != CDZ_JSON_INT && value->len == 0)
        return cdz_err(err, CDZ_E_USAGE, "%s: a mark cannot be empty; none unsets it", keys[key]);
    return CDZ_OK;
}

static cdz_status read_value(cdz_linker *l, cdz_phase_key key, const char *text, cdz_json *out,
                             cdz_error *err)
{
    cdz_param row = *row_of(key, key != CDZ_PHASE_MAX_TOKENS && writes_ids(text));
    row.name = keys[key];
    CDZ_TRY(cdz_param_from_text(&row, text, &l->link->arena, out, err));
    return cdz_phase_check_value(key, out, &l->link->arena, err);
}

/* --- sections ----------------------------------------------------------------------------------------------------- */

/* The sentence, with where the setting was written before it. */
static cdz_status blame(cdz_linker *l, const cdz_written *w, cdz_status st, const cdz_error *why)
{
    if (w->origin.source == CDZ_SOURCE_COMMAND)
        return cdz_err(l->err, st, "-s %s.%s", w->section, why->text);
    return cdz_err(l->err, st, "%s:%u:1: [%s] %s", w->origin.file, (unsigned)w->origin.line,
                   w->section, why->text);
}

static cdz_status take_parameter(cdz_linker *l, cdz_phase_part *phase, const cdz_written *w,
                                 cdz_error *why)
{
    const int at = cdz_phase_slot(l->sources, w->name, why);
    if (at < 0) return why->code;
    cdz_slot_value *v = &phase->generation[phase->n_generation++];
    *v = (cdz_slot_value){.slot = (uint32_t)at, .origin = w->origin};
    CDZ_TRY(cdz_generation_from_text(v->slot, w->text, &l->link->arena, &v->value, why));
    return cdz_linker_constraint(l, w, &v->value, why);
}

/* Lists are read by their key, once. */
static cdz_status take(cdz_linker *l, cdz_phase_part *phase, const cdz_written *w)
{
    const int key = cdz_phase_key_of(w->name);
    cdz_error why = {0};
    cdz_status st = CDZ_OK;
    if (key < 0)
        st = take_parameter(l, phase, w, &why);
    else if (key < CDZ_N_PHASE_VALUES)
        st = read_value(l, (cdz_phase_key)key, w->text, &phase->values[key], &why);
    return st == CDZ_OK ? CDZ_OK : blame(l, w, st, &why);
}

/* What [pipeline] gives every phase, a phase does not name again. */
static cdz_status check_lists(cdz_linker *l, const cdz_phase_part *phase)
{
    const cdz_link *link = l->link;
    const cdz_parts *own = &phase->processors;
    char prefix[300];
    cdz_origin_prefix(&own->origin, prefix, sizeof prefix);
    if (own->n && (phase->chain.given || link->chain.given))
        return cdz_err(l->err, CDZ_E_USAGE,
                       "%s[%s] processors: chain replaces the whole list; put them there", prefix,
                       phase->section);
    for (uint32_t i = 0; i < own->n; i++)
        for (uint32_t k = 0; k < link->processors.n; k++)
            if (strcmp(own->at[i].name, link->processors.at[k].name) == 0)
                return cdz_err(l->err, CDZ_E_USAGE,
                               "%s[%s] processors: [pipeline] processors gives '%s' to every phase "
                               "already",
                               prefix, phase->section, own->at[i].name);
    return CDZ_OK;
}

static cdz_status read_phase(cdz_linker *l, cdz_phase_part *phase)
{
    const cdz_sources *s = l->sources;
    phase->generation = cdz_arena_array(&l->link->arena, s->n, sizeof *phase->generation);
    if (!phase->generation) return cdz_linker_nomem(l);
    for (uint32_t i = 0; i < s->n; i++)
        if (strcmp(s->at[i].section, phase->section) == 0) CDZ_TRY(take(l, phase, &s->at[i]));
    CDZ_TRY(
        cdz_linker_list(l, phase->section, "processors", CDZ_KIND_PROCESSOR, &phase->processors));
    CDZ_TRY(cdz_linker_list(l, phase->section, "chain", CDZ_KIND_PROCESSOR, &phase->chain));
    return check_lists(l, phase);
}

static cdz_status add_phase(cdz_linker *l, const cdz_written_section *section)
{
    cdz_link *link = l->link;
    const char *name = cdz_phase_name(section->name);
    char prefix[300];
    cdz_origin_prefix(&section->origin, prefix, sizeof prefix);
    if (strcmp(section->name, "phase") == 0 || (name && !*name))
        return cdz_err(l->err, CDZ_E_USAGE, "%s[%s] needs a name: [phase:think]", prefix,
                       section->name);
    if (!name) return CDZ_OK;
    for (uint32_t i = 0; i < link->n_phases; i++)
        if (strcmp(link->phases[i].name, name) == 0) return CDZ_OK; /* goes on with a used file's */
    if (link->n_phases == CDZ_MOST_PHASES)
        return cdz_err(l->err, CDZ_E_USAGE, "%s[%s] is one phase too many: at most %d", prefix,
                       section->name, (int)CDZ_MOST_PHASES);
    link->phases[link->n_phases++] =
        (cdz_phase_part){.name = name, .section = section->name, .origin = section->origin};
    return CDZ_OK;
}

static cdz_status check_ends(cdz_linker *l)
{
    const cdz_link *link = l->link;
    char prefix[300];
    for (uint32_t i = 0; i + 1 < link->n_phases; i++) {
        const cdz_phase_part *phase = &link->phases[i], *next = &link->phases[i + 1];
        if (phase->values[CDZ_PHASE_UNTIL].type != CDZ_JSON_NULL) continue;
        cdz_origin_prefix(&phase->origin, prefix, sizeof prefix);
        return cdz_err(l->err, CDZ_E_USAGE,
                       "%s[%s] has no until: it would never end, and [%s] follows", prefix,
                       phase->section, next->section);
    }
    return CDZ_OK;
}

cdz_status cdz_linker_phases(cdz_linker *l)
{
    cdz_link *link = l->link;
    const cdz_sources *s = l->sources;
    bool any = false;
    for (uint32_t i = 0; i < s->n_sections; i++) any |= !strncmp(s->sections[i].name, "phase", 5);
    if (!any) return CDZ_OK;
    link->phases = cdz_arena_array(&link->arena, CDZ_MOST_PHASES, sizeof *link->phases);
    if (!link->phases) return cdz_linker_nomem(l);
    for (uint32_t i = 0; i < s->n_sections; i++) CDZ_TRY(add_phase(l, &s->sections[i]));
    for (uint32_t i = 0; i < link->n_phases; i++) CDZ_TRY(read_phase(l, &link->phases[i]));
    CDZ_TRY(check_ends(l));
    if (link->n_phases == 0) return CDZ_OK;
    return cdz_linker_stage(l, CDZ_KIND_PROCESSOR, CDZ_PHASES_ID, &link->teller);
}
