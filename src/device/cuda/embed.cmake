# Embeds the CUDA C that this folder's files are, each as one text: hr_cuda_<file>_text.
#
#   cmake -DFOLDER=<this folder> -DARRAY=<out.c> -P embed.cmake
file(GLOB files "${FOLDER}/*.cuh")
set(out "/* Made from src/device/cuda/ by embed.cmake. */\n#include \"device/cuda_text.h\"\n")
foreach(path ${files})
  get_filename_component(name "${path}" NAME_WE)
  file(READ "${path}" text HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${text}")
  string(APPEND out "const unsigned char hr_cuda_${name}_text[] = {${bytes}0};\n")
endforeach()
file(WRITE "${ARRAY}" "${out}")
