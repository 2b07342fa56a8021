/* sanitized.h - which sanitizer this file is compiled with; gcc and clang say it in ways of their own. */
#ifndef CDZ_HOST_BASE_SANITIZED_H
#define CDZ_HOST_BASE_SANITIZED_H

#if defined(__has_feature)
#define CDZ_HAS_FEATURE(name) __has_feature(name)
#else
#define CDZ_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || CDZ_HAS_FEATURE(address_sanitizer)
#define CDZ_WITH_ASAN 1
#else
#define CDZ_WITH_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || CDZ_HAS_FEATURE(thread_sanitizer)
#define CDZ_WITH_TSAN 1
#else
#define CDZ_WITH_TSAN 0
#endif

/* Either: what it adds to a process takes memory, addresses and threads of its own. */
#define CDZ_SANITIZED (CDZ_WITH_ASAN || CDZ_WITH_TSAN)

/* A sanitizer whose malloc stands in the place of the C library's. */
#define CDZ_WITH_OWN_HEAP (CDZ_SANITIZED || CDZ_HAS_FEATURE(memory_sanitizer))

#endif
