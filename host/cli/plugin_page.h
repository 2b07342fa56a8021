/* plugin_page.h - what a plugin says of itself, in words. */
#ifndef CDZ_HOST_CLI_PLUGIN_PAGE_H
#define CDZ_HOST_CLI_PLUGIN_PAGE_H

#include "base/buf.h"
#include "cadenza/plugin.h"

/* The i-th of the things its capabilities promise, or NULL past the last. */
const char *cdz_cli_plugin_promise(const cdz_plugin_base *base, uint32_t i);

/* A page of Markdown: what it does, its parameters as a table, its promises. */
void cdz_cli_plugin_page(const cdz_plugin_base *base, cdz_buf *out);

#endif
