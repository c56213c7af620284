#include "cli/session.hpp"

#include <cstdio>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/files/output_file.hpp"
#include "base/memory.hpp"
#include "linalg/blas.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::cli {
std::string version_text() {
  return fmt::format("attnctl {} ({}, kernel {}, {})", ATTNCTL_VERSION, linalg::blas_name(),
                     linalg::blas_kernel(), linalg::kernels().name);
}

void write_to_stdout(std::string_view text) {
  OutputFile out("-");
  out.write(text);
  out.commit();
}

Session::Session(const ResourceOptions& run)
    : pool(run.threads == 0 ? available_threads() : run.threads),
      progress(run.progress, run.quiet),
      options(run) {
  if (run.memory != 0) give_back_freed_memory();
  linalg::set_blas_callers(pool.size());
}

OpenModel open_model(const ModelOptions& options, Warnings& warnings) {
  return inspect::open_model(options.model, options.config, warnings);
}

Record tool_record(const Session& session) {
  Record record;
  record.set("version", ATTNCTL_VERSION)
      .set("blas", linalg::blas_name())
      .set("kernel", linalg::blas_kernel())
      .set("threads", session.pool.size());
  return record;
}

Section warnings_section(const Warnings& warnings) {
  List items;
  for (const Warning& warning : warnings.list()) items.emplace_back(warning_record(warning));
  return {"warnings", "warning", std::move(items)};
}

void print_warnings(const Session& session) {
  if (session.options.quiet) return;
  for (const Warning& warning : session.warnings.list()) {
    const std::string times = warning.count > 1 ? fmt::format(" ({} times)", warning.count) : "";
    std::fprintf(stderr, "attnctl: warning: %s%s\n", escaped(warning.message).c_str(), times.c_str());
  }
}

void check_before_commit(const Session& session) {
  check_mapped_files();
  if (!session.options.strict) return;
  for (const Warning& warning : session.warnings.list()) {
    if (warning.code.starts_with("non_finite")) {
      fail(Status::non_finite, "{} (--strict)", warning.message);
    }
  }
}

}  // namespace attnctl::cli
