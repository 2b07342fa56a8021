/* zoo.h - a processor that adds ZOO_ADD to every score, with one thing wrong: the including file defines which. */
#include <cadenza/processor.h>

#ifndef ZOO_ID
#define ZOO_ID "org.example.zoo"
#endif
#ifndef ZOO_VERSION
#define ZOO_VERSION "1.0.0"
#endif
#ifndef ZOO_APPLY
#define ZOO_APPLY zoo_apply
#endif
#ifndef ZOO_ADD
#define ZOO_ADD 1.0f
#endif
#ifndef ZOO_SIZE
#define ZOO_SIZE sizeof(cdz_processor)
#endif
#ifndef ZOO_KIND
#define ZOO_KIND CDZ_KIND_PROCESSOR
#endif
#ifndef ZOO_STATE
#define ZOO_STATE 0
#endif
#ifndef ZOO_CAPS
#define ZOO_CAPS 0
#endif
#ifndef ZOO_BASE_FLAGS
#define ZOO_BASE_FLAGS 0
#endif
#ifndef ZOO_NEEDS
#define ZOO_NEEDS NULL
#endif
#ifndef ZOO_RESERVED
#define ZOO_RESERVED 0
#endif
#ifndef ZOO_PARAMS
#define ZOO_PARAMS CDZ_REAL(zoo, strength, 1.0, 0.0, 2.0, "how much")
#endif
#ifndef ZOO_LIST
#define ZOO_LIST &zoo_processor.base
#endif
#ifndef ZOO_FLAGS
#define ZOO_FLAGS 0
#endif
#ifndef ZOO_MAGIC
#define ZOO_MAGIC CDZ_ENTRY_MAGIC
#endif
#ifndef ZOO_MAJOR
#define ZOO_MAJOR CDZ_ABI_MAJOR
#endif
#ifndef ZOO_MINOR
#define ZOO_MINOR CDZ_ABI_MINOR
#endif
#ifndef ZOO_ENTRY_SIZE
#define ZOO_ENTRY_SIZE sizeof(cdz_entry)
#endif
#ifndef ZOO_FINGERPRINT
#define ZOO_FINGERPRINT CDZ_FINGERPRINT
#endif
#ifndef ZOO_PLUGINS
#define ZOO_PLUGINS zoo_list
#endif
#ifndef ZOO_COUNT
#define ZOO_COUNT (uint32_t)(sizeof zoo_list / sizeof zoo_list[0])
#endif

typedef struct {
    double strength;
} zoo;

extern const cdz_param zoo_table[];
__attribute__((visibility("hidden"))) const cdz_param zoo_table[] = {ZOO_PARAMS};

cdz_status zoo_apply(const cdz_step *step, cdz_scores *scores);
__attribute__((visibility("hidden"))) cdz_status zoo_apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step;
    for (uint32_t v = 0; v < scores->n_vocab; v++) scores->data[v] += ZOO_ADD;
    return CDZ_OK;
}

static const cdz_processor zoo_processor = {
    .base = {.size = ZOO_SIZE,
             .kind = ZOO_KIND,
             .id = ZOO_ID,
             .version = ZOO_VERSION,
             .summary = "An animal",
             .flags = ZOO_BASE_FLAGS,
             CDZ_PARAMS(zoo, zoo_table)},
    .caps = ZOO_CAPS,
    .state_size = ZOO_STATE,
    .apply = ZOO_APPLY,
};
extern const cdz_plugin_base *const zoo_list[];
__attribute__((visibility("hidden"))) const cdz_plugin_base *const zoo_list[] = {ZOO_LIST};

CDZ_EXPORT const cdz_entry cdz_plugin = {
    .magic = ZOO_MAGIC,
    .size = ZOO_ENTRY_SIZE,
    .abi_major = ZOO_MAJOR,
    .abi_minor = ZOO_MINOR,
    .flags = ZOO_FLAGS,
    .fingerprint = ZOO_FINGERPRINT,
    .plugins = ZOO_PLUGINS,
    .n_plugins = ZOO_COUNT,
    .reserved = ZOO_RESERVED,
    .needs = ZOO_NEEDS,
};
