# The vector operations for machines with AVX2 and FMA: one file, compiled for them; vec.c asks the machine first.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set_source_files_properties(vec/vec_avx2.c PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma")
endif()
# The loops of a draw are written so that they vectorise.
set_source_files_properties(random/wide.c PROPERTIES COMPILE_OPTIONS "-O3")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set_source_files_properties(random/wide_avx2.c PROPERTIES COMPILE_OPTIONS "-O3;-mavx2")
endif()
