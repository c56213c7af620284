#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/head_axes.hpp"
#include "base/warnings.hpp"
#include "cli/options/options.hpp"
#include "cli/session.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "inspect/run_results.hpp"
#include "model/config/config.hpp"

// The stages that `bench` measures. Each does the same work as in `analyze` and `weights`.
namespace attnctl::cli {

enum class Stage {
  load,        // opens and binds the model, and reads every weight as float32
  forward,     // runs every layer to its end, and sums each pattern
  patterns,    // as forward, but the last layer stops after its patterns
  analyze,     // computes all pattern metrics
  capture,     // as forward, and keeps all patterns in memory
  write_json,  // writes the captured patterns, as `analyze` does
  write_csv,
  write_npz,
  weights  // computes the ranks and the similarity of heads
};

struct StageRow {
  Stage stage;
  std::string_view name;
  bool of_inputs;  // measured once per length
  bool captured;   // needs captured patterns in memory
  bool text;       // writes values as text
};
/// Returns all stages, in the order of the output.
[[nodiscard]] std::span<const StageRow> stage_rows();

/// Returns the FLOPs of the matrix products that a stage needs for sequences of these lengths. A multiply-add
/// counts as 2. Leaves out scores that the causal mask or the kind of attention hides. Returns nullopt for
/// stages without a forward pass. Throws Error(limit) if the count exceeds 64 bits.
[[nodiscard]] std::optional<std::uint64_t> stage_flops(Stage stage, const ModelConfig& config,
                                                       std::span<const std::size_t> lengths);

/// Runs stages on all heads. Output goes to a temporary file that is deleted.
class BenchStages {
 public:
  BenchStages(const ModelOptions& options, const OpenModel& open, Session& session);

  /// Sets the inputs of the following stages.
  void set_inputs(Batch batch);
  /// Returns the number of weights in all patterns of the inputs. Throws Error(limit) if it exceeds 64 bits.
  [[nodiscard]] std::uint64_t pattern_values() const;
  /// Runs a stage, and adds the warnings of its forward pass to `warnings`. Stages that need captured
  /// patterns capture them first if necessary.
  void run(Stage stage, Warnings& warnings);

 private:
  void load() const;
  void pass(std::span<Observer* const> observers, Warnings& warnings) const;
  void capture(Warnings& warnings);
  [[nodiscard]] inspect::InspectRequest request(inspect::Form form) const;
  [[nodiscard]] inspect::RunResults results(const inspect::InspectRequest& request, Warnings& warnings) const;
  void write_json() const;
  void write_csv() const;
  void write_npz() const;

  const ModelOptions& options_;
  const OpenModel& open_;
  Session& session_;
  Selection selection_;
  std::vector<ComponentHeads> components_;
  Batch batch_;
  std::vector<inspect::InputArray> captured_;
};

}  // namespace attnctl::cli
