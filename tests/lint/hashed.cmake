# SPDX-License-Identifier: MIT
# The hash of our sources in the cache's keys is of all of the library's files, which ROOT has and SOURCES must list,
# and it changes with each folder's.
cmake_minimum_required(VERSION 3.20)
file(STRINGS ${SOURCES} listed)
file(GLOB_RECURSE all ${ROOT}/frontend/*.[ch] ${ROOT}/frontend/*.def ${ROOT}/ir/*.[ch] ${ROOT}/ir/*.def
     ${ROOT}/passes/*.[ch] ${ROOT}/passes/*.def ${ROOT}/codegen/*.[ch] ${ROOT}/codegen/*.def
     ${ROOT}/runtime/*.[ch] ${ROOT}/runtime/*.def)
list(FILTER all EXCLUDE REGEX "/runtime/comm_mpi/") # in modules of their own, which move bytes and decide nothing
set(missing ${all})
list(REMOVE_ITEM missing ${listed})
if(missing)
  message(FATAL_ERROR "not in the hash of the library's sources: ${missing}")
endif()

# key(variable sources...): what version.cmake makes of them.
function(key result)
  set(LIST ${CMAKE_CURRENT_BINARY_DIR}/list)
  set(OUT ${CMAKE_CURRENT_BINARY_DIR}/version.c)
  string(REPLACE ";" "\n" lines "${ARGN}")
  file(WRITE ${LIST} "${lines}\n")
  include(${ROOT}/codegen/version.cmake)
  file(READ ${OUT} text)
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

key(plain ${listed})
set(folders "")
foreach(source ${listed})
  get_filename_component(folder ${source} DIRECTORY)
  if(folder IN_LIST folders)
    continue()
  endif()
  list(APPEND folders ${folder})
  file(READ ${source} text)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/changed "${text} ")
  set(changed ${listed})
  list(TRANSFORM changed REPLACE "^${source}$" ${CMAKE_CURRENT_BINARY_DIR}/changed)
  key(other ${changed})
  if(other STREQUAL plain)
    message(FATAL_ERROR "${source} with a byte more gives the same key")
  endif()
endforeach()
list(LENGTH folders count)
list(LENGTH listed files)
message(STATUS "${files} files in ${count} folders are in the key")
