# Joins the prelude's files into one text, in order, and writes it as a header (for the tests) and as an array of
# bytes (for the library). NAME_scalar is the template NAME for scalars in place of lanes, NAME_i64 that for 64 bits.
#
# The text that emitted CUDA begins with is made beside it: what the machine does by instructions of its own, then the
# scalar functions of the CPU that it lacks, as device functions. Of two definitions of a name the first counts.
#
#   cmake -DFOLDER=<this folder> -DHEADER=<out.h> -DARRAY=<out.c> -P prelude.cmake
set(PRELUDE_FILES lanes_avx512 lanes_gnu lanes scalars convert_bits convert_bits_scalar convert_lanes convert_scalars
    math_avx512 math_limits math_avx2 math_plain math_narrow math_ways math_limits_scalar math_plain_scalar math_trig math_f32 math_f32_scalar
    math_pairs math_f64 whole_powers whole whole_compare whole_i64 whole_bits whole_bits_i64 whole_lanes philox_keys philox_words philox_blocks random stream order places shares scans)

# A template has its types for holes: HOLE=WHAT, which stands for a whole word or, with a _ at its end, for the beginning
# of one.
set(HOLES_scalar vf_=f32_ vi_=i32_ vm_=b_ vf=float vi=int32_t vu=uint32_t vm=bool)
set(HOLES_i64 i32_=i64_ int32_t=int64_t uint32_t=uint64_t 31=63)

function(read_file name out)
  string(REGEX REPLACE "_(scalar|i64)$" "" file "${name}")
  file(READ "${FOLDER}/cpu/${file}.h" text)
  if(NOT file STREQUAL name)
    string(REPLACE "${file}_" "" type "${name}")
    set(edge "[^A-Za-z0-9_]")
    string(REPLACE "_from_vi(" "_from_i32(" text "${text}")
    foreach(hole ${HOLES_${type}})
      string(REGEX MATCH "(.*[^_])(_?)=(.*)" hole "${hole}")
      if(CMAKE_MATCH_2)
        string(REGEX REPLACE "(${edge})${CMAKE_MATCH_1}_" "\\1${CMAKE_MATCH_3}" text "${text}")
      else()
        string(REGEX REPLACE "(${edge})${CMAKE_MATCH_1}(${edge})" "\\1${CMAKE_MATCH_3}\\2" text "${text}")
      endif()
    endforeach()
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# Writes a text as a file, and gives its bytes as an array's.
function(write_text file text out)
  file(WRITE "${file}" "${text}")
  file(READ "${file}" bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  set(${out} "${bytes}" PARENT_SCOPE)
endfunction()

set(joined "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <string.h>\n")
foreach(name ${PRELUDE_FILES})
  read_file(${name} text)
  if(name MATCHES "_avx512$")
    string(APPEND joined "\n#if defined __AVX512F__ && defined __AVX512BW__ && defined __AVX512DQ__ && defined __AVX512VL__\n")
  elseif(name MATCHES "^(lanes_gnu|math_limits|math_plain|philox_blocks)$")
    string(APPEND joined "\n#else\n")
  elseif(name MATCHES "_avx2$")
    string(APPEND joined "\n#if HR_LANES == 8\n")
  elseif(name STREQUAL philox_words)
    string(APPEND joined "\n#if HR_LANES >= 8\n")
  elseif(name STREQUAL math_narrow)
    string(APPEND joined "\n#endif\n\n#endif\n\n#if HR_LANES > 4\n")
  elseif(name STREQUAL math_ways)
    string(APPEND joined "\n#endif\n\n#if HR_LANES != 8\n")
  elseif(name MATCHES "^(lanes|math_limits_scalar|random)$")
    string(APPEND joined "\n#endif\n")
  endif()
  string(APPEND joined "\n${text}")
endforeach()
write_text("${HEADER}" "${joined}" bytes)

set(joined "")
foreach(name cuda_machine gemm_partials gemm_ampere gemm_operands gemm_stream gemm_hopper_block gemm_hopper attention_classes attention_items attention_softmax attention_hopper attention_split attention_backward cuda_convert gemm_unpack gemm_thin cuda_math cuda_memory cuda_reduce cuda_ring cuda_merge cuda_staged cuda_order cuda_random cuda_list)
  file(READ "${FOLDER}/cuda/${name}.h" text)
  string(APPEND joined "\n${text}")
endforeach()
foreach(name scalars convert_bits_scalar convert_scalars math_f32_scalar math_f64 whole_powers whole whole_compare whole_i64 whole_bits whole_bits_i64 whole_lanes)
  read_file(${name} text)
  string(REPLACE "static inline " "static __device__ inline " text "${text}")
  # Sizes divide, on the host too.
  string(REPLACE "static __device__ inline int64_t i64_floordiv(" "static __host__ __device__ inline int64_t i64_floordiv(" text "${text}")
  string(APPEND joined "\n${text}")
endforeach()
write_text("${HEADER}.cuda" "${joined}" cuda_bytes)

# The PTX wrappers. The copies by tensor maps are there for each rank: their holes are the rank, the coordinates'
# parameters, and the operands in the assembly, which begin at a number that the hole names.
set(ptx "")
foreach(name ptx_address ptx_mbarrier ptx_threads ptx_copy ptx_tensor_map ptx_matrix ptx_product)
  file(READ "${FOLDER}/ptx/${name}.h" text)
  string(APPEND ptx "\n${text}")
endforeach()
file(READ "${FOLDER}/ptx/ptx_tensor_copy.h" template)
foreach(rank 1 2 3 4 5)
  set(text "${template}")
  set(parameters "")
  set(values "")
  foreach(axis RANGE 1 ${rank})
    list(APPEND parameters "int c${axis}")
    list(APPEND values "\"r\"(c${axis})")
  endforeach()
  foreach(first 2 3 4 5)
    math(EXPR last "${first} + ${rank} - 1")
    set(operands "")
    foreach(operand RANGE ${first} ${last})
      list(APPEND operands "%${operand}")
    endforeach()
    list(JOIN operands ", " operands)
    string(REPLACE "COORDINATES_FROM_${first}" "${operands}" text "${text}")
  endforeach()
  list(JOIN parameters ", " parameters)
  list(JOIN values ", " values)
  string(REPLACE "PARAMETERS" "${parameters}" text "${text}")
  string(REPLACE "COORDINATES" "${values}" text "${text}")
  string(REPLACE "RANK" "${rank}" text "${text}")
  string(APPEND ptx "\n${text}")
endforeach()
write_text("${HEADER}.ptx" "${ptx}" ptx_bytes)
file(WRITE "${ARRAY}" "/* Made from src/emit/templates/ by prelude.cmake. */\n#include \"emit/prelude_text.h\"\n"
     "const unsigned char hr_prelude_text[] = {${bytes}0};\nconst size_t hr_prelude_length = sizeof hr_prelude_text - 1;\n"
     "const unsigned char hr_prelude_cuda_text[] = {${cuda_bytes}0};\n"
     "const size_t hr_prelude_cuda_length = sizeof hr_prelude_cuda_text - 1;\n"
     "const unsigned char hr_prelude_ptx_text[] = {${ptx_bytes}0};\n"
     "const size_t hr_prelude_ptx_length = sizeof hr_prelude_ptx_text - 1;\n")
