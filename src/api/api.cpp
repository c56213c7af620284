// Implements the public interface (include/attnctl, namespace attn) with the internal types of the library
// (namespace attnctl).

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "attnctl/attnctl.hpp"
#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/numbers.hpp"
#include "base/pool.hpp"
#include "forward/block.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "input/sequences.hpp"
#include "inspect/inspection.hpp"
#include "inspect/open_model.hpp"
#include "linalg/blas.hpp"
#include "model/model.hpp"
#include "results/results.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attn {

namespace core = attnctl;

namespace {

ModelInfo make_info(const core::model::Model& model) {
  const core::model::ModelConfig& config = model.config();
  ModelInfo info{.name = model.name(),
                 .family = config.family,
                 .d_model = config.d_model,
                 .vocabulary = config.embedding.vocabulary,
                 .max_positions = config.max_positions,
                 .parameters = model.parameters(),
                 .layers = {}};
  for (const core::model::LayerConfig& layer : config.layers) {
    const core::model::AttentionConfig& attention = layer.attention;
    info.layers.push_back({.component = static_cast<Component>(layer.component),
                           .number = layer.number,
                           .heads = attention.heads,
                           .kv_heads = attention.kv_heads,
                           .d_head = attention.d_head,
                           .d_value = attention.d_value,
                           .causal = attention.causal,
                           .kind = core::model::to_string(attention.kind)});
  }
  return info;
}

static_assert(static_cast<int>(Component::cross) == static_cast<int>(core::model::Component::cross));

}  // namespace

struct Model::Parts {
  Parts(const std::string& given, const std::optional<std::string>& config)
      : open(core::inspect::open_model(given, config, warnings)), info(make_info(open.model)) {}

  core::Warnings warnings;
  core::inspect::OpenModel open;
  std::mutex encoding;  // locked while texts are encoded
  ModelInfo info;
};

/// The tokenizer and the states that no thread uses. A thread takes a state to encode a text and puts it
/// back.
struct Tokenizer::Parts {
  core::tokenizer::Tokenizer tokenizer;
  std::mutex mutex = {};
  std::vector<core::tokenizer::Tokenizer::StatePtr> idle = {};

  core::tokenizer::Tokenizer::StatePtr take() {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return tokenizer.make_state();
    core::tokenizer::Tokenizer::StatePtr state = std::move(idle.back());
    idle.pop_back();
    return state;
  }
  void give_back(core::tokenizer::Tokenizer::StatePtr state) {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(state));
  }
};

struct Batch::Parts {
  Model model;
  core::input::Batch batch = {};
  std::vector<Sequence> sequences = {};
};

namespace {

core::input::Sequence make_sequence(const Input& input, Model::Parts& model) {
  const core::model::ModelConfig& config = model.open.model.config();
  core::input::Sequence sequence;
  if (input.ids.empty()) {
    sequence = model.open.encoder.encode({{}, input.text, input.text_pair, std::nullopt});
    if (config.embedding.token_types == 0) sequence.token_type_ids.clear();
  } else {
    sequence.ids = input.ids;
    sequence.token_type_ids = input.type_ids;
  }
  sequence.id = input.id;
  sequence.key_visible = input.key_visible;
  if (input.target_ids.empty() && input.target_text.empty()) return sequence;
  if (!config.decoder) {
    core::fail(Status::usage, "{}: the model is not an encoder-decoder model; leave out the target",
               core::escaped(model.open.model.name()));
  }
  sequence.target = std::make_shared<core::input::Sequence>();
  sequence.target->ids = input.target_ids;
  if (input.target_ids.empty()) *sequence.target = model.open.encoder.encode_target(input.target_text);
  return sequence;
}

core::model::HeadId find_head(const core::model::ModelConfig& config, const Head& head) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const core::model::LayerConfig& layer = config.layers[i];
    if (static_cast<Component>(layer.component) == head.component && layer.number == head.layer &&
        head.head < layer.attention.heads)
      return {i, head.head};
  }
  core::fail(Status::usage, "the model has no head {}; Model::info() lists its layers", to_string(head));
}

/// Returns the selected heads in ascending order. By default these are all heads; for an encoder-decoder
/// model, only the encoder's heads if an input has no target.
core::forward::Selection select(const RunOptions& options, const core::model::ModelConfig& config,
                                const core::input::Batch& batch) {
  core::forward::Selection selection;
  for (const Head& head : options.heads) selection.heads.push_back(find_head(config, head));
  if (options.heads.empty()) {
    const bool targets = std::ranges::all_of(
        batch.sequences, [](const core::input::Sequence& sequence) { return sequence.target != nullptr; });
    selection = core::forward::Selection::all(config);
    std::erase_if(selection.heads, [&](core::model::HeadId id) {
      return !targets && core::forward::needs_target(config.layers[id.layer].component);
    });
  }
  std::ranges::sort(selection.heads);
  selection.heads.erase(std::unique(selection.heads.begin(), selection.heads.end()), selection.heads.end());
  return selection;
}

