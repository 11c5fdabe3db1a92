# Embeds the roof's kernels as one text, in order.
#
#   cmake -DFOLDER=<this folder> -DARRAY=<out.c> -P roof.cmake
set(joined "#include <omp.h>\n")
foreach(name list streams units entry)
  file(READ "${FOLDER}/roof_${name}.h" text)
  string(APPEND joined "${text}\n")
endforeach()
string(HEX "${joined}" bytes)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE "${ARRAY}" "/* Made from src/device/roof/ by roof.cmake. */\n#include \"device/roof_text.h\"\n"
     "const unsigned char hr_roof_text[] = {${bytes}0};\nconst size_t hr_roof_text_length = sizeof hr_roof_text - 1;\n")
