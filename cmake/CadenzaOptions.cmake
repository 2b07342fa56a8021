# What every target is compiled with, and the switches of the build.
# A project that has Cadenza in a folder of its own gets no tests, and no warnings as errors, unless it asks.
option(CADENZA_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
set(CADENZA_SERVE "AUTO" CACHE STRING "Build the server: AUTO (where libmicrohttpd is), ON, OFF")
set(CADENZA_DOWNLOAD "AUTO" CACHE STRING "Download models: AUTO (where libcurl is), ON, OFF")
# A compiler newer than those that the tests ran with may warn of more; that stops nobody who only wants to build.
set(warnings_are_errors OFF)
if(PROJECT_IS_TOP_LEVEL AND (
   (CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_C_COMPILER_VERSION VERSION_GREATER_EQUAL 12 AND CMAKE_C_COMPILER_VERSION VERSION_LESS 15)
   OR (CMAKE_C_COMPILER_ID STREQUAL "Clang" AND CMAKE_C_COMPILER_VERSION VERSION_GREATER_EQUAL 14 AND CMAKE_C_COMPILER_VERSION VERSION_LESS 20)))
    set(warnings_are_errors ON)
endif()
option(CADENZA_WERROR "Treat warnings as errors (by default with gcc 12 to 14 and clang 14 to 19)" ${warnings_are_errors})
option(CADENZA_BENCH "Build the benchmarks" OFF)
set(CADENZA_CPU_SETS "all" CACHE STRING "Kernels for processors: all, or native: this machine's best set and the scalar one")
option(CADENZA_FUZZ "Build the libFuzzer targets (clang only)" OFF)
set(CADENZA_CUDA "AUTO" CACHE STRING "Build the CUDA backend: AUTO (where nvcc is), ON, OFF")
set(CADENZA_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")
# On where somebody looks for faults. What a release build looks at does not hang on it, nor on NDEBUG.
set(checked_by_default OFF)
if(CADENZA_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(checked_by_default ON)
endif()
option(CADENZA_CHECKED "Check our own invariants, and the locale round every call of a plugin; let threads of the CPU backend be late" ${checked_by_default})

if(NOT CADENZA_CPU_SETS MATCHES "^(all|native)$")
    message(FATAL_ERROR "CADENZA_CPU_SETS is '${CADENZA_CPU_SETS}': expected all or native")
elseif(CADENZA_TESTS AND CADENZA_CPU_SETS STREQUAL "native")
    message(FATAL_ERROR "the tests compare all kernel sets: CADENZA_CPU_SETS=native goes with CADENZA_TESTS=OFF")
endif()

if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
elseif(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Functions and lines for backtraces; variables too, in Debug, would make compiling a quarter longer.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1")
# C++ is for the CUDA backend's kernels and their tests alone; the host needs no compiler for it.
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")

add_compile_definitions(_GNU_SOURCE)
# No fused multiply-add unless it is written: the same bits from every compiler.
add_compile_options(-ffp-contract=off -fno-math-errno
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
    $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
    -Wpointer-arith -Wcast-qual -Wvla -Wformat=2 -Wundef
    # Whole numbers are named by enum; clang 19 warns where one meets another enum's, or a double.
    $<$<C_COMPILER_ID:Clang,AppleClang>:-Wno-enum-float-conversion> $<$<C_COMPILER_ID:Clang,AppleClang>:-Wno-enum-enum-conversion>)
if(CADENZA_CHECKED)
    add_compile_definitions(CDZ_CHECKED)
endif()
if(CADENZA_WERROR)
    add_compile_options(-Werror)
endif()
if(CADENZA_SANITIZE)
    add_compile_options(-fsanitize=${CADENZA_SANITIZE} -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${CADENZA_SANITIZE})
    if(CADENZA_SANITIZE MATCHES "undefined")
        # A number that is cast to an integer which cannot hold it: gcc's "undefined" leaves that out.
        add_compile_options(-fsanitize=float-cast-overflow -fno-sanitize-recover=undefined,float-cast-overflow)
        add_link_options(-fsanitize=float-cast-overflow -fno-sanitize-recover=undefined,float-cast-overflow)
    endif()
endif()
if(CADENZA_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Built as soon as anything that runs with the built-in plugins is.
add_custom_target(cadenza_plugins)

# A plugin: one shared object under lib/cadenza, built from the SDK alone.
function(cadenza_plugin name)
    add_library(${name} MODULE ${ARGN})
    set_target_properties(${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/cadenza)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/sdk/include)
    target_link_libraries(${name} PRIVATE m)
    install(TARGETS ${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/cadenza)
    add_dependencies(cadenza_plugins ${name})
endfunction()
