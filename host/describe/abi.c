/* abi.c - the refusals of files that were made for another host. Each names what the file has and what this host has. */
#include "describe/abi.h"

#include <stdio.h>
#include <string.h>

#include "cadenza/ext/companion.h"
#include "cadenza/ext/constrained.h"
#include "cadenza/ext/draft/thread-check.h"
#include "cadenza/ext/ended.h"
#include "cadenza/ext/files.h"
#include "cadenza/ext/form.h"
#include "cadenza/ext/grammar.h"
#include "cadenza/ext/inserted.h"
#include "cadenza/ext/kv.h"
#include "cadenza/ext/mask.h"
#include "cadenza/ext/observe.h"
#include "cadenza/ext/phase.h"
#include "cadenza/ext/scores.h"
#include "cadenza/ext/state.h"
#include "cadenza/ext/steer.h"
#include "cadenza/ext/text.h"
#include "cadenza/ext/tokenizer.h"
#include "cadenza/ext/trace.h"
#include "cadenza/ext/vec.h"

bool cdz_abi_spoken(unsigned major, unsigned minor)
{
    return major == CDZ_ABI_MAJOR && minor <= CDZ_ABI_MINOR;
}

cdz_status cdz_abi_refusal(const char *path, unsigned major, unsigned minor, cdz_error *err)
{
    const unsigned our_minor = CDZ_ABI_MINOR;
    char spoken[48];
    if (our_minor == 0)
        (void)snprintf(spoken, sizeof spoken, "%u.0", (unsigned)CDZ_ABI_MAJOR);
    else
        (void)snprintf(spoken, sizeof spoken, "%u.0 to %u.%u", (unsigned)CDZ_ABI_MAJOR,
                       (unsigned)CDZ_ABI_MAJOR, our_minor);
    return cdz_err(err, CDZ_E_PLUGIN, "%s: built for ABI %u.%u, this host speaks %s; %s", path,
                   major, minor, spoken,
                   major == CDZ_ABI_MAJOR ? "use a newer Cadenza, or rebuild it with this SDK"
                                          : "rebuild it with this SDK");
}

/* A field of the fingerprint. What grows may be smaller in a file of an older minor, never larger. */
typedef struct sized {
    const char *what;
    bool grows;
} sized;

cdz_status cdz_fingerprint_check(const char *path, const cdz_entry *entry, cdz_error *err)
{
    static const sized fields[] = {{"a pointer", false},       {"an enum", false},
                                   {"a bool", false},          {"a size_t", false},
                                   {"cdz_param", true},        {"cdz_plugin_base", false},
                                   {"cdz_request_info", true}, {"cdz_step", true},
                                   {"cdz_scores", false},      {"cdz_host", true}};
    static const cdz_fingerprint expected = CDZ_FINGERPRINT;
    enum { N = sizeof fields / sizeof fields[0] };
    _Static_assert(sizeof expected == N * sizeof(uint32_t), "a row per field");
    uint32_t theirs[N], ours[N];
    memcpy(theirs, &entry->fingerprint, sizeof theirs);
    memcpy(ours, &expected, sizeof ours);
    for (size_t i = 0; i < N; i++) {
        const bool older = fields[i].grows && entry->abi_minor != CDZ_ABI_MINOR;
        if (older ? theirs[i] <= ours[i] : theirs[i] == ours[i]) continue;
        return cdz_err(err, CDZ_E_PLUGIN,
                       "%s: built where %s has %u bytes, in this host it has %u; rebuild it "
                       "with this SDK",
                       path, fields[i].what, theirs[i], ours[i]);
    }
    return CDZ_OK;
}

/* --- extensions ------------------------------------------------------------------------------------------- */

static const char *const extensions[] = {
    CDZ_EXT_COMPANION, CDZ_EXT_CONSTRAINED, CDZ_EXT_THREAD_CHECK, CDZ_EXT_ENDED, CDZ_EXT_FILES,
    CDZ_EXT_FORM,      CDZ_EXT_GRAMMAR,     CDZ_EXT_INSERTED,     CDZ_EXT_KV,    CDZ_EXT_MASK,
    CDZ_EXT_OBSERVE,   CDZ_EXT_PHASE,       CDZ_EXT_SCORES,       CDZ_EXT_STATE, CDZ_EXT_STEER,
    CDZ_EXT_TEXT,      CDZ_EXT_TOKENIZER,   CDZ_EXT_TRACE,        CDZ_EXT_VEC};
enum { N_EXTENSIONS = sizeof extensions / sizeof extensions[0] };

const char *cdz_abi_extension(uint32_t i)
{
    return i < N_EXTENSIONS ? extensions[i] : NULL;
}

static cdz_status refuse_need(const char *path, const char *id, cdz_error *err)
{
    char list[N_EXTENSIONS * 32];
    size_t n = 0;
    for (uint32_t i = 0; i < N_EXTENSIONS; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", extensions[i]);
    return cdz_err(err, CDZ_E_PLUGIN,
                   "%s: needs the extension '%s', which this host (ABI %u.%u) lacks; it has %s",
                   path, id, (unsigned)CDZ_ABI_MAJOR, (unsigned)CDZ_ABI_MINOR, list);
}

cdz_status cdz_needs_check(const char *path, const char *needs, cdz_error *err)
{
    for (const char *at = needs ? needs : ""; *at;) {
        const size_t len = strcspn(at, ", \t");
        char id[80];
        bool known = len == 0 || !memchr(at, '/', len);
        for (uint32_t i = 0; !known && i < N_EXTENSIONS; i++)
            known = strlen(extensions[i]) == len && strncmp(extensions[i], at, len) == 0;
        (void)snprintf(id, sizeof id, "%.*s", (int)(len < sizeof id ? len : sizeof id - 1), at);
        if (!known) return refuse_need(path, id, err);
        at += len + (at[len] != '\0');
    }
    return CDZ_OK;
}
