# Embeds the main loop of matrix products as text.
#
#   cmake -DFOLDER=<this folder> -DARRAY=<out.c> -P contract.cmake
set(source "/* Made from src/emit/contract/ by contract.cmake. */\n#include \"emit/contract_text.h\"\n")
foreach(name blocks mainloop)
  file(READ "${FOLDER}/contract_${name}.h" bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND source "const unsigned char hr_contract_${name}_text[] = {${bytes}0};\n")
endforeach()
file(WRITE "${ARRAY}" "${source}")
