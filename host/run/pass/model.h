/* model.h - a model as the engine runs it. The weights are read-only; pool and forward are the engine thread's. */
#ifndef CDZ_HOST_RUN_PASS_MODEL_H
#define CDZ_HOST_RUN_PASS_MODEL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/mutex.h"
#include "load/model_files.h"
#include "run/job.h"
#include "run/pass/crew.h"
#include "run/pass/forward.h"
#include "run/pass/kv.h"
#include "token/tokenizer.h"

/* Every token's text as stop strings see it; made on first use. */
typedef struct cdz_token_texts {
    cdz_buf bytes;  /* NUL after each text */
    cdz_string *at; /* (n) */
    uint32_t n;
} cdz_token_texts;

typedef struct cdz_placed cdz_placed; /* a weight on a device */

typedef struct cdz_packed_pool cdz_packed_pool;
struct cdz_packed_pool {
    cdz_kv_pool *pool;
    cdz_packed_pool *next;
};

struct cdz_run_model {
    atomic_uint holders;
    cdz_engine *engine; /* NULL once the engine has gone; [any] under the engine's lock */
    cdz_weights *weights;
    cdz_tokenizer *tokenizer; /* or NULL */

    cdz_backend *device; /* what its passes run on */
    cdz_placed *placed;  /* (n_placed) its weights there; NULL: they are read as they lie */
    size_t n_placed;

    cdz_kv_shape shape;
    uint64_t block_bytes; /* of KV memory */

    cdz_kv_pool *pool;       /* [engine] NULL until the first request */
    cdz_packed_pool *packed; /* [engine] one for each way of packing that is in use */
    cdz_layers *layers;
    bool has_run;        /* [engine] a pass, at least */
    cdz_crew crew;       /* [engine] how many threads its passes run on */
    cdz_run_model *next; /* in the engine's list; under its lock */
    bool condemned;      /* nobody holds it: the engine thread takes it apart; under the lock */

    cdz_mutex texts_lock;
    cdz_token_texts *texts; /* NULL until wanted; under texts_lock */
};

/* Frees what the model holds; pool and forward must be gone. */
void cdz_run_model_destroy(cdz_run_model *model);
/* {NULL, 0} for an id without a token or when memory is out. [any] */
cdz_string cdz_run_model_token_text(cdz_run_model *model, int32_t id);

#endif
