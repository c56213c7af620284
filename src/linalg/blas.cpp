#include "linalg/blas.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <new>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cblas.h>

#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "base/memory.hpp"
#include "base/text.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::linalg {
namespace {

/// OpenBLAS kernels that need the same CPU instructions. The names are those in dynamic.c of OpenBLAS.
struct BlasKernels {
  bool CpuFeatures::*needs;
  std::string_view names;
};

// In ascending order of the vector instructions. For SSE kernels `needs` is null, although some need more
// than SSE3. Of these, attnctl chooses only Prescott, which needs SSE3.
constexpr std::array kBlasKernels{
    BlasKernels{nullptr,
                "Prescott Core2 Penryn Dunnington Nehalem Athlon Opteron Opteron_SSE3 Barcelona Bobcat Atom "
                "Nano"},
    BlasKernels{&CpuFeatures::avx, "Sandybridge"},
    BlasKernels{&CpuFeatures::fma4, "Bulldozer Piledriver Steamroller Excavator"},
    BlasKernels{&CpuFeatures::avx2_fma, "Haswell Zen"},
    BlasKernels{&CpuFeatures::avx512, "SkylakeX"},
    BlasKernels{&CpuFeatures::avx512_bf16, "Cooperlake SapphireRapids"},
};

/// Returns the kernels with this name; null if it is not known. Ignores case, as OpenBLAS does.
const BlasKernels* known_kernel(std::string_view name) {
  for (const BlasKernels& kernels : kBlasKernels) {
    for (const std::string_view each : split(kernels.names, ' ')) {
      if (lower_case(each) == lower_case(name)) return &kernels;
    }
  }
  return nullptr;
}

/// Returns the fastest of attnctl's own kernel sets that this CPU supports and, if `name` is not empty, that
/// has this name; null if there is none. An argument is null if the build does not contain the set.
template <typename Set>
const Set* supported_set(std::string_view name, const Set* avx512, const Set* avx2, const Set* baseline) {
  const CpuFeatures cpu = CpuFeatures::of_this_cpu();
  for (const Set* const set : {cpu.avx512 ? avx512 : nullptr, cpu.avx2_fma ? avx2 : nullptr, baseline}) {
    if (set != nullptr && (name.empty() || set->name == name)) return set;
  }
  return nullptr;
}

// The library is loaded with dlopen at the first use. It is not linked, because the constructor of OpenBLAS
// would then run before main, when attnctl cannot yet prevent the following:
// - OpenBLAS 0.3.21 uses SSE3 kernels, which are four to five times slower, on a CPU that it does not know.
//   attnctl then sets OPENBLAS_CORETYPE and loads the library again.
// - OpenBLAS maps a large buffer for each thread that it may start, and its threads compete with those of
//   attnctl. attnctl sets the *_NUM_THREADS variables to 1 before it loads the library.
// - If a memory limit of the process is too low, OpenBLAS requests the memory again and again without end.
//   attnctl first checks that the memory is available.
// In addition, a command without matrix products saves the 4 ms and 3 MiB of loading. The functions at the
// end of this file have the names of cblas and LAPACK functions, so that gemm.cpp and xtensor-blas can call
// them.

constexpr const char* kKernelVariable = "OPENBLAS_CORETYPE";

// The memory that OpenBLAS maps: its file and the Fortran libraries, and one work buffer per thread.
constexpr std::size_t kLibraryBytes = std::size_t{48} << 20U;
constexpr std::size_t kBufferBytes = std::size_t{136} << 20U;

std::atomic<std::size_t> expected_callers = 1;
std::atomic<bool> is_loaded = false;

bool can_map(std::size_t bytes, int protection) {
  void* const place = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return false;
  munmap(place, bytes);
  return true;
}

bool is_limited(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/// Calls end_out_of_memory() if a library gives up while it is loaded because it cannot allocate memory:
/// libgomp and libgfortran, which OpenBLAS needs, call exit(), or libgfortran calls itself without end.
class LoadingGuard {
 public:
  LoadingGuard() {
    [[maybe_unused]] static const int ignored = std::atexit([] {
      if (loading) end_out_of_memory();
    });
    loading = true;
    stack_t stack{};
    stack.ss_sp = stack_.data();
    stack.ss_size = stack_.size();
    sigaltstack(&stack, &old_stack_);
    struct sigaction crash {};
    crash.sa_handler = [](int) { end_out_of_memory(); };
    crash.sa_flags = SA_ONSTACK;
    sigaction(SIGSEGV, &crash, &old_action_);
  }
  ~LoadingGuard() {
    sigaction(SIGSEGV, &old_action_, nullptr);
    sigaltstack(&old_stack_, nullptr);
    loading = false;
  }
  LoadingGuard(const LoadingGuard&) = delete;
  LoadingGuard& operator=(const LoadingGuard&) = delete;

 private:
  static inline std::atomic<bool> loading = false;
  std::array<char, 65536> stack_;
  stack_t old_stack_{};
  struct sigaction old_action_ {};
};

class Library {
 public:
  Library() {
    std::vector<std::pair<const char*, std::optional<std::string>>> before;
    for (const char* const name :
         {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"}) {
      const char* const value = std::getenv(name);
      before.emplace_back(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
      setenv(name, "1", 1);
    }
    const CpuFeatures cpu = CpuFeatures::of_this_cpu();
    const char* const variable = std::getenv(kKernelVariable);
    std::string setting = variable == nullptr ? "" : variable;
    if (!runs_on(setting, cpu)) {
      warning_ = fmt::format(
          "OPENBLAS_CORETYPE={} is ignored, because this CPU lacks instructions that the kernel needs",
          escaped(setting));
      setting.clear();
    }
    if (setting.empty()) unsetenv(kKernelVariable);  // OpenBLAS would take an empty name for an unknown one
    open();
    if (find<char*()>("openblas_get_config") != nullptr) {
      choose_kernel(setting);
      // OpenBLAS and libgomp have read the variables. Other libraries of the process, such as those of a
      // Python program, may read them later and must get the values of the user.
      for (const auto& [name, value] : before) {
        if (value) {
          setenv(name, value->c_str(), 1);
        } else {
          unsetenv(name);
        }
      }
    }
    is_loaded = true;
  }

  /// Returns the address of a function, or null if the library does not have it.
  template <typename Function>
  [[nodiscard]] Function* find(const char* name) const {
    for (void* const handle : handles_) {
      if (void* const function = dlsym(handle, name)) return reinterpret_cast<Function*>(function);
    }
    return nullptr;
  }

  [[nodiscard]] std::string kernel() const {
    if (auto* const name = find<char*()>("openblas_get_corename")) return name();
    auto* const id = find<int()>("bli_arch_query_id");
    auto* const name = find<const char*(int)>("bli_arch_string");
    return id != nullptr && name != nullptr ? name(id()) : "unknown";
  }

  /// If the process has a memory limit, makes OpenBLAS map one work buffer per thread now, and checks before
  /// each buffer that the memory is available; throws Error(limit) if it is not. Without this function,
  /// OpenBLAS would map a buffer when a call finds no free one. No header of OpenBLAS declares
  /// blas_memory_alloc and blas_memory_free.
  void reserve_buffers(std::size_t threads) const {
    auto* const take = find<void*(int)>("blas_memory_alloc");
    auto* const give = find<void(void*)>("blas_memory_free");
    const bool limited = is_limited(RLIMIT_AS) || is_limited(RLIMIT_DATA);
    if (!limited || take == nullptr || give == nullptr) return;
    std::vector<void*> taken;
    while (taken.size() < threads && can_map(kBufferBytes, PROT_READ | PROT_WRITE)) taken.push_back(take(0));
    for (void* const buffer : taken) give(buffer);
    if (taken.size() == threads) return;
    fail(Status::limit,
         "not enough memory for the work buffers of BLAS ({} MiB for each of {} threads); raise ulimit -v "
         "and ulimit -d, or give a smaller --threads",
         kBufferBytes >> 20U, threads);
  }

  [[nodiscard]] const std::optional<std::string>& warning() const { return warning_; }

 private:
  void open() {
    // The library counts towards ulimit -v. The work buffer counts towards ulimit -v and ulimit -d.
    if (!can_map(kLibraryBytes + kBufferBytes, PROT_NONE) || !can_map(kBufferBytes, PROT_READ | PROT_WRITE))
      fail(Status::limit,
           "not enough memory for the BLAS library and its work buffer ({} MiB); raise ulimit -v and ulimit "
           "-d",
           (kLibraryBytes + kBufferBytes) >> 20U);
    {
      const LoadingGuard guard;
      for (const char* const name : {ATTNCTL_BLAS_LIBRARIES}) {
        handles_.push_back(dlopen(name, RTLD_LAZY | RTLD_LOCAL));
        if (handles_.back() == nullptr) break;
      }
    }
    if (handles_.back() != nullptr) return;
    const std::string reason = dlerror();
    if (means_no_memory(reason)) throw std::bad_alloc();
    fail(Status::environment, "cannot load the BLAS library: {}; install it or set LD_LIBRARY_PATH", reason);
  }

  /// If the user chose kernels with OPENBLAS_CORETYPE (`setting`), warns if OpenBLAS uses others.
  /// Otherwise, if OpenBLAS chose kernels for older instructions, loads the library again with
  /// widest_kernel(), and warns if OpenBLAS still uses such kernels.
  void choose_kernel(const std::string& setting) {
    const CpuFeatures cpu = CpuFeatures::of_this_cpu();
    if (!setting.empty()) {
      if (lower_case(setting) != lower_case(kernel()))
        warning_ = fmt::format("OPENBLAS_CORETYPE={} is not a kernel of this OpenBLAS, which uses {} instead",
                               escaped(setting), kernel());
    } else if (is_narrow(kernel(), cpu)) {
      for (void* const handle : std::exchange(handles_, {})) dlclose(handle);
      setenv(kKernelVariable, widest_kernel(cpu).c_str(), 1);
      open();
      if (is_narrow(kernel(), cpu))
        warning_ =
            fmt::format("OpenBLAS uses its {} kernels, which are slower than this CPU allows", kernel());
    }
  }

  std::vector<void*> handles_;
  std::optional<std::string> warning_;
};

const Library& library() {
  static const Library loaded;
  return loaded;
}

/// Returns the library. The first call in the process reserves the work buffers. The first call in each
/// thread sets the number of OpenMP threads to 1, because the variable OMP_NUM_THREADS has no effect if the
/// program loaded libgomp before attnctl set it.
const Library& library_for_products() {
  static const bool reserved = (library().reserve_buffers(expected_callers), true);
  thread_local const bool single_threaded = [] {
    if (auto* const set_threads = library().find<void(int)>("omp_set_num_threads")) set_threads(1);
    return reserved;
  }();
  (void)single_threaded;
  return library();
}

/// Returns the function `name` of the library, with the type of `function`.
template <auto& function>
auto* loaded(const char* name) {
  (void)library_for_products();
  using Function = std::remove_reference_t<decltype(function)>;
  static auto* const found = reinterpret_cast<Function*>(blas_function(name));
  return found;
}

/// Returns "oneMKL 2024.1" if the version text is "Intel(R) oneAPI Math Kernel Library Version 2024.1-Product
/// ...". Returns "oneMKL" if the text has no version.
std::string mkl_name(void (*write_version)(char*, int)) {
  std::array<char, 200> text{};
  write_version(text.data(), static_cast<int>(text.size()) - 1);
  const std::string_view all = text.data();
  constexpr std::string_view mark = "Version ";
  const std::size_t at = all.find(mark);
  if (at == std::string_view::npos) return "oneMKL";
  const std::string_view version = all.substr(at + mark.size());
  return "oneMKL " + std::string(version.substr(0, version.find_first_of(" -")));
}

/// Returns the name of the library file, after following links, with its folder, because different libraries
/// have the same file name: "blas/libblas.so.3.11.0", "blis-openmp/libblas.so.3". Returns "BLAS" if the file
/// is unknown.
std::string file_name() {
  Dl_info info{};
  auto* const product = library().find<void()>("cblas_sgemm");
  if (product == nullptr || dladdr(reinterpret_cast<void*>(product), &info) == 0 || info.dli_fname == nullptr)
    return "BLAS";
  std::error_code error;
  std::filesystem::path file = std::filesystem::canonical(info.dli_fname, error);
  if (error) file = info.dli_fname;
  return (file.parent_path().filename() / file.filename()).string();
}

}  // namespace

CpuFeatures CpuFeatures::of_this_cpu() {
  CpuFeatures has;
#if defined(__x86_64__)
  __builtin_cpu_init();
  has.avx = __builtin_cpu_supports("avx") != 0;
  has.fma4 = has.avx && __builtin_cpu_supports("fma4") != 0;
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool f16c =
      __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;  // Clang 14 has no name for it
  has.avx2_fma = f16c && __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  has.avx512 = has.avx2_fma && __builtin_cpu_supports("avx512f") != 0 &&
               __builtin_cpu_supports("avx512cd") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
               __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  has.avx512_bf16 = has.avx512 && __builtin_cpu_supports("avx512bf16") != 0;
#endif
  return has;
}

std::string widest_kernel(const CpuFeatures& cpu) {
  if (cpu.avx512) return "SkylakeX";
  if (cpu.avx2_fma) return "Haswell";
  return cpu.avx ? "Sandybridge" : "Prescott";
}

bool runs_on(std::string_view kernel, const CpuFeatures& cpu) {
  const BlasKernels* const known = known_kernel(kernel);
  return known == nullptr || known->needs == nullptr || cpu.*known->needs;
}

bool is_narrow(std::string_view kernel, const CpuFeatures& cpu) {
  const BlasKernels* const known = known_kernel(kernel);
  return known != nullptr && known < known_kernel(widest_kernel(cpu));
}

const GemmKernels* gemm_kernels_named(std::string_view name) {
  return supported_set(name, avx512_gemm_kernels(), avx2_gemm_kernels(), baseline_gemm_kernels());
}

const Kernels* kernels_named(std::string_view name) {
  return supported_set(name, avx512_kernels(), avx2_kernels(), baseline_kernels());
}

void* blas_function(const char* name) {
  void* const found = library_for_products().find<void>(name);
  if (found == nullptr)
    fail(Status::environment,
         "the BLAS library {} has no function {}; install another library, such as OpenBLAS", blas_name(),
         name);
  return found;
}

std::string blas_name() {
  const Library& blas = library();
  if (auto* const config = blas.find<char*()>("openblas_get_config")) {
    const std::string text = config();  // for example "OpenBLAS 0.3.21 DYNAMIC_ARCH ..."
    return text.substr(0, text.find(' ', text.find(' ') + 1));
  }
  if (auto* const version = blas.find<const char*()>("bli_info_get_version_str"))
    return std::string("BLIS ") + version();
  if (auto* const version = blas.find<void(char*, int)>("MKL_Get_Version_String")) return mkl_name(version);
  return file_name();
}

std::string blas_kernel() {
  return library().kernel();
}

std::optional<std::string> blas_warning() {
  return is_loaded ? library().warning() : std::nullopt;
}

void set_blas_callers(std::size_t threads) {
  expected_callers = threads;
}

}  // namespace attnctl::linalg

// The LAPACK functions (with _ at the end) have Fortran's calling convention: arguments are passed by
// address, and the lengths of strings follow. xtensor-blas calls dgesdd_, dgeev_ and dsyevd_ without these
// lengths, so this file declares the three functions without lengths.
extern "C" {

void cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE trans_a, CBLAS_TRANSPOSE trans_b, int m, int n, int k,
                 float alpha, const float* a, int lda, const float* b, int ldb, float beta, float* c,
                 int ldc) {
  attnctl::linalg::loaded<cblas_sgemm>("cblas_sgemm")(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb,
                                                      beta, c, ldc);
}

void cblas_dgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE trans_a, CBLAS_TRANSPOSE trans_b, int m, int n, int k,
                 double alpha, const double* a, int lda, const double* b, int ldb, double beta, double* c,
                 int ldc) {
  attnctl::linalg::loaded<cblas_dgemm>("cblas_dgemm")(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb,
                                                      beta, c, ldc);
}

void cblas_dsyrk(CBLAS_ORDER order, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, int n, int k, double alpha,
                 const double* a, int lda, double beta, double* c, int ldc) {
  attnctl::linalg::loaded<cblas_dsyrk>("cblas_dsyrk")(order, uplo, trans, n, k, alpha, a, lda, beta, c, ldc);
}

// NOLINTBEGIN(readability-identifier-naming): names of LAPACK
void dgesdd_(const char* jobz, const int* m, const int* n, double* a, const int* lda, double* s, double* u,
             const int* ldu, double* vt, const int* ldvt, double* work, const int* lwork, int* iwork,
             int* info) {
  attnctl::linalg::loaded<dgesdd_>("dgesdd_")(jobz, m, n, a, lda, s, u, ldu, vt, ldvt, work, lwork, iwork,
                                              info);
}

void dgeev_(const char* jobvl, const char* jobvr, const int* n, double* a, const int* lda, double* wr,
            double* wi, double* vl, const int* ldvl, double* vr, const int* ldvr, double* work,
            const int* lwork, int* info) {
  attnctl::linalg::loaded<dgeev_>("dgeev_")(jobvl, jobvr, n, a, lda, wr, wi, vl, ldvl, vr, ldvr, work, lwork,
                                            info);
}

void dsyevd_(const char* jobz, const char* uplo, const int* n, double* a, const int* lda, double* w,
             double* work, const int* lwork, int* iwork, const int* liwork, int* info) {
  attnctl::linalg::loaded<dsyevd_>("dsyevd_")(jobz, uplo, n, a, lda, w, work, lwork, iwork, liwork, info);
}
// NOLINTEND(readability-identifier-naming)
}

#ifdef __SANITIZE_THREAD__
/// OpenBLAS, and the libraries of report/png_pdf.cpp that start a thread, are not instrumented, so
/// ThreadSanitizer does not see their locks.
// NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
extern "C" const char* __tsan_default_suppressions() {
  return "race:libopenblas\nrace:libfontconfig\nrace:libglib\n";
}
#endif
