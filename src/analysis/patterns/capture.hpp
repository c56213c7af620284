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
#include "results/result.hpp"

namespace attnctl {

/// What of a forward pass can be kept whole.
enum class Captured { pattern, scores, queries, keys, values, z, output, logits };
inline constexpr std::array all_captured{Captured::pattern, Captured::scores, Captured::queries,
                                         Captured::keys,    Captured::values, Captured::z,
                                         Captured::output,  Captured::logits};

/// "pattern", "scores", ...: as arrays are named.
[[nodiscard]] std::string_view name_of(Captured what);

/// Where the parts of the captured arrays stand. Shapes of one sequence with n queries and m keys:
///   pattern, scores [layers, heads, n, m];  queries [layers, heads, n, k];  keys [layers, kv_heads, m, k];
///   values [layers, kv_heads, m, v];  z [layers, heads, n, v];  output [layers, n, d_out];  logits [n, V].
/// Only selected layers, heads, and key/value heads that a selected head reads; where layers have unlike
/// heads selected, [layers, heads] is one axis [selected]. The selection is of one component of the model,
/// which says what queries and keys are of; logits are the target's where there is one.
class CaptureLayout {
 public:
  CaptureLayout(const Selection& selection, const ModelConfig& config);

  /// False where the model has no such thing: values, z and output without W_V, logits without a head.
  [[nodiscard]] bool available(Captured what) const;
  [[nodiscard]] Shape shape(Captured what, const Sequence& sequence) const;
  [[nodiscard]] Component component() const { return component_; }
  [[nodiscard]] const HeadAxes& heads() const { return heads_; }
  [[nodiscard]] const HeadAxes& kv_heads() const { return kv_heads_; }

 private:
  HeadAxes heads_;
  HeadAxes kv_heads_;
  Component component_ = Component::none;
  AttentionConfig attention_;  // of the selected layers
  std::size_t d_output_ = 0;
  std::size_t vocabulary_ = 0;  // 0: no output head
};

/// An array in memory, undefined where nothing was written.
class MemorySink final : public ArraySink {
 public:
  /// With `hidden_is_minus_infinity` (scores) -inf marks a hidden key, and becomes kUndefined.
  explicit MemorySink(Shape shape, bool hidden_is_minus_infinity = false);
  void write(std::size_t offset, std::span<const float> values) override;
  /// The array, which the sink then no longer has.
  [[nodiscard]] Array take();

 private:
  Shape shape_;
  std::size_t size_ = 0;
  bool hidden_is_minus_infinity_;
  std::shared_ptr<float> values_;
};

/// One array to fill: what, of which sequence of the batch, into which sink (of layout.shape(...)).
struct CaptureTarget {
  Captured what = Captured::pattern;
  std::size_t sequence = 0;
  ArraySink* sink = nullptr;
};

/// Writes what a pass computes to sinks as it comes, every element once; keeps nothing itself. Queries and
/// keys are those that enter the product, after rotary; keys and values are written once a key/value head.
class Capture final : public Observer {
 public:
  Capture(CaptureLayout layout, std::span<const CaptureTarget> targets);

  [[nodiscard]] Needs needs() const override;
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;
  void output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void logits(std::size_t sequence, std::size_t first_query, MatrixView<const float> values) override;

 private:
  using Sinks = std::array<ArraySink*, all_captured.size()>;
  [[nodiscard]] ArraySink* sink(std::size_t sequence, Captured what) const;

  CaptureLayout layout_;
  std::vector<CaptureTarget> targets_;
  std::vector<Sinks> sinks_;          // [sequences]
  std::vector<std::size_t> queries_;  // [sequences]
  std::vector<bool> reads_kv_first_;  // [selected heads]: the first that reads its key/value head
};

}  // namespace attnctl
