/* environment.c - the one place that calls getenv. */
#include "base/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

const char *cdz_env_device(void)
{
    return read_variable("CADENZA_DEVICE");
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

const char *cdz_env_home(void)
{
    return read_variable("HOME");
}
