#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/warnings.hpp"
#include "cli/options/options.hpp"
#include "cli/session.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"

namespace attnctl::cli {

struct BenchInputOptions {
  std::vector<std::size_t> lengths;  // empty: 16, 128 and 512, those that the model has positions for
  std::optional<std::size_t> batch;  // inputs of a run; default 1
  InputOptions given;                // in place of seeded ones, all in one run
};

/// Inputs that are measured together.
struct BenchInputs {
  Batch batch;

  [[nodiscard]] std::vector<std::size_t> lengths() const;
  [[nodiscard]] std::size_t tokens() const;
  /// Tokens of each input; nullopt where they are of unlike lengths.
  [[nodiscard]] std::optional<std::size_t> length() const;
};

/// The inputs of each row, complete and such as the model takes. Throws Error(usage) for a length that the
/// model cannot take, and for lengths beside given inputs; what read_inputs throws.
[[nodiscard]] std::vector<BenchInputs> bench_inputs(const BenchInputOptions& options, OpenModel& open,
                                                    Warnings& warnings);

}  // namespace attnctl::cli
