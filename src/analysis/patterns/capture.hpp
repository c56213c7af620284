#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/head_axes.hpp"
#include "forward/run.hpp"
#include "results/results.hpp"

namespace attnctl::analysis {

enum class Captured { pattern, scores, queries, keys, values, z, output, logits };
inline constexpr std::array kAllCaptured{Captured::pattern, Captured::scores, Captured::queries,
                                         Captured::keys,    Captured::values, Captured::z,
                                         Captured::output,  Captured::logits};

[[nodiscard]] std::string_view name_of(Captured what);

/// The layout of the captured arrays. The shapes for one sequence with n queries, m keys and V vocabulary
/// entries (k: query/key width, v: value width) are:
///    pattern, scores [layers, heads, n, m];  queries [layers, heads, n, k];  keys [layers, kv_heads, m, k];
///    values [layers, kv_heads, m, v];  z [layers, heads, n, v];  output [layers, n, d_out];  logits [n, V].
/// Arrays contain the selected layers and heads, and the key/value heads that the selected heads use. If the
/// selected heads differ between layers, one axis [selected] replaces the axes [layers, heads]; the same
/// holds for the key/value heads. All selected heads must be in one component of the model. The component
/// determines which sequence has the queries and which has the keys. In encoder-decoder models, logits are
/// those of the target sequence.
class CaptureLayout {
 public:
  /// Throws std::logic_error if no head is selected. `config` must outlive this object.
  CaptureLayout(const forward::Selection& selection, const model::ModelConfig& config);

  /// Returns whether the model computes an array. Values, z and output need W_V; logits need an output head.
  [[nodiscard]] bool available(Captured what) const;
  /// Throws Error(usage) if the selected heads differ in the width of the array, k or v.
  [[nodiscard]] Shape shape(Captured what, const input::Sequence& sequence) const;
  [[nodiscard]] model::Component component() const { return first_layer().component; }
  [[nodiscard]] const HeadAxes& heads() const { return heads_; }
  [[nodiscard]] const HeadAxes& kv_heads() const { return kv_heads_; }

 private:
  [[nodiscard]] const model::LayerConfig& first_layer() const {
    return config_.layers.at(heads_.layers().front());
  }

  HeadAxes heads_;
  HeadAxes kv_heads_;
  const model::ModelConfig& config_;
};

/// An array in memory. Elements that are never written are uninitialised.
class MemorySink final : public ArraySink {
 public:
  /// @param hidden_is_minus_infinity  true for scores: -inf marks a hidden key and is stored as kUndefined
  explicit MemorySink(Shape shape, bool hidden_is_minus_infinity = false);
  void write(std::size_t offset, std::span<const float> values) override;
  /// Moves the array out of the sink. The sink cannot be used afterwards.
  [[nodiscard]] Tensor take() {
    const std::span<const float> values(values_.get(), size_);
    return {std::move(shape_), values, std::move(values_)};
  }

 private:
  Shape shape_;
  std::size_t size_ = 0;
  bool hidden_is_minus_infinity_;
  std::shared_ptr<float> values_;
};

/// The destination of one array of one sequence. The sink has the shape that CaptureLayout::shape returns.
struct CaptureTarget {
  Captured what = Captured::pattern;
  std::size_t sequence = 0;  // index in the batch
  ArraySink* sink = nullptr;
};

/// Writes the arrays of a forward pass to sinks as they arrive. Writes each element once; keys and values
/// once per key/value head. Queries and keys are those of the product q k^T, after rotary embedding.
class Capture final : public forward::Observer {
 public:
  Capture(CaptureLayout layout, std::span<const CaptureTarget> targets)
      : layout_(std::move(layout)), targets_(targets.begin(), targets.end()) {}

  [[nodiscard]] forward::Needs needs() const override;
  void begin(const model::Model& model, const input::Batch& batch) override;
  void panel(const forward::AttentionPanel& panel) override;
  void output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void logits(std::size_t sequence, std::size_t first_query, MatrixView<const float> values) override;

 private:
  using Sinks = std::array<ArraySink*, kAllCaptured.size()>;
  [[nodiscard]] ArraySink* sink(std::size_t sequence, Captured what) const {
    return sinks_[sequence][static_cast<std::size_t>(what)];
  }

  CaptureLayout layout_;
  std::vector<CaptureTarget> targets_;
  std::vector<Sinks> sinks_;          // [sequences]
  std::vector<std::size_t> queries_;  // [sequences]: number of queries
  /// [selected heads]: index of the key/value head in the arrays; nullopt if an earlier one has it.
  std::vector<std::optional<std::size_t>> kv_places_;
};

}  // namespace attnctl::analysis
