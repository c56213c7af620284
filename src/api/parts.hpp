#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "attnctl/input.hpp"
#include "attnctl/model.hpp"
#include "attnctl/results.hpp"
#include "attnctl/run.hpp"
#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "base/pool.hpp"
#include "base/progress.hpp"
#include "input/batch.hpp"
#include "inspect/open_model.hpp"
#include "results/results.hpp"

// What the sources of the public interface share. The shared library does not show these functions.
namespace attn {

namespace core = attnctl;

struct Model::Parts {
  [[gnu::visibility("hidden")]] Parts(const std::string& given, const std::optional<std::string>& config);

  core::Warnings warnings;
  core::inspect::OpenModel open;
  std::mutex encoding;  // locked while texts are encoded
  ModelInfo info;
};

struct Batch::Parts {
  Model model;
  core::input::Batch batch = {};
  std::vector<Sequence> sequences = {};
};

/// The worker threads of one call, its progress, and the token that stops it.
struct [[gnu::visibility("hidden")]] CallWorkers {
  explicit CallWorkers(const RunOptions& options);

  core::StopScope stop;
  core::Pool pool;
  core::Progress progress;
};

[[nodiscard, gnu::visibility("hidden")]] Results public_tables(const std::vector<core::Table>& tables);

}  // namespace attn
