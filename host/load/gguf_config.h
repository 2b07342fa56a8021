/* gguf_config.h - GGUF's keys as those of config.json. Inside load/ only. */
#ifndef CDZ_HOST_LOAD_GGUF_CONFIG_H
#define CDZ_HOST_LOAD_GGUF_CONFIG_H

#include "base/buf.h"
#include "load/gguf.h"

/* An architecture of GGUF and the family it is. */
typedef struct cdz_gguf_arch {
    const char *name;       /* general.architecture, and the prefix of its keys */
    const char *model_type; /* unless experts or a window make it another */
    bool pairs;             /* q and k are stored for rotation in neighbouring pairs */
    bool read_only;         /* cadenza writes none */
    /* The norm before the feed-forward is called what others call the one after attention. */
    bool mlp_norm_is_post;
} cdz_gguf_arch;

cdz_status cdz_gguf_find_arch(const cdz_gguf *gguf, const cdz_gguf_arch **out, cdz_error *err);

/* The one that a family is written as; NULL: GGUF has none that is known here. */
const cdz_gguf_arch *cdz_gguf_arch_for(const char *model_type);

/* "llama.block_count" in buf, which it returns. */
enum { CDZ_GGUF_KEY_BYTES = 96 };
const char *cdz_gguf_arch_key(const cdz_gguf_arch *arch, const char *rest,
                              char buf[CDZ_GGUF_KEY_BYTES]);

/* Writes the text of a config.json. */
cdz_status cdz_gguf_write_config(const cdz_gguf *gguf, const cdz_gguf_arch *arch, cdz_buf *out,
                                 cdz_error *err);

/* Has it parameters of sampling; and the text of a generation_config.json with them and the special tokens. */
bool cdz_gguf_says_generation(const cdz_gguf *gguf);
cdz_status cdz_gguf_write_generation(const cdz_gguf *gguf, cdz_buf *out, cdz_error *err);

#endif
