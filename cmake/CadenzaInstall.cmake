# What `cmake --install` puts into a prefix. Nothing in it names the prefix, so it may be moved as a whole: the program and
# the library find their plugins from where they lie, the .pc and CMake files from where they were read.
include(CMakePackageConfigHelpers)
set(CADENZA_SOVERSION 0)
set(cadenza_share ${CMAKE_INSTALL_DATADIR}/cadenza)
set(cadenza_pkgconfig ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(cadenza_cmake ${CMAKE_INSTALL_LIBDIR}/cmake/cadenza)
file(RELATIVE_PATH CADENZA_PC_TO_PREFIX /p/${cadenza_pkgconfig} /p)
file(RELATIVE_PATH CADENZA_CMAKE_TO_PREFIX /p/${cadenza_cmake} /p)

if(TARGET cadenza)
    install(TARGETS cadenza RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(TARGETS cadenza_shared cadenza_static
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY sdk/include/cadenza DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

foreach(file cadenza cadenza-sdk)
    configure_file(sdk/pkgconfig/${file}.pc.in ${CMAKE_BINARY_DIR}/pkgconfig/${file}.pc @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/pkgconfig/${file}.pc DESTINATION ${cadenza_pkgconfig})
endforeach()
configure_file(sdk/cmake/cadenzaConfig.cmake.in ${CMAKE_BINARY_DIR}/cmake/cadenzaConfig.cmake @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cmake/cadenzaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/cmake/cadenzaConfig.cmake ${CMAKE_BINARY_DIR}/cmake/cadenzaConfigVersion.cmake
    DESTINATION ${cadenza_cmake})

# share/cadenza: models/, template/, lua/, examples/; those that exist.
foreach(pair "models|models" "sdk/template|template" "sdk/lua|lua" "examples|examples")
    string(REPLACE "|" ";" pair ${pair})
    list(GET pair 0 from)
    list(GET pair 1 to)
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${from})
        install(DIRECTORY ${from}/ DESTINATION ${cadenza_share}/${to} PATTERN ".clang-format" EXCLUDE)
    endif()
endforeach()
if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/docs)
    install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()
foreach(file README.md CHANGELOG.md LICENSE)
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${file})
        install(FILES ${file} DESTINATION ${CMAKE_INSTALL_DOCDIR})
    endif()
endforeach()

# The build tree has the shape of a prefix: the program finds the shipped model there too.
if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/models)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/share/cadenza)
    file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/models ${CMAKE_BINARY_DIR}/share/cadenza/models SYMBOLIC)
endif()
