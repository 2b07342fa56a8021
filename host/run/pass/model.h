/* model.h - a model as the engine runs it. The weights are read-only; pool and forward are the engine thread's. */
#ifndef CDZ_HOST_RUN_PASS_MODEL_H
#define CDZ_HOST_RUN_PASS_MODEL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/mutex.h"
#include "grammar/store.h"
#include "load/model_files.h"
#include "run/job.h"
#include "run/pass/bite.h"
#include "run/pass/crew.h"
#include "run/pass/forward.h"
#include "run/pass/function.h"
#include "run/pass/kv.h"
#include "run/pass/screen.h"
#include "run/pass/steer.h"
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
    cdz_function function;    /* its passes; forward NULL: its layers are */
    cdz_steering *control;    /* edits that all its sequences begin with, held; NULL: none */

    cdz_backend *device; /* what its passes run on */
    cdz_placed *placed;  /* (n_placed) its weights there; NULL: they are read as they lie */
    size_t n_placed;

    cdz_kv_shape shape;
    uint64_t block_bytes; /* of KV memory */
    uint64_t state_bytes; /* of a sequence's recurrent state; 0: there is none */

    cdz_kv_pool *pool;   /* [engine] NULL until the first request */
    cdz_kv_pool *states; /* [engine] of recurrent layers; NULL: there are none, or no request yet */
    cdz_packed_pool *packed; /* [engine] one for each way of packing that is in use */
    cdz_layers *layers;
    bool has_run;            /* [engine] a pass, at least */
    cdz_screening screening; /* [engine] */
    cdz_bite bite;           /* [engine] rows of prompts beside those that decode */
    cdz_crew crew;           /* [engine] how many threads its passes run on */
    cdz_run_model *next;     /* in the engine's list; under its lock */
    bool condemned;          /* nobody holds it: the engine thread takes it apart; under the lock */

    bool has_fingerprint;                  /* under the engine's lock, as the next */
    uint8_t fingerprint[CDZ_DIGEST_BYTES]; /* of its files, once it was wanted */

    cdz_mutex texts_lock;
    cdz_token_texts *texts;      /* NULL until wanted; under texts_lock, as the next */
    cdz_grammar_store *grammars; /* NULL until wanted */
    cdz_grammar_store_options grammar_options;
};

/* Frees what the model holds; pool and forward must be gone. */
void cdz_run_model_destroy(cdz_run_model *model);
/* {NULL, 0} for an id without a token or when memory is out. [any] */
cdz_string cdz_run_model_token_text(cdz_run_model *model, int32_t id);
/* Does it say what comes next? A classifier has a head for values alone. */
static inline bool cdz_run_model_speaks(const cdz_run_model *model)
{
    return model->function.forward || !model->weights->values.alone;
}
/* Is all that passes keep of a sequence in blocks of keys and values, and told by the ids up to there? Then a prompt may find
 * what another has computed. An encoder adds what it has read, and dynamic rope the request's length; so would recurrent
 * layers, whose state is in no block. */
bool cdz_run_model_shares_prompts(const cdz_run_model *model);

#endif