/// Converts the panels of a run and passes them to an observer of the public interface.
class Forwarder final : public core::forward::Observer {
 public:
  Forwarder(const Batch& batch, attn::Observer& observer)
      : batch_(batch), layers_(batch.model().info().layers), observer_(observer) {}

  void begin(const core::model::Model& /*model*/, const core::input::Batch& /*batch*/) override {
    observer_.begin(batch_);
  }
  void panel(const core::forward::AttentionPanel& panel) override {
    const LayerInfo& layer = layers_[panel.layer];
    observer_.panel({.input = panel.sequence,
                     .head = {layer.component, layer.number, panel.head},
                     .first_row = panel.first_query,
                     .weights = panel.pattern});
  }

 private:
  const Batch& batch_;
  const std::vector<LayerInfo>& layers_;
  attn::Observer& observer_;
};

/// The model, the selected heads and the worker threads of one run.
struct PreparedRun {
  PreparedRun(const Batch& batch, const RunOptions& options)
      : model(batch.model().parts()),
        selection(select(options, model.open.model.config(), batch.parts().batch)),
        pool(options.threads == 0 ? core::available_threads() : options.threads) {
    core::linalg::set_blas_callers(pool.size());
  }

  Model::Parts& model;
  core::forward::Selection selection;
  core::Pool pool;
  core::forward::RunContext context{pool, model.warnings};
};

Table public_table(const core::Table& from) {
  Table table{from.name, {from.columns.begin(), from.columns.end()}, {}};
  std::vector<core::Cell> cells(from.columns.size());
  for (std::size_t i = 0; i < from.rows; ++i) {
    from.row(i, cells);
    std::vector<Cell>& row = table.rows.emplace_back();
    for (core::Cell& cell : cells)
      row.push_back(std::visit([](auto& value) { return Cell(std::move(value)); }, cell));
  }
  return table;
}

/// Stores one tensor that an analysis writes.
struct TensorSink final : core::ArraySink {
  void write(std::size_t offset, std::span<const float> values) override {
    std::ranges::copy(values, tensor.values.begin() + static_cast<std::ptrdiff_t>(offset));
  }

  Tensor tensor;
};

/// Stores all tensors that an analysis writes.
class TensorStore final : public core::ArrayOutput {
 public:
  void add(const std::string& name, const core::Tensor& array) override {
    std::vector<float>& floats = append(name, array.shape).tensor.values;
    const auto to_float = [](auto value) { return static_cast<float>(value); };
    std::visit([&](auto values) { std::ranges::transform(values, floats.begin(), to_float); }, array.values);
  }
  core::ArraySink& add_streamed(const std::string& name, const core::Shape& shape,
                                bool /*hidden_is_minus_infinity*/) override {
    return append(name, shape);
  }
  [[nodiscard]] std::vector<Tensor> take() {
    std::vector<Tensor> tensors;
    for (TensorSink& sink : sinks_) tensors.push_back(std::move(sink.tensor));
    return tensors;
  }

 private:
  TensorSink& append(const std::string& name, const core::Shape& shape) {
    TensorSink& sink = sinks_.emplace_back();
    sink.tensor = {name, shape, std::vector<float>(core::checked_product(shape).value())};
    return sink;
  }

  std::deque<TensorSink> sinks_;
};

template <typename T>
const T& item_named(const std::vector<T>& items, std::string_view kind, std::string_view name) {
  const auto found = std::ranges::find(items, name, &T::name);
  if (found != items.end()) return *found;
  const std::string names = core::join_texts(items, &T::name);
  core::fail(Status::usage, "the results have no {} \"{}\"; they have: {}", kind, core::escaped(name),
             names.empty() ? "none" : names);
}

}  // namespace

std::string to_string(const Head& head) {
  const std::string_view component =
      core::model::name_of(static_cast<core::model::Component>(head.component));
  return fmt::format("{}{}{}.{}", component, component.empty() ? "" : ".", head.layer, head.head);
}

