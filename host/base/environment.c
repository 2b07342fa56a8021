/* environment.c - the one place that calls getenv. */
#include "base/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *read_variable(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

const char *cdz_env_named(const char *name)
{
    return read_variable(name);
}

const char *cdz_env_cpu(void)
{
    return read_variable("CADENZA_CPU");
}

const char *cdz_env_backends(void)
{
    return read_variable("CADENZA_BACKENDS");
}

const char *cdz_env_fibres(void)
{
    return read_variable("CADENZA_FIBRES");
}

bool cdz_env_plan_off(void)
{
    const char *value = read_variable("CADENZA_PLAN");
    return value && strcmp(value, "off") == 0;
}

const char *cdz_env_plugin_dir(void)
{
    return read_variable("CADENZA_PLUGIN_DIR");
}

const char *cdz_env_plugin_path(void)
{
    return read_variable("CADENZA_PLUGIN_PATH");
}

const char *cdz_env_config_home(void)
{
    return read_variable("XDG_CONFIG_HOME");
}

const char *cdz_env_data_home(void)
{
    return read_variable("XDG_DATA_HOME");
}

const char *cdz_env_models(void)
{
    return read_variable("CADENZA_MODELS");
}

bool cdz_env_hub_cache(char *path, size_t bytes)
{
    const char *cache = read_variable("HF_HUB_CACHE"), *base = read_variable("HF_HOME");
    const char *xdg = read_variable("XDG_CACHE_HOME"), *home = cdz_env_home();
    int n = 0;
    if (cache)
        n = snprintf(path, bytes, "%s", cache);
    else if (base)
        n = snprintf(path, bytes, "%s/hub", base);
    else if (xdg)
        n = snprintf(path, bytes, "%s/huggingface/hub", xdg);
    else if (home)
        n = snprintf(path, bytes, "%s/.cache/huggingface/hub", home);
    return n > 0 && (size_t)n < bytes;
}

const char *cdz_env_hub_endpoint(void)
{
    return read_variable("HF_ENDPOINT");
}

const char *cdz_env_hub_token(void)
{
    return read_variable("HF_TOKEN");
}

/* The words that huggingface_hub takes for yes. */
bool cdz_env_hub_offline(void)
{
    static const char *const words[] = {"1", "true", "yes", "on"};
    const char *value = read_variable("HF_HUB_OFFLINE");
    for (size_t i = 0; value && i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(value, words[i]) == 0) return true;
    return false;
}

const char *cdz_env_certificates(void)
{
    return read_variable("SSL_CERT_FILE");
}

bool cdz_env_ollama_models(char *path, size_t bytes)
{
    const char *models = read_variable("OLLAMA_MODELS"), *home = cdz_env_home();
    int n = 0;
    if (models)
        n = snprintf(path, bytes, "%s", models);
    else if (home)
        n = snprintf(path, bytes, "%s/.ollama/models", home);
    return n > 0 && (size_t)n < bytes;
}

bool cdz_env_llama_cache(char *path, size_t bytes)
{
    const char *cache = read_variable("LLAMA_CACHE"), *xdg = read_variable("XDG_CACHE_HOME");
    const char *home = cdz_env_home();
    int n = 0;
    if (cache)
        n = snprintf(path, bytes, "%s", cache);
    else if (xdg)
        n = snprintf(path, bytes, "%s/llama.cpp", xdg);
    else if (home)
        n = snprintf(path, bytes, "%s/.cache/llama.cpp", home);
    return n > 0 && (size_t)n < bytes;
}

const char *cdz_env_home(void)
{
    return read_variable("HOME");
}
