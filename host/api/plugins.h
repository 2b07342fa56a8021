/* plugins.h - a registry as every part of the program opens it: with the loaders of the host. */
#ifndef CDZ_HOST_API_PLUGINS_H
#define CDZ_HOST_API_PLUGINS_H

#include "plug/registry.h"

/* The registry of these options with the host's loaders, and the files and folders that the user named loaded. */
cdz_status cdz_plugins_open(const cdz_registry_options *options, const char *const *named,
                            uint32_t n_named, cdz_registry **out, cdz_error *err);

/* The same in the user's places (plug/places.h). Of the options, what is given stands: a lock stands alone. */
cdz_status cdz_plugins_open_user(const cdz_registry_options *options, const char *const *named,
                                 uint32_t n_named, cdz_registry **out, cdz_error *err);

#endif
