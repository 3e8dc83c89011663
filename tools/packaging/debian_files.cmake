# What Debian wants of a package before it is packed: a changelog, and it and the man pages compressed.
set(usr ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr)
if(NOT IS_DIRECTORY ${usr})
  set(usr ${CPACK_TEMPORARY_DIRECTORY}/usr)
endif()
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(changelog ${usr}/share/doc/traincc/changelog.Debian)
file(WRITE ${changelog} "traincc (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * The version ${CPACK_PACKAGE_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
file(GLOB pages ${usr}/share/man/man*/*)
execute_process(COMMAND gzip -9n ${changelog} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND gzip -9nf ${pages} COMMAND_ERROR_IS_FATAL ANY)
