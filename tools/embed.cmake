# Writes texts as arrays of bytes, each ended by a 0. Called by embed_texts() of CMakeLists.txt.
#
#   cmake -DROOT=<source folder> -DHEADER=<what declares them> -DTEXTS=<name=file[+file...] ...> -DARRAY=<out.c> -P embed.cmake
set(source "/* Made by tools/embed.cmake. */\n#include \"${HEADER}\"\n")
separate_arguments(TEXTS)
foreach(entry ${TEXTS})
  string(REGEX MATCH "^([^=]+)=(.*)$" entry "${entry}")
  set(name "${CMAKE_MATCH_1}")
  string(REPLACE "+" ";" files "${CMAKE_MATCH_2}")
  set(bytes "")
  foreach(file ${files})
    file(READ "${ROOT}/${file}" more HEX)
    string(APPEND bytes "${more}")
  endforeach()
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND source "const unsigned char ${name}[] = {${bytes}0};\n")
endforeach()
file(WRITE "${ARRAY}" "${source}")
