# The portable bundle: what tests/gpu/check.sh needs on a machine that has a GPU and Python, but no compiler and no
# LLVM. It is made in a build of its own beside this one, with LLVM's archives linked into a library that the bundle
# carries.
set(bundle ${PROJECT_BINARY_DIR}/traincc-gpu)
if(NOT TCC_CARRY_LLVM)
  set(bundle ${PROJECT_BINARY_DIR}/gpu-bundle/traincc-gpu)
  add_custom_target(gpu-bundle
    COMMAND ${CMAKE_COMMAND} -S ${PROJECT_SOURCE_DIR} -B ${PROJECT_BINARY_DIR}/gpu-bundle -G ${CMAKE_GENERATOR}
    -DCMAKE_BUILD_TYPE=Release
            -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER} -DLLVM_DIR=${LLVM_DIR} -DTCC_CARRY_LLVM=ON
            -DTCC_TEST_CONFIGURATIONS=OFF
    COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR}/gpu-bundle --target bundle-files
    COMMAND ${CMAKE_COMMAND} -E chdir ${PROJECT_BINARY_DIR}/gpu-bundle ${CMAKE_COMMAND} -E tar cJf
    ${PROJECT_BINARY_DIR}/traincc-gpu.tar.xz traincc-gpu
    COMMAND ${CMAKE_COMMAND} -DBUNDLE=${bundle} -P ${CMAKE_CURRENT_SOURCE_DIR}/gpu/bundle_size.cmake
    COMMAND ${CMAKE_COMMAND} -E echo "packed: ${PROJECT_BINARY_DIR}/traincc-gpu.tar.xz"
    USES_TERMINAL VERBATIM)
  return()
endif()

file(GLOB test_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/gpu/test_*.c)
set(tests "")
foreach(source ${test_sources})
  get_filename_component(name ${source} NAME_WE)
  list(APPEND tests ${name})
endforeach()
set(programs tcc-train tcc-bench gpu-bandwidth gpu-matmul)
list(TRANSFORM tests REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE test_files)
list(TRANSFORM programs REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE program_files)
set(carried "")
foreach(name libcmocka.so.0 libyaml-0.so.2 libcjson.so.1 libutf8proc.so.2 libpng16.so.16 libjpeg.so.62 libwebp.so.7
        libsqlite3.so.0 libz.so.1 libzstd.so.1)
  find_library(carried_${name} NAMES ${name} REQUIRED)
  file(REAL_PATH ${carried_${name}} file)
  list(APPEND carried COMMAND ${CMAKE_COMMAND} -E copy ${file} ${bundle}/lib/${name})
endforeach()
add_custom_target(bundle-files
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${bundle}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${bundle}/bin ${bundle}/lib ${bundle}/tests/bin ${bundle}/tests/gpu
  ${bundle}/tests/bench ${bundle}/tests/numerics/golden ${bundle}/tools
  COMMAND ${CMAKE_COMMAND} -E copy ${program_files} ${bundle}/bin
  COMMAND ${CMAKE_COMMAND} -E copy ${test_files} ${bundle}/tests/bin
  COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:run_stored> ${bundle}/tests
  COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:tcc_llvm> $<TARGET_FILE:traincc_static>
  $<TARGET_FILE:traincc_rt_static> ${bundle}/lib
  ${carried}
  COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_CURRENT_SOURCE_DIR}/gpu/check.sh ${CMAKE_CURRENT_SOURCE_DIR}/gpu/check.py
  ${bundle}/tests/gpu
  COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_CURRENT_SOURCE_DIR}/bench/compare.py
  ${CMAKE_CURRENT_SOURCE_DIR}/bench/configs.py
          ${CMAKE_CURRENT_SOURCE_DIR}/bench/peer.py ${CMAKE_CURRENT_SOURCE_DIR}/bench/models_torch.py
          ${bundle}/tests/bench
  COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_CURRENT_SOURCE_DIR}/numerics/golden/segmentation.py
  ${CMAKE_CURRENT_SOURCE_DIR}/numerics/golden/shared.json ${bundle}/tests/numerics/golden
  COMMAND ${CMAKE_COMMAND} -E copy_directory ${PROJECT_SOURCE_DIR}/tools/recipes ${bundle}/tools/recipes
  DEPENDS ${programs} ${tests} run_stored tcc_llvm VERBATIM)
