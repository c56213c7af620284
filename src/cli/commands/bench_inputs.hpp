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
  std::vector<std::size_t> lengths;  // empty: 16, 128 and 512, up to the model's positions
  std::optional<std::size_t> batch;  // number of inputs per run; default 1
  InputOptions given;                // used instead of seeded inputs, all in one run
};

/// Inputs that are measured together.
struct BenchInputs {
  Batch batch;

  [[nodiscard]] std::vector<std::size_t> lengths() const;
  [[nodiscard]] std::size_t tokens() const;
  /// Returns the number of tokens per input; nullopt if the inputs differ in length.
  [[nodiscard]] std::optional<std::size_t> length() const;
};

/// Returns the complete inputs of each row, such as the model accepts. Throws Error(usage) for a length that
/// the model does not support, and if --lengths or --batch is given together with inputs. Also throws the
/// errors of read_inputs().
[[nodiscard]] std::vector<BenchInputs> bench_inputs(const BenchInputOptions& options, OpenModel& open,
                                                    Warnings& warnings);

}  // namespace attnctl::cli
