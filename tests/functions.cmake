# What the lists of tests say themselves with. Each test has labels (ctest -L), so that a pass of `./dev test all` runs what it
# is about:
#   its room, and unit, whole, replay, cuda or tool
#   engine   an engine runs in it: CADENZA_CPU and CADENZA_FIBRES reach it (read in host/api/runtime.c)
#   threads  it has several threads, or runs the program, which has
#   program  it runs the program or its scripts, many times, and is not about numbers
#   words    it compares what is printed, in hundreds of short runs: the sanitizers of `./dev test` leave it to `./dev test all`
#   again    it does for minutes what others do in another place (devices, an installed program, the kit): left to `./dev test all` likewise
#   cost     it counts what steps and bytes grow with, which a sanitizer makes others: left to `./dev test all` likewise
#   extremes it tries every number that there may be, for minutes, and sanitizers see what goes wrong: `./dev test` runs some of it, under them alone
#   long     it does in full what another test does in part: left to `./dev test all`
#   slow     so many requests that they take too long on the scalar kernels
#   far      one that runs once more, on the backend whose memory is out of the host's reach
# tests/tools/labels.sh compares engine and threads with what the programs are linked with.
set(program_patience 600)
if(CADENZA_SANITIZE) # several times as slow
    set(program_patience 1200)
endif()
set(plugin_dir "CADENZA_PLUGIN_DIR=${CMAKE_BINARY_DIR}/lib/cadenza")

function(label_tests) # LABELS labels... TESTS names...
    cmake_parse_arguments(PARSE_ARGV 0 label "" "" "LABELS;TESTS")
    set_property(TEST ${label_TESTS} APPEND PROPERTY LABELS ${label_LABELS})
endfunction()

# One program per module, beside this call: NAME.c links the static library and cmocka and is one ctest. A test that needs data
# finds it under CADENZA_TEST_DATA; one that cannot run here says why and exits with 77, which ctest counts as skipped. Many
# load the built-in plugins and some run the program, so both are built first.
#   PLAIN    one thread, and no engine
#   THREADS  no engine
#   ENGINE
#   PROGRAM  it runs the program
function(unit_tests kind) # names...
    set(PLAIN "")
    set(THREADS threads)
    set(ENGINE engine threads)
    set(PROGRAM engine threads program)
    get_filename_component(room ${CMAKE_CURRENT_SOURCE_DIR} NAME)
    foreach(name ${ARGN})
        add_executable(${name} ${name}.c)
        target_link_libraries(${name} PRIVATE test_support cadenza_static PkgConfig::CMOCKA)
        add_dependencies(${name} cadenza cadenza_plugins)
        target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
        target_compile_definitions(${name} PRIVATE
            CADENZA_TEST_DATA="${PROJECT_SOURCE_DIR}/tests" CADENZA_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
            CADENZA_BUILD_DIR="${CMAKE_BINARY_DIR}")
        set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
        add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
        set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${program_patience}
            LABELS "unit;${room};${${kind}}" ENVIRONMENT "${plugin_dir}")
    endforeach()
endfunction()

# A shared object for tests, build/tests/FOLDER/NAME.so from source; not installed.
#   OWN_FAULTS       its faults are its own, and for the host to find or to stand: no sanitizer looks at them
#   FOR programs...  that open it
#   DEFINE names...  it is compiled with
function(test_plugin folder name source)
    cmake_parse_arguments(PARSE_ARGV 3 plugin "OWN_FAULTS" "" "FOR;DEFINE")
    set(target ${folder}_${name})
    add_library(${target} MODULE ${source})
    set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${name}
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/${folder})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/sdk/include)
    target_compile_definitions(${target} PRIVATE ${plugin_DEFINE})
    target_link_libraries(${target} PRIVATE m)
    if(plugin_OWN_FAULTS AND CADENZA_SANITIZE)
        target_compile_options(${target} PRIVATE -fno-sanitize=all)
    endif()
    foreach(program ${plugin_FOR})
        add_dependencies(${program} ${target})
    endforeach()
endfunction()
