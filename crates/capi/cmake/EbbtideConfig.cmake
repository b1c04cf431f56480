# `Ebbtide::ebbtide`, the shared library, and `Ebbtide::static`, wherever the installation was moved to.
get_filename_component(_ebbtide_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(_ebbtide_lib "${_ebbtide_prefix}/lib")
# On Debian, cargo-c has a folder for each architecture.
if(EXISTS "${_ebbtide_lib}/${CMAKE_LIBRARY_ARCHITECTURE}/libebbtide.so")
  set(_ebbtide_lib "${_ebbtide_lib}/${CMAKE_LIBRARY_ARCHITECTURE}")
endif()
if(NOT TARGET Ebbtide::ebbtide)
  add_library(Ebbtide::ebbtide SHARED IMPORTED)
  set_target_properties(Ebbtide::ebbtide PROPERTIES
    IMPORTED_LOCATION "${_ebbtide_lib}/libebbtide.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_ebbtide_prefix}/include")
  add_library(Ebbtide::static STATIC IMPORTED)
  set_target_properties(Ebbtide::static PROPERTIES
    IMPORTED_LOCATION "${_ebbtide_lib}/libebbtide.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_ebbtide_prefix}/include"
    INTERFACE_LINK_LIBRARIES "gcc_s;pthread;dl;m")
endif()
