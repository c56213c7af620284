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
#include "cli/analyses/results.hpp"
#include "cli/options/options.hpp"
#include "cli/session.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"

// The parts of a run that `bench` measures, each as `analyze` and `weights` do it.
namespace attnctl::cli {

enum class Stage {
  load,        // opened and bound, every weight as float32
  forward,     // every layer to its end, each pattern summed
  patterns,    // the last layer stops after its patterns
  analyze,     // all metrics of patterns
  capture,     // as forward, all patterns kept in memory
  write_json,  // the captured patterns as `analyze` writes them
  write_csv,
  write_npz,
  weights  // similarity of heads, ranks
};

struct StageRow {
  Stage stage;
  std::string_view name;
  bool of_inputs;  // measured once for each length
  bool captured;   // works on patterns in memory
  bool text;       // writes a value as text
};
/// In the order of the rows.
[[nodiscard]] std::span<const StageRow> stage_rows();

/// Products of matrices that a stage needs for sequences of these lengths; a multiply-add is 2. Of
/// scores that a causal mask or the kind of attention hides, none. nullopt for what is no forward pass.
/// Throws Error(limit) over 64 bits.
[[nodiscard]] std::optional<std::uint64_t> stage_flops(Stage stage, const ModelConfig& config,
                                                       std::span<const std::size_t> lengths);

/// Runs stages, all heads selected. What they write goes to a temporary file that does not stay.
class BenchStages {
 public:
  BenchStages(const ModelOptions& options, const OpenModel& open, Session& session);

  /// The inputs of the stages from here on.
  void set_inputs(Batch batch);
  /// How many weights all patterns of the inputs have. Throws Error(limit) over 64 bits.
  [[nodiscard]] std::uint64_t pattern_values() const;
  /// `warnings` takes those of the pass. Stages that work on patterns in memory capture them first where they
  /// were not.
  void run(Stage stage, Warnings& warnings);

 private:
  void load() const;
  void pass(std::span<Observer* const> observers, Warnings& warnings) const;
  void capture(Warnings& warnings);
  [[nodiscard]] RunResults results() const;
  void write_json() const;
  void write_csv() const;
  void write_npz() const;

  const ModelOptions& options_;
  const OpenModel& open_;
  Session& session_;
  Selection selection_;
  std::vector<ComponentHeads> components_;
  Includes includes_;
  std::optional<WeightsAnalysis> no_weights_;
  Batch batch_;
  std::vector<InputArray> captured_;
};

}  // namespace attnctl::cli
