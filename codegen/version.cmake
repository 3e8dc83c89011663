# SPDX-License-Identifier: MIT
# Writes OUT, a C file with a hash of the sources that LIST names, one a line, which are all of the library: what it
# makes of a graph is their doing, so a change in any of them is another compiler to the cache.
file(STRINGS ${LIST} sources)
set(all "")
foreach(source ${sources})
  file(SHA256 ${source} hash)
  string(APPEND all ${hash})
endforeach()
string(SHA256 all "${all}")
file(WRITE ${OUT} "/* SPDX-License-Identifier: MIT */\nconst char tcc__compiler_sources[] = \"${all}\";\n")
