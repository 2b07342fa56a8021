# cmake -DIN=FILE -DOUT=FILE.c -DNAME=IDENTIFIER -P Embed.cmake: a file's bytes, and a NUL, as an array of C.
file(READ "${IN}" hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE "${OUT}" "#include <stddef.h>\n\nextern const unsigned char ${NAME}[];\nextern const size_t ${NAME}_len;\n"
    "const unsigned char ${NAME}[] = {\n${bytes}0};\nconst size_t ${NAME}_len = sizeof ${NAME} - 1;\n")
