#include "analysis/patterns/capture.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <set>
#include <stdexcept>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/numbers.hpp"
#include "forward/block.hpp"

namespace attnctl::analysis {
namespace {

struct CapturedArray {
  std::string_view name;
  bool forward::Needs::*need;  // null: always computed
};
constexpr std::array<CapturedArray, kAllCaptured.size()> kArrays{{{"pattern", &forward::Needs::patterns},
                                                                  {"scores", &forward::Needs::scores},
                                                                  {"queries", nullptr},
                                                                  {"keys", nullptr},
                                                                  {"values", &forward::Needs::values},
                                                                  {"z", &forward::Needs::z},
                                                                  {"output", &forward::Needs::output},
                                                                  {"logits", &forward::Needs::logits}}};

/// Writes the rows of a view to an array, one after another, from element `offset` on.
void write_rows(ArraySink& sink, std::size_t offset, MatrixView<const float> rows) {
  if (rows.stride == rows.cols) {
    sink.write(offset, {rows.data, rows.rows * rows.cols});
    return;
  }
  constexpr std::size_t piece_elements = std::size_t{1} << 16U;
  const std::size_t step = std::max<std::size_t>(piece_elements / std::max<std::size_t>(rows.cols, 1), 1);
  std::vector<float> packed;
  for (std::size_t first = 0; first < rows.rows; first += step) {
    packed.clear();
    const std::size_t last = std::min(first + step, rows.rows);
    for (std::size_t r = first; r < last; ++r)
      packed.insert(packed.end(), rows.row(r).begin(), rows.row(r).end());
    sink.write(offset + first * rows.cols, packed);
  }
}

}  // namespace

std::string_view name_of(Captured what) {
  return kArrays.at(static_cast<std::size_t>(what)).name;
}

CaptureLayout::CaptureLayout(const forward::Selection& selection, const model::ModelConfig& config)
    : heads_(selection.heads), kv_heads_(HeadAxes::of_kv_heads(selection.heads, config)), config_(config) {
  if (selection.heads.empty()) throw std::logic_error("a capture needs at least one head");
}

bool CaptureLayout::available(Captured what) const {
  if (what == Captured::logits) return config_.head.present;
  const bool needs_values = what == Captured::values || what == Captured::z || what == Captured::output;
  return !needs_values || first_layer().attention.value.weight;
}

Shape CaptureLayout::shape(Captured what, const input::Sequence& sequence) const {
  if (what == Captured::logits)
    return {(sequence.target ? *sequence.target : sequence).queries(), config_.output_embedding().vocabulary};
  const forward::Sides sides = forward::sides_of(component(), sequence);
  if (what == Captured::output) return {heads_.layers().size(), sides.queries(), config_.d_output};
  if (what == Captured::pattern || what == Captured::scores)
    return heads_.shape({sides.queries(), sides.keys()});
  const bool of_values = what == Captured::values || what == Captured::z;
  const auto width = of_values ? &model::AttentionConfig::d_value : &model::AttentionConfig::d_head;
  const std::size_t first = first_layer().attention.*width;
  for (const std::size_t layer : heads_.layers()) {
    if (config_.layers[layer].attention.*width != first)
      fail(Status::usage,
           "the heads of layers {} and {} have different sizes, so one array cannot hold both; use --layers "
           "to select layers with heads of one size",
           heads_.layers().front(), layer);
  }
  const bool by_key = what == Captured::keys || what == Captured::values;
  return by_key ? kv_heads_.shape({sides.keys(), first}) : heads_.shape({sides.queries(), first});
}

MemorySink::MemorySink(Shape shape, bool hidden_is_minus_infinity)
    : shape_(std::move(shape)), hidden_is_minus_infinity_(hidden_is_minus_infinity) {
  const auto size = checked_product(shape_);
  if (!size) throw std::bad_alloc();
  size_ = *size;
  values_ = fresh_floats(size_);
}

void MemorySink::write(std::size_t offset, std::span<const float> values) {
  if (offset > size_ || values.size() > size_ - offset)
    throw std::logic_error("values past the end of an array");
  if (!hidden_is_minus_infinity_) {
    std::ranges::copy(values, values_.get() + offset);
    return;
  }
  std::ranges::replace_copy(values, values_.get() + offset, -std::numeric_limits<float>::infinity(),
                            static_cast<float>(kUndefined));
}

forward::Needs Capture::needs() const {
  forward::Needs needs{.patterns = false};
  for (const CaptureTarget& target : targets_) {
    const auto need = kArrays.at(static_cast<std::size_t>(target.what)).need;
    if (need != nullptr) needs.*need = true;
  }
  return needs;
}

void Capture::begin(const model::Model& model, const input::Batch& batch) {
  sinks_.assign(batch.sequences.size(), Sinks{});
  queries_.clear();
  for (const input::Sequence& sequence : batch.sequences)
    queries_.push_back(forward::sides_of(layout_.component(), sequence).queries());
  for (const CaptureTarget& target : targets_)
    sinks_.at(target.sequence).at(static_cast<std::size_t>(target.what)) = target.sink;
  kv_places_.clear();
  std::set<model::HeadId> read;
  for (const model::HeadId head : layout_.heads().heads()) {
    const model::HeadId kv_head{head.layer, kv_head_of(model.config(), head)};
    kv_places_.push_back(read.insert(kv_head).second ? layout_.kv_heads().place(kv_head) : std::nullopt);
  }
}

void Capture::panel(const forward::AttentionPanel& panel) {
  const auto place = layout_.heads().place({panel.layer, panel.head});
  if (!place) return;
  const auto write = [&](Captured what, MatrixView<const float> rows, std::size_t first_row) {
    if (ArraySink* to = sink(panel.sequence, what)) write_rows(*to, first_row * rows.cols, rows);
  };
  const std::size_t first_row = *place * queries_[panel.sequence] + panel.first_query;
  write(Captured::pattern, panel.pattern, first_row);
  write(Captured::scores, panel.scores, first_row);
  write(Captured::queries, panel.q, first_row);
  write(Captured::z, panel.z, first_row);

  if (panel.first_query != 0 || !kv_places_[*place]) return;
  write(Captured::keys, panel.k, *kv_places_[*place] * panel.k.rows);
  write(Captured::values, panel.v, *kv_places_[*place] * panel.v.rows);
}

void Capture::output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) {
  const auto& layers = layout_.heads().layers();
  const auto found = std::ranges::find(layers, layer);
  ArraySink* const to = sink(sequence, Captured::output);
  if (found == layers.end() || to == nullptr) return;
  write_rows(*to, static_cast<std::size_t>(found - layers.begin()) * values.rows * values.cols, values);
}

void Capture::logits(std::size_t sequence, std::size_t first_query, MatrixView<const float> values) {
  if (ArraySink* to = sink(sequence, Captured::logits)) write_rows(*to, first_query * values.cols, values);
}

}  // namespace attnctl::analysis
