#include "linalg/blas/blas_library.hpp"

#include <array>
#include <cstddef>
#include <dlfcn.h>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace attnctl::linalg {
namespace {

/// A function of a library that may not be there.
template <typename Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

/// Text of "NAME VERSION ..." to its second blank.
std::string first_two_words(std::string_view text) {
  const std::size_t after_first = text.find(' ');
  return std::string(text.substr(0, text.find(' ', after_first + 1)));
}

std::string mkl_name() {
  std::array<char, 200> text{};
  find<void(char*, int)>("MKL_Get_Version_String")(text.data(), static_cast<int>(text.size()) - 1);
  const std::string_view all =
      text.data();  // "Intel(R) oneAPI Math Kernel Library Version 2024.1-Product Build ..."
  constexpr std::string_view mark = "Version ";
  const std::size_t at = all.find(mark);
  if (at == std::string_view::npos) return "oneMKL";
  const std::string_view version = all.substr(at + mark.size());
  return "oneMKL " + std::string(version.substr(0, version.find_first_of(" -")));
}

/// The file that products come from, links followed, and its folder, which tells libraries of the same file
/// name apart: "blas/libblas.so.3.11.0", "blis-openmp/libblas.so.3".
std::string file_name() {
  void* const product = dlsym(RTLD_DEFAULT, "cblas_sgemm");
  Dl_info info{};
  if (product == nullptr || dladdr(product, &info) == 0 || info.dli_fname == nullptr) return "BLAS";
  std::error_code error;
  std::filesystem::path file = std::filesystem::canonical(info.dli_fname, error);
  if (error) file = info.dli_fname;
  return (file.parent_path().filename() / file.filename()).string();
}

}  // namespace

bool is_openblas() {
  static const bool is = find<char*()>("openblas_get_config") != nullptr;
  return is;
}

std::string blas_library_name() {
  if (is_openblas())
    return first_two_words(find<char*()>("openblas_get_config")());  // "OpenBLAS 0.3.21 DYNAMIC..."
  if (auto* const version = find<const char*()>("bli_info_get_version_str"))
    return std::string("BLIS ") + version();
  if (find<void(char*, int)>("MKL_Get_Version_String") != nullptr) return mkl_name();
  return file_name();
}

std::string blas_library_kernel() {
  if (auto* const name = find<char*()>("openblas_get_corename")) return name();
  auto* const id = find<int()>("bli_arch_query_id");
  auto* const name = find<const char*(int)>("bli_arch_string");
  return id != nullptr && name != nullptr ? name(id()) : "";
}

bool is_pthread_openblas() {
  constexpr int pthread_flavour = 1;
  auto* const flavour = find<int()>("openblas_get_parallel");
  return flavour != nullptr && flavour() == pthread_flavour;
}

// Of OpenBLAS, which has no header for them.
void* take_openblas_buffer() {
  auto* const take = find<void*(int)>("blas_memory_alloc");
  return is_openblas() && take != nullptr ? take(0) : nullptr;
}

void give_openblas_buffer(void* buffer) {
  if (buffer != nullptr) find<void(void*)>("blas_memory_free")(buffer);
}

void set_blas_threads(int count) {
  if (auto* const openblas = find<void(int)>("openblas_set_num_threads")) return openblas(count);
  if (auto* const mkl = find<void(int)>("MKL_Set_Num_Threads")) return mkl(count);
  if (auto* const blis = find<void(std::ptrdiff_t)>("bli_thread_set_num_threads")) return blis(count);
}

}  // namespace attnctl::linalg
