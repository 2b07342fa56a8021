/* environment.h - the environment variables Cadenza listens to; nothing else in the library reads any. */
#ifndef CDZ_HOST_BASE_ENVIRONMENT_H
#define CDZ_HOST_BASE_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/* By its name, for the settings that have a variable (params/settings.h) and what a service manager says (cli/service.c); NULL
 * when unset or empty, as each of these. */
const char *cdz_env_named(const char *name);

const char *cdz_env_cpu(void);         /* CADENZA_CPU: force a kernel variant */
const char *cdz_env_backends(void);    /* CADENZA_BACKENDS: the folder of their backends */
const char *cdz_env_fibres(void);      /* CADENZA_FIBRES: ucontext or threads */
bool cdz_env_plan_off(void);           /* CADENZA_PLAN=off: processors run one by one */
const char *cdz_env_plugin_dir(void);  /* CADENZA_PLUGIN_DIR: the built-in plugins */
const char *cdz_env_plugin_path(void); /* CADENZA_PLUGIN_PATH: further plugin folders */
const char *cdz_env_config_home(void); /* XDG_CONFIG_HOME */
const char *cdz_env_data_home(void);   /* XDG_DATA_HOME */
const char *cdz_env_home(void);        /* HOME */
const char *cdz_env_models(void);      /* CADENZA_MODELS: folders of models */
/* The Hugging Face cache, of HF_HUB_CACHE, HF_HOME or the home folder; whether it is there is not looked at. */
bool cdz_env_hub_cache(char *path, size_t bytes);
const char *cdz_env_hub_endpoint(void); /* HF_ENDPOINT: a hub in place of huggingface.co */
const char *cdz_env_hub_token(void);    /* HF_TOKEN */
bool cdz_env_hub_offline(void);         /* HF_HUB_OFFLINE: 1, true, yes or on */
const char *cdz_env_certificates(void); /* SSL_CERT_FILE: whom TLS trusts */
/* Where Ollama and llama.cpp keep models, of OLLAMA_MODELS, LLAMA_CACHE or the home folder. */
bool cdz_env_ollama_models(char *path, size_t bytes);
bool cdz_env_llama_cache(char *path, size_t bytes);

#endif
