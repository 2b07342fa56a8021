/* habits.c - one table of other programs' names: it serves options, suggestions for -s, help, manual and completions. */
#include "config/habits.h"

#include <string.h>

static const char llama[] = "llama-cli", ollama[] = "Ollama", both[] = "llama-cli, Ollama",
                  openai[] = "OpenAI", hf[] = "transformers", vllm[] = "vLLM";

static const char context_says[] =
    "the KV cache grows with the conversation up to the model's context; --kv-memory bounds all of "
    "it, --max-new-tokens an answer";
static const char layers_says[] = "a device computes all layers: --device cuda";
static const char type_says[] =
    "weights are used in the type they are stored in; --quantize TYPE makes them smaller";
static const char profile_says[] = "--pipeline llamacpp has it, as -s NAME=VALUE";
static const char processor_says[] =
    "it is a processor of its own: -s processors=NAME -s NAME=VALUE; `cadenza help NAME`";
static const char grammar_says[] = "it is -s grammar=file:FILE";

static const cdz_habit habits[] = {
    {"n", "max_new_tokens", NULL, llama},
    {"predict", "max_new_tokens", NULL, llama},
    {"n-predict", "max_new_tokens", NULL, llama},
    {"num-predict", "max_new_tokens", NULL, ollama},
    {"max-tokens", "max_new_tokens", NULL, openai},
    {"max-completion-tokens", "max_new_tokens", NULL, openai},
    {"max-output-tokens", "max_new_tokens", NULL, openai},
    {"min-tokens", "min_new_tokens", NULL, vllm},
    {"temp", "temperature", NULL, llama},
    {"stop", "stop_strings", NULL, openai},
    {"r", "stop_strings", NULL, llama},
    {"reverse-prompt", "stop_strings", NULL, llama},
    {"repeat-penalty", "repetition_penalty", NULL, both},
    {"typical", "typical_p", NULL, llama},
    {"typ-p", "typical_p", NULL, llama},
    {"beams", "num_beams", NULL, "CTranslate2"},
    {"beam-size", "num_beams", NULL, "CTranslate2"},
    {"ngram-size", "no_repeat_ngram_size", NULL, "fairseq"},
    {"draft", "num_assistant_tokens", NULL, llama},
    {"draft-max", "num_assistant_tokens", NULL, llama},
    {"num-return", "num_return_sequences", NULL, hf},
    {"t", "threads", NULL, llama},
    {"num-thread", "threads", NULL, ollama},
    {"md", "assistant", NULL, llama},
    {"model-draft", "assistant", NULL, llama},
    {"draft-model", "assistant", NULL, vllm},
    {"assistant-model", "assistant", NULL, hf},
    {"hf", "model", NULL, llama},
    {"hf-repo", "model", NULL, llama},
    {"model-name-or-path", "model", NULL, hf},
    {"model-id", "model", NULL, hf},
    {"trust-remote-code", "allow-model-plugins", NULL, hf},
    {"cache-type-k", "kv-cache", NULL, llama},
    {"ctk", "kv-cache", NULL, llama},
    {"sys", "system", NULL, llama},
    {"system-prompt", "system", NULL, llama},
    {"special", "show-special", NULL, llama},
    {"prompt-file", "file", NULL, NULL},
    {"i", "interactive", NULL, llama},
    {"cnv", "interactive", NULL, llama},
    {"conversation", "interactive", NULL, llama},
    {"c", NULL, context_says, llama},
    {"ctx-size", NULL, context_says, llama},
    {"num-ctx", NULL, context_says, ollama},
    {"n-ctx", NULL, context_says, llama},
    {"max-model-len", NULL, context_says, vllm},
    {"ngl", NULL, layers_says, llama},
    {"gpu-layers", NULL, layers_says, llama},
    {"n-gpu-layers", NULL, layers_says, llama},
    {"num-gpu", NULL, layers_says, ollama},
    {"dtype", NULL, type_says, vllm},
    {"torch-dtype", NULL, type_says, hf},
    {"load-in-8bit", NULL, "--quantize int8 does that", hf},
    {"load-in-4bit", NULL, "--quantize nf4 does that", hf},
    {"presence-penalty", NULL, processor_says, openai},
    {"frequency-penalty", NULL, processor_says, openai},
    {"logit-bias", NULL,
     "texts: -s processors=logit_bias; ids: -s sequence_bias='[[[ID], BIAS], ...]'", openai},
    {"repeat-last-n", NULL, profile_says, both},
    {"dry-multiplier", NULL, profile_says, llama},
    {"xtc-probability", NULL, profile_says, llama},
    {"top-nsigma", NULL, profile_says, llama},
    {"mirostat", NULL, "it is a strategy: -s strategy=mirostat, or mirostat_v2", both},
    {"grammar-file", NULL, grammar_says, llama},
};
enum { N_HABITS = sizeof habits / sizeof habits[0] };

const cdz_habit *cdz_habits(size_t *n)
{
    *n = N_HABITS;
    return habits;
}

int cdz_habit_same(const char *a, size_t a_len, const char *b)
{
    size_t i = 0;
    for (; i < a_len && b[i]; i++)
        if (a[i] != b[i] && !(a[i] == '_' && b[i] == '-') && !(a[i] == '-' && b[i] == '_'))
            return 0;
    return i == a_len && !b[i];
}

const cdz_habit *cdz_habit_find(const char *name, size_t len)
{
    for (size_t i = 0; i < N_HABITS; i++)
        if (cdz_habit_same(name, len, habits[i].name)) return &habits[i];
    return NULL;
}
