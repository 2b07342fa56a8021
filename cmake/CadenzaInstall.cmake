# What `cmake --install` puts into a prefix. Nothing in it names the prefix, so it may be moved as a whole: the program and
# the library find their plugins from where they lie, the .pc and CMake files from where they were read.
include(CMakePackageConfigHelpers)
set(CADENZA_SOVERSION 0)
set(cadenza_share ${CMAKE_INSTALL_DATADIR}/cadenza)
set(cadenza_pkgconfig ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(cadenza_cmake ${CMAKE_INSTALL_LIBDIR}/cmake/cadenza)
file(RELATIVE_PATH CADENZA_PC_TO_PREFIX /p/${cadenza_pkgconfig} /p)
file(RELATIVE_PATH CADENZA_CMAKE_TO_PREFIX /p/${cadenza_cmake} /p)
string(REGEX REPLACE "/$" "" CADENZA_PC_TO_PREFIX ${CADENZA_PC_TO_PREFIX})
string(REGEX REPLACE "/$" "" CADENZA_CMAKE_TO_PREFIX ${CADENZA_CMAKE_TO_PREFIX})

# What a program linked with libcadenza.a needs besides.
set(CADENZA_PC_REGEX "")
if(ONIGURUMA_FOUND)
    set(CADENZA_PC_REGEX ", oniguruma")
endif()

if(TARGET cadenza)
    install(TARGETS cadenza RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    # Pages of the manual and completions of shells: the program prints them, from the tables of its options.
    set(man ${CMAKE_BINARY_DIR}/share/man/man1)
    set(completions ${CMAKE_BINARY_DIR}/share/completions)
    file(MAKE_DIRECTORY ${man} ${completions})
    add_custom_command(OUTPUT ${man}/cadenza.1 ${completions}/cadenza ${completions}/_cadenza ${completions}/cadenza.fish
        COMMAND cadenza manual --folder ${man}
        COMMAND cadenza completion bash > ${completions}/cadenza
        COMMAND cadenza completion zsh > ${completions}/_cadenza
        COMMAND cadenza completion fish > ${completions}/cadenza.fish
        DEPENDS cadenza VERBATIM)
    add_custom_target(cadenza_manual ALL DEPENDS ${man}/cadenza.1)
    install(DIRECTORY ${man}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${completions}/cadenza DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${completions}/_cadenza DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${completions}/cadenza.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
install(TARGETS cadenza_shared cadenza_static
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY sdk/include/cadenza DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
    PATTERN "*.h" PATTERN "*.hpp")

foreach(file cadenza cadenza-sdk)
    configure_file(sdk/pkgconfig/${file}.pc.in ${CMAKE_BINARY_DIR}/pkgconfig/${file}.pc @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/pkgconfig/${file}.pc DESTINATION ${cadenza_pkgconfig})
endforeach()
configure_file(sdk/cmake/cadenzaConfig.cmake.in ${CMAKE_BINARY_DIR}/cmake/cadenzaConfig.cmake @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cmake/cadenzaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/cmake/cadenzaConfig.cmake ${CMAKE_BINARY_DIR}/cmake/cadenzaConfigVersion.cmake
    DESTINATION ${cadenza_cmake})

# share/cadenza: models/, template/, lua/, examples/.
foreach(pair "models|models" "sdk/template|template" "sdk/lua|lua" "examples|examples")
    string(REPLACE "|" ";" pair ${pair})
    list(GET pair 0 from)
    list(GET pair 1 to)
    install(DIRECTORY ${from}/ DESTINATION ${cadenza_share}/${to} PATTERN ".clang-format" EXCLUDE)
endforeach()
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
foreach(file README.md CHANGELOG.md LICENSE NOTICE)
    install(FILES ${file} DESTINATION ${CMAKE_INSTALL_DOCDIR})
endforeach()
