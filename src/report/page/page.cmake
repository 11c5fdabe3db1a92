# Embeds the style sheet and the script of a diagnosis's page as two texts.
#
#   cmake -DFOLDER=<this folder> -DARRAY=<out.c> -P page.cmake
set(text "/* Made from src/report/page/ by page.cmake. */\n#include \"report/diagnosis_page.h\"\n")
foreach(pair "style=diagnosis.css" "script=timeline.js")
  string(REPLACE "=" ";" pair "${pair}")
  list(GET pair 0 name)
  list(GET pair 1 file)
  file(READ "${FOLDER}/${file}" bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND text "const unsigned char hr_page_${name}[] = {${bytes}0};\n"
         "const size_t hr_page_${name}_length = sizeof hr_page_${name} - 1;\n")
endforeach()
file(WRITE "${ARRAY}" "${text}")