Model::Model(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {}

Model Model::open(const std::string& model, const std::optional<std::string>& config) {
  return Model(std::make_shared<Parts>(model, config));
}

const ModelInfo& Model::info() const {
  return parts_->info;
}

std::vector<Warning> Model::warnings() const {
  std::vector<Warning> list;
  for (core::Warning& each : parts_->warnings.list())
    list.push_back({std::move(each.code), std::move(each.message), each.count});
  if (const auto blas = core::linalg::blas_warning()) list.push_back({"blas", *blas, 1});
  return list;
}

Tokenizer::Tokenizer(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {}

Tokenizer Tokenizer::open(const std::string& model) {
  return Tokenizer(std::shared_ptr<Parts>(
      new Parts{.tokenizer = core::tokenizer::Tokenizer::open(core::inspect::tokenizer_origin(model))}));
}

std::vector<Token> Tokenizer::encode(std::string_view text, std::optional<std::string_view> pair) const {
  core::tokenizer::Encoding encoding;
  core::tokenizer::Tokenizer::StatePtr state = parts_->take();
  parts_->tokenizer.encode(text, pair, *state, encoding);
  parts_->give_back(std::move(state));
  std::vector<Token> tokens(encoding.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = {.id = encoding.ids[i],
                 .piece = piece(encoding.ids[i]).value_or(""),
                 .begin = encoding.offsets[i].begin,
                 .end = encoding.offsets[i].end,
                 .type = encoding.type_ids[i],
                 .is_special = encoding.special[i] != 0};
  }
  return tokens;
}

std::size_t Tokenizer::size() const {
  return parts_->tokenizer.vocabulary().size();
}

std::optional<std::int64_t> Tokenizer::id(std::string_view piece) const {
  return parts_->tokenizer.vocabulary().id(piece);
}

std::optional<std::string> Tokenizer::piece(std::int64_t id) const {
  return std::optional<std::string>(parts_->tokenizer.vocabulary().token(id));
}

Batch::Batch(const Model& model, const std::vector<Input>& inputs) {
  if (inputs.empty()) core::fail(Status::usage, "the list of inputs is empty; give at least one input");
  const auto parts = std::make_shared<Parts>(Parts{.model = model});
  Model::Parts& own = model.parts();
  {
    const std::lock_guard lock(own.encoding);
    for (const Input& input : inputs) parts->batch.sequences.push_back(make_sequence(input, own));
  }
  core::input::finish_batch(parts->batch, own.open.vocabulary);
  core::forward::check_batch(own.open.model, parts->batch);
  for (const core::input::Sequence& sequence : parts->batch.sequences) {
    parts->sequences.push_back({sequence.id, sequence.ids, sequence.tokens, {}, {}});
    if (sequence.target == nullptr) continue;
    parts->sequences.back().target_ids = sequence.target->ids;
    parts->sequences.back().target_tokens = sequence.target->tokens;
  }
  parts_ = parts;
}

const Model& Batch::model() const {
  return parts_->model;
}

const std::vector<Sequence>& Batch::sequences() const {
  return parts_->sequences;
}

void run(const Batch& batch, std::span<Observer* const> observers, const RunOptions& options) {
  std::vector<Forwarder> forwarders;
  forwarders.reserve(observers.size());
  std::vector<core::forward::Observer*> pointers;
  for (Observer* const observer : observers) pointers.push_back(&forwarders.emplace_back(batch, *observer));
  PreparedRun run(batch, options);
  core::forward::run_forward(run.model.open.model, batch.parts().batch, run.selection, pointers, run.context);
  core::check_mapped_files();
}

void run(const Batch& batch, Observer& observer, const RunOptions& options) {
  Observer* const one = &observer;
  run(batch, std::span(&one, 1), options);
}

std::size_t Table::column(std::string_view column) const {
  const auto found = std::ranges::find(columns, column);
  if (found == columns.end()) {
    core::fail(Status::usage, "the table {} has no column \"{}\"; it has: {}", name, core::escaped(column),
               fmt::join(columns, ", "));
  }
  return static_cast<std::size_t>(found - columns.begin());
}

const Table& Results::table(std::string_view name) const {
  return item_named(tables, "table", name);
}

const Tensor& Results::tensor(std::string_view name) const {
  return item_named(tensors, "tensor", name);
}

Results analyze(const Batch& batch, const AnalyzeOptions& options) {
  PreparedRun run(batch, options.run);
  core::inspect::InspectRequest request;
  request.form = core::inspect::Form::arrays;
  request.includes = core::inspect::resolve_includes(fmt::format("{}", fmt::join(options.include, ",")), true,
                                                     core::inspect::Given::inputs, request.form);
  request.selection = run.selection;
  core::inspect::Inspection inspection(
      request, {run.model.open.model, run.model.open.vocabulary, batch.parts().batch}, run.context);
  TensorStore tensors;
  inspection.run(tensors);
  core::check_mapped_files();
  Results results;
  for (const core::Table& table : inspection.tables().tables) results.tables.push_back(public_table(table));
  results.tensors = tensors.take();
  return results;
}

std::string version() {
  return ATTNCTL_VERSION;
}

}  // namespace attn
