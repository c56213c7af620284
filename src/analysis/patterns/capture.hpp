#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "analysis/head_axes.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "results/results.hpp"

namespace attnctl {

/// The arrays of a forward pass that can be captured.
enum class Captured { pattern, scores, queries, keys, values, z, output, logits };
inline constexpr std::array kAllCaptured{Captured::pattern, Captured::scores, Captured::queries,
                                         Captured::keys,    Captured::values, Captured::z,
                                         Captured::output,  Captured::logits};

/// Returns the name of the array: "pattern", "scores", ...
[[nodiscard]] std::string_view name_of(Captured what);

/// The layout of the captured arrays. Shapes for one sequence with n queries and m keys:
///    pattern, scores [layers, heads, n, m];  queries [layers, heads, n, k];  keys [layers, kv_heads, m, k];
///    values [layers, kv_heads, m, v];  z [layers, heads, n, v];  output [layers, n, d_out];  logits [n, V].
/// Arrays hold the selected layers and heads, and the key/value heads that a selected head reads. If the
/// selected heads differ between layers, [layers, heads] is one axis [selected]. The selection belongs to
/// one component of the model, which determines the sequences of queries and keys. In an encoder-decoder,
/// logits are those of the target.
class CaptureLayout {
 public:
  CaptureLayout(const Selection& selection, const ModelConfig& config);

  /// Checks whether the model has this array. Values, z and output need W_V; logits need an output head.
  [[nodiscard]] bool available(Captured what) const;
  [[nodiscard]] Shape shape(Captured what, const Sequence& sequence) const;
  [[nodiscard]] Component component() const { return component_; }
  [[nodiscard]] const HeadAxes& heads() const { return heads_; }
  [[nodiscard]] const HeadAxes& kv_heads() const { return kv_heads_; }

 private:
  HeadAxes heads_;
  HeadAxes kv_heads_;
  Component component_ = Component::none;
  AttentionConfig attention_;  // config of the selected layers
  std::size_t d_output_ = 0;
  std::size_t vocabulary_ = 0;  // 0: no output head
};

/// An array in memory. Elements that were not written are undefined.
class MemorySink final : public ArraySink {
 public:
  /// @param hidden_is_minus_infinity  for scores: store -inf, which marks a hidden key, as kUndefined
  explicit MemorySink(Shape shape, bool hidden_is_minus_infinity = false);
  void write(std::size_t offset, std::span<const float> values) override;
  /// Returns the array and leaves the sink empty.
  [[nodiscard]] Tensor take();

 private:
  Shape shape_;
  std::size_t size_ = 0;
  bool hidden_is_minus_infinity_;
  std::shared_ptr<float> values_;
};

/// One array to fill: its kind, its sequence in the batch, and its sink (of shape layout.shape(...)).
struct CaptureTarget {
  Captured what = Captured::pattern;
  std::size_t sequence = 0;
  ArraySink* sink = nullptr;
};

/// Writes the arrays of a pass to sinks as they arrive, each element once, without buffering them. Queries
/// and keys are those of the q k^T product, after rotary embedding. Keys and values are written once per
/// key/value head.
class Capture final : public Observer {
 public:
  Capture(CaptureLayout layout, std::span<const CaptureTarget> targets);

  [[nodiscard]] Needs needs() const override;
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;
  void output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void logits(std::size_t sequence, std::size_t first_query, MatrixView<const float> values) override;

 private:
  using Sinks = std::array<ArraySink*, kAllCaptured.size()>;
  [[nodiscard]] ArraySink* sink(std::size_t sequence, Captured what) const;

  CaptureLayout layout_;
  std::vector<CaptureTarget> targets_;
  std::vector<Sinks> sinks_;          // [sequences]
  std::vector<std::size_t> queries_;  // [sequences]
  std::vector<bool> reads_kv_first_;  // [selected heads]: first reader of its key/value head
};

}  // namespace attnctl
