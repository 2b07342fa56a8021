/* layout.h - sizes, offsets and values of the plugin ABI, for authors who write in other languages than C. */
#ifndef CDZ_HOST_DESCRIBE_LAYOUT_H
#define CDZ_HOST_DESCRIBE_LAYOUT_H

#include "base/buf.h"

/* Every struct and enum of the plugins' headers: for programs, and for readers. */
void cdz_abi_layout_json(cdz_buf *out);
void cdz_abi_layout_text(cdz_buf *out);

#endif
