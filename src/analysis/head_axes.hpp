#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/dtype.hpp"
#include "forward/run.hpp"
#include "model/config/config.hpp"
#include "model/model.hpp"
#include "results/result.hpp"

namespace attnctl {

/// Selected heads as leading axes of an array: [layers, heads] where every layer has the same heads, else one
/// axis [selected]. Either way a head's place, counted over both axes, is its place among the selected.
class HeadAxes {
 public:
  /// heads: ascending.
  explicit HeadAxes(std::span<const HeadId> heads);

  /// The key/value heads that the selected heads read, each once.
  [[nodiscard]] static HeadAxes of_kv_heads(std::span<const HeadId> heads, const ModelConfig& config);

  [[nodiscard]] bool regular() const { return regular_; }
  [[nodiscard]] const std::vector<HeadId>& heads() const { return heads_; }
  [[nodiscard]] const std::vector<std::size_t>& layers() const { return layers_; }
  /// The leading axes, then `rest`.
  [[nodiscard]] Shape shape(std::span<const std::size_t> rest) const;
  /// nullopt where the head is not selected.
  [[nodiscard]] std::optional<std::size_t> place(HeadId head) const;

 private:
  std::vector<HeadId> heads_;
  std::vector<std::size_t> layers_;
  bool regular_ = true;
};

/// The component of a layer as tables have it: "enc", "dec", "cross", or undefined.
[[nodiscard]] Cell component_cell(const ModelConfig& config, std::size_t layer);

/// The heads of a selection that are of one component.
struct ComponentHeads {
  Component component = Component::none;
  Selection selection;
};
[[nodiscard]] std::vector<ComponentHeads> split_by_component(const Selection& selection,
                                                             const ModelConfig& config);

/// The key/value head that a head reads.
[[nodiscard]] std::size_t kv_head_of(const ModelConfig& config, HeadId head);

}  // namespace attnctl
