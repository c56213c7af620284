#include "inspect/stored/stored_patterns.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/files/input_file.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "checkpoint/readers.hpp"
#include "formats/json.hpp"
#include "forward/block.hpp"
#include "inspect/open_model.hpp"

namespace attnctl::inspect {
namespace {

using checkpoint::refuse_tensor;
using checkpoint::TensorView;
using model::Component;

/// Tokens that are special without --model and without the array special_tokens_mask.
constexpr std::string_view kSpecialTokens[] = {"[CLS]",         "[SEP]",
                                               "[PAD]",         "[MASK]",
                                               "<s>",           "</s>",
                                               "<pad>",         "<mask>",
                                               "<bos>",         "<eos>",
                                               "<cls>",         "<sep>",
                                               "<|endoftext|>", "<|startoftext|>",
                                               "<|im_start|>",  "<|im_end|>",
                                               "<|bos|>",       "<|eos|>",
                                               "<|pad|>",       "<|end_of_text|>",
                                               "<|eot_id|>",    "<|begin_of_text|>"};

/// Converts elements of a tensor.
template <typename T>
void read(const TensorView& view, std::size_t first, std::span<T> out) {
  const std::size_t size = size_of(view.dtype);
  convert(view.dtype, view.bytes.subspan(first * size, out.size() * size), out);
}

/// Writes the softmax of scores to `out`, in float64. All weights are 0 if no score is above -inf.
void softmax(std::span<const double> scores, std::span<float> out) {
  const double largest = *std::ranges::max_element(scores);
  if (largest == -std::numeric_limits<double>::infinity()) {
    std::ranges::fill(out, 0.0F);
    return;
  }
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - largest);
  for (std::size_t j = 0; j < out.size(); ++j)
    out[j] = static_cast<float>(std::exp(scores[j] - largest) / sum);
}

/// The rows of one kind that are worth a warning or an error: their number and the first of them.
struct StoredRowFault {
  std::uint64_t count = 0;
  std::size_t sequence = 0, query = 0;
  model::HeadId head;
  double value = 0;

  void add(const StoredRowFault& other) {
    const std::uint64_t before = count;
    if (before == 0) *this = other;
    count = before + other.count;
  }
};

struct StoredRowFaults {
  StoredRowFault outside, non_finite, sum, fully_masked;  // outside: a weight below 0 or above 1

  void add(const StoredRowFaults& other) {
    for (StoredRowFault StoredRowFaults::*const kind :
         {&StoredRowFaults::outside, &StoredRowFaults::non_finite, &StoredRowFaults::sum,
          &StoredRowFaults::fully_masked})
      if ((other.*kind).count > 0) (this->*kind).add(other.*kind);
  }
};

/// Returns how far the sum of a row may be from 1, and a weight above 1, because the weights are rounded.
double tolerance_of(DType dtype) {
  return dtype == DType::bf16 ? 1e-2 : 1e-3;
}

/// Returns the range of positions between the zeros at the beginning and at the end of a mask.
forward::KeyRange without_padding(const std::vector<std::int64_t>& mask) {
  const auto is_token = [](std::int64_t number) { return number != 0; };
  const auto first = std::ranges::find_if(mask, is_token) - mask.begin();
  const auto last = mask.rend() - std::ranges::find_if(mask.rbegin(), mask.rend(), is_token);
  return {static_cast<std::size_t>(first), static_cast<std::size_t>(std::max(first, last))};
}

/// Returns the tokens in a file: one per line, or a JSON array of strings, or an array of such arrays.
InputTexts read_tokens(const std::string& path) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30U;
  const std::string content = read_file(path, kMostBytes);
  const std::string name = escaped(path);
  InputTexts inputs;
  if (lower_case(path).ends_with(".json")) {
    const nlohmann::ordered_json root = formats::parse_json(name, content);
    const auto is_strings = [](const nlohmann::ordered_json& list) {
      return list.is_array() &&
             std::ranges::all_of(list, [](const nlohmann::ordered_json& each) { return each.is_string(); });
    };
    if (root.is_array() && !root.empty() && std::ranges::all_of(root, is_strings)) {
      for (const nlohmann::ordered_json& list : root) inputs.push_back(list.get<std::vector<std::string>>());
    } else if (is_strings(root)) {
      inputs.push_back(root.get<std::vector<std::string>>());
    } else {
      refuse(name, "got {}, need an array of strings, or one such array per input", shown(root.dump()));
    }
    return inputs;
  }
  if (const auto at = find_ill_formed_utf8(content)) refuse(name, "@byte {}: need UTF-8", *at);
  inputs.emplace_back();
  for (std::string_view text = content; !text.empty();) inputs.front().emplace_back(take_line(text));
  return inputs;
}

}  // namespace

StoredPatterns::StoredPatterns(const StoredRequest& request, std::unique_ptr<checkpoint::Checkpoint> file,
                               Warnings& warnings)
    : request_(request), file_(std::move(file)) {
  arrays_ = find_stored_arrays(*file_, request.file, request.array);
  make_model(warnings);
  make_batch();
  std::optional<InputTexts> tokens;
  if (request.tokens) tokens = read_tokens(*request.tokens);
  if (!request.model.empty()) {
    vocabulary_ = open_model(request.model, {}, warnings).vocabulary;
  }
  add_names(std::move(tokens));
}

void StoredPatterns::make_model(Warnings& warnings) {
  const Component component = arrays_.front().heads.front().component;
  const auto has_component = [&](const StoredArray& array) {
    return array.heads.front().component == component;
  };
  if (component != Component::cross && std::ranges::all_of(arrays_, has_component)) {
    // The only component of the file is a single stack of layers.
    for (StoredArray& array : arrays_) {
      for (StoredHead& head : array.heads) head.component = Component::none;
    }
  }
  model::ModelConfig config;
  // The order of ModelConfig::layers.
  const auto place = [](const model::LayerConfig& layer) {
    return std::tuple(forward::needs_target(layer.component), layer.number, layer.component);
  };
  std::map<std::tuple<bool, std::size_t, Component>, std::size_t> heads;  // by place
  for (const StoredArray& array : arrays_) {
    for (const StoredHead& head : array.heads) {
      std::size_t& count = heads[{forward::needs_target(head.component), head.layer, head.component}];
      count = std::max(count, head.head + 1);
    }
  }
  for (const auto& [key, count] : heads) {
    model::LayerConfig& layer = config.layers.emplace_back();
    std::tie(std::ignore, layer.number, layer.component) = key;
    layer.stored_as = layer.number;
    layer.attention.heads = layer.attention.kv_heads = count;
    if (layer.component != Component::none) config.decoder.emplace();
  }
  for (std::size_t a = 0; a < arrays_.size(); ++a) {
    if (arrays_[a].first_input > 0) continue;
    for (std::size_t k = 0; k < arrays_[a].heads.size(); ++k) {
      const StoredHead& head = arrays_[a].heads[k];
      const auto key = std::tuple(forward::needs_target(head.component), head.layer, head.component);
      const auto layer = std::ranges::lower_bound(config.layers, key, {}, place) - config.layers.begin();
      places_.emplace(model::HeadId{static_cast<std::size_t>(layer), head.head}, StoredPlace{a, k});
    }
  }
  model_ = model::Model::without_weights(request_.file, std::move(config), warnings);
}

void StoredPatterns::make_batch() {
  std::size_t inputs = 0;
  for (const StoredArray& array : arrays_) inputs = std::max(inputs, array.first_input + array.inputs);
  struct Side {
    std::size_t length = 0;
    const StoredArray* array = nullptr;  // the array that set the length
  };
  struct InputSides {
    Side tokens, keys, target;  // keys: only for Component::none
  };
  std::vector<InputSides> sides(inputs);
  const auto set = [&](Side& side, std::size_t length, const StoredArray& array) {
    if (side.array != nullptr && side.length != length) {
      const checkpoint::TensorInfo& of = info(array);
      refuse_tensor(of.file, of.name, "got shape {}, which does not fit {} of shape {}", to_string(of.shape),
                    shown(info(*side.array).name), to_string(info(*side.array).shape));
    }
    side = {length, &array};
  };
  for (const StoredArray& array : arrays_) {
    const Component component = array.heads.front().component;
    for (std::size_t s = array.first_input; s < array.first_input + array.inputs; ++s) {
      const bool cross = component == Component::cross;
      set(forward::needs_target(component) ? sides[s].target : sides[s].tokens, array.queries, array);
      set(cross                             ? sides[s].tokens
          : component == Component::none    ? sides[s].keys
          : component == Component::decoder ? sides[s].target
                                            : sides[s].tokens,
          array.keys, array);
    }
  }
  for (std::size_t s = 0; s < inputs; ++s) {
    input::Sequence& sequence = batch_.sequences.emplace_back();
    sequence.id = std::to_string(s);
    // Only the number of positions is known: embeddings without columns.
    sequence.embeddings = OwnedMatrix<float>(sides[s].tokens.length, 0);
    const std::size_t keys = sides[s].keys.length;
    if (keys > 0 && keys != sides[s].tokens.length) sequence.key_embeddings = OwnedMatrix<float>(keys, 0);
    if (sides[s].target.length == 0) continue;
    sequence.target = std::make_shared<input::Sequence>();
    sequence.target->id = sequence.id;
    sequence.target->embeddings = OwnedMatrix<float>(sides[s].target.length, 0);
  }
}

void StoredPatterns::add_names(std::optional<InputTexts> given) {
  if (given && given->size() != batch_.sequences.size())
    refuse(escaped(*request_.tokens),
           "got the tokens of {}, need those of {} in {}; in JSON: one array per input",
           counted(given->size(), "input"), counted(batch_.sequences.size(), "input"),
           escaped(request_.file));
  name_side(false, std::move(given));
  if (batch_.sequences.front().target) name_side(true, std::nullopt);
  std::vector<std::string> unique;
  std::set<std::int64_t> special;
  std::set<std::string_view> seen;
  const auto each_side = [&](const auto& use) {
    for (input::Sequence& sequence : batch_.sequences) {
      use(sequence);
      if (sequence.target) use(*sequence.target);
    }
  };
  if (request_.model.empty()) {
    // The tokens of the file are the vocabulary.
    each_side([&](const input::Sequence& side) {
      for (const std::string& token : side.tokens) {
        if (token.empty() || !seen.insert(token).second) continue;
        if (std::ranges::find(kSpecialTokens, token) != std::end(kSpecialTokens))
          special.insert(static_cast<std::int64_t>(unique.size()));
        unique.push_back(token);
      }
    });
    vocabulary_ = tokenizer::Vocabulary(std::move(unique), std::move(special));
  }
  each_side([&](input::Sequence& side) {
    // The ids in vocabulary_: those of the file, if --model gives their vocabulary, otherwise of the tokens.
    std::vector<std::int64_t> ids;
    const bool by_token = !side.tokens.empty() && (side.ids.empty() || request_.model.empty());
    if (by_token) {
      for (const std::string& token : side.tokens) ids.push_back(vocabulary_.id(token).value_or(-1));
    } else if (!request_.model.empty()) {
      ids = side.ids;
    }
    if (ids.empty()) return;
    const bool masked = !side.special.empty();
    side.special.resize(ids.size(), 0);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (!masked && vocabulary_.is_special(ids[i])) side.special[i] = 1;
      side.separator.push_back(side.special[i] != 0 && vocabulary_.is_separator(ids[i]) ? 1 : 0);
      if (side.tokens.size() == i && !vocabulary_.empty()) {
        const auto token = vocabulary_.token(ids[i]);
        side.tokens.push_back(token ? std::string(*token) : fmt::format("#{}", ids[i]));
      }
    }
    if (by_token) add_words(side, ids);
  });
}

void StoredPatterns::add_words(input::Sequence& side, std::span<const std::int64_t> ids) const {
  side.words = vocabulary_.words(side.tokens, ids);
  for (std::size_t i = 0; i < side.tokens.size(); ++i) {
    if (!side.words[i]) continue;
    side.word_texts.resize(*side.words[i] + 1);
    side.word_texts.back() += vocabulary_.plain(side.tokens[i]);
  }
}

void StoredPatterns::name_side(bool targets, std::optional<InputTexts> given) {
  const std::string prefix = targets ? "target_" : "";
  const auto side_of = [&](std::size_t s) -> input::Sequence& {
    return targets ? *batch_.sequences[s].target : batch_.sequences[s];
  };
  std::vector<std::size_t> lengths;
  for (std::size_t s = 0; s < batch_.sequences.size(); ++s) lengths.push_back(side_of(s).queries());
  InputTexts tokens = given ? std::move(*given) : texts_of_inputs(*file_, prefix + "tokens", lengths);
  InputNumbers ids;
  const std::vector<std::string> id_names = targets
                                                ? std::vector<std::string>{"target_ids", "decoder_input_ids"}
                                                : std::vector<std::string>{"ids", "input_ids", "tokens"};
  for (const std::string& name : id_names) {
    if (ids.empty()) ids = numbers_of_inputs(*file_, name, lengths);
  }
  InputNumbers special = numbers_of_inputs(*file_, prefix + "special_tokens_mask", lengths);
  const bool separate = std::ranges::any_of(
      batch_.sequences, [](const input::Sequence& each) { return each.key_embeddings.rows() > 0; });
  InputNumbers visible;
  if (!separate)
    visible = numbers_of_inputs(*file_, targets ? "decoder_attention_mask" : "attention_mask", lengths);
  std::vector<std::size_t>& first = targets ? first_target_ : first_;
  first.assign(lengths.size(), 0);
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    forward::KeyRange range{0, lengths[s]};
    if (s < visible.size() && !visible[s].empty()) range = without_padding(visible[s]);
    if (range.size() == 0)
      refuse(escaped(request_.file), "attention_mask: input {} has no token, because all its values are 0",
             s);
    first[s] = range.first;
    const auto kept = [&](auto& lists) {
      auto values =
          s < lists.size() ? std::move(lists[s]) : typename std::decay_t<decltype(lists)>::value_type();
      if (values.size() != lengths[s]) return decltype(values)();
      values.resize(range.last);
      values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(first[s]));
      return values;
    };
    input::Sequence& side = side_of(s);
    if (given && tokens[s].size() != lengths[s])
      refuse(escaped(*request_.tokens), "input {}: got {}, need {}, the number of queries in {}", s,
             counted(tokens[s].size(), "token"), lengths[s], escaped(request_.file));
    side.embeddings = OwnedMatrix<float>(range.size(), 0);
    side.tokens = kept(tokens);
    side.ids = kept(ids);
    for (const std::int64_t flag : kept(special)) side.special.push_back(flag != 0 ? 1 : 0);
  }
}

forward::Selection StoredPatterns::stored(const forward::Selection& heads, bool all) const {
  forward::Selection found;
  for (const model::HeadId head : heads.heads) {
    if (places_.contains(head)) {
      found.heads.push_back(head);
    } else if (all) {
      fail(Status::usage, "--heads: {} has no pattern of head {}", escaped(request_.file),
           model::head_name(model_->config(), head));
    }
  }
  if (found.heads.empty())
    fail(Status::usage, "{} has no pattern of the selected layers", escaped(request_.file));
  return found;
}

bool StoredPatterns::complete() const {
  const std::vector<model::LayerConfig>& layers = model_->config().layers;
  std::size_t heads = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].number != i) return false;
    heads += layers[i].attention.heads;
  }
  return heads == places_.size();
}

std::size_t StoredPatterns::array_of(model::HeadId head, std::size_t sequence) const {
  const std::size_t first = places_.at(head).array;
  return first + sequence / arrays_[first].inputs;
}

/// The pattern of one head in one input.
struct StoredPatterns::Job {
  const StoredPatterns& of;
  const TensorView& view;
  model::HeadId head;
  std::size_t sequence = 0;

  /// Reads the pattern in panels of `panel_rows` rows, and passes them to the observers.
  StoredRowFaults run(std::span<forward::Observer* const> observers, std::size_t panel_rows) const {
    const StoredArray& array = of.arrays_[of.array_of(head, sequence)];
    const Component component = of.model_->config().layers[head.layer].component;
    const forward::Sides sides = forward::sides_of(component, of.batch_.sequences[sequence]);
    const std::size_t n = sides.queries();
    const std::size_t m = sides.keys();
    const auto first_of = [&](bool target) { return (target ? of.first_target_ : of.first_)[sequence]; };
    const std::size_t first_query = first_of(forward::needs_target(component));
    const std::size_t first_key = first_of(component == Component::decoder);
    const std::size_t begin = array.pattern(of.places_.at(head).head, sequence) * array.queries * array.keys;
    StoredRowFaults faults;
    std::vector<float> values(std::min(n, panel_rows) * m);
    std::vector<double> scores(of.request_.softmax ? m : 0);
    std::vector<std::uint8_t> masked(std::min(n, panel_rows));
    for (std::size_t query = 0; query < n; query += panel_rows) {
      const std::size_t rows = std::min(panel_rows, n - query);
      const MatrixView<float> panel{values.data(), rows, m};
      forward::KeyRange visible{m, 0};  // the keys that have a weight
      for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t at = begin + (first_query + query + r) * array.keys + first_key;
        const std::span<float> row = panel.row(r);
        if (of.request_.softmax) {
          read(view, at, std::span(scores));
          softmax(scores, row);
        } else {
          read(view, at, row);
        }
        check(row, query + r, faults);
        const auto has_weight = [](float weight) { return weight != 0; };
        const auto low = std::ranges::find_if(row, has_weight) - row.begin();
        const auto high = row.rend() - std::ranges::find_if(row.rbegin(), row.rend(), has_weight);
        masked[r] = high == 0 ? 1 : 0;
        if (high == 0) continue;
        visible.first = std::min(visible.first, static_cast<std::size_t>(low));
        visible.last = std::max(visible.last, static_cast<std::size_t>(high));
      }
      if (faults.outside.count > 0) return faults;
      if (visible.last == 0) visible = {0, 0};
      const forward::AttentionPanel shown{.sequence = sequence,
                                          .layer = head.layer,
                                          .head = head.head,
                                          .first_query = query,
                                          .pattern = panel,
                                          .scores = {},
                                          .visible = visible,
                                          .q = {},
                                          .k = {},
                                          .v = {},
                                          .z = {},
                                          .fully_masked = std::span(masked).first(rows)};
      for (forward::Observer* const observer : observers) observer->panel(shown);
    }
    return faults;
  }

  void check(std::span<const float> row, std::size_t query, StoredRowFaults& faults) const {
    double sum = 0;
    float outside = 0;  // the last weight that is not from 0 to 1
    for (const float weight : row) {
      sum += weight;
      const bool too_large = weight > 1 + tolerance_of(view.dtype) && std::isfinite(weight);
      if (weight < 0 || too_large) outside = weight;
    }
    const auto found = [&](double value) { return StoredRowFault{1, sequence, query, head, value}; };
    if (outside != 0) {
      faults.outside.add(found(outside));
    } else if (!std::isfinite(sum)) {
      faults.non_finite.add(found(sum));
    } else if (sum == 0) {
      faults.fully_masked.add(found(sum));
    } else if (std::abs(sum - 1) > tolerance_of(view.dtype)) {
      faults.sum.add(found(sum));
    }
  }
};

void StoredPatterns::run(const forward::Selection& selection, std::span<forward::Observer* const> observers,
                         forward::RunContext& context) const {
  for (forward::Observer* const observer : observers) observer->begin(*model_, batch_);
  std::map<std::size_t, std::vector<model::HeadId>> layers;  // the stored heads of each layer
  std::map<std::size_t, std::size_t> uses;                   // by tensor: how often it is still needed
  const std::size_t inputs = batch_.sequences.size();
  for (const model::HeadId head : selection.heads) {
    if (places_.contains(head)) layers[head.layer].push_back(head);
  }
  for (const auto& [layer, heads] : layers) {
    for (std::size_t s = 0; s < inputs; ++s) ++uses[arrays_[array_of(heads.front(), s)].tensor];
  }
  if (context.progress != nullptr) context.progress->begin("patterns", layers.size() * inputs, "layer");
  StoredRowFaults faults;
  const auto place_of = [&](const StoredRowFault& fault) {
    return fmt::format("input {}, head {}, query {}", escaped(batch_.sequences[fault.sequence].id),
                       model::head_name(model_->config(), fault.head), fault.query);
  };
  for (const auto& [layer, heads] : layers) {
    for (std::size_t s = 0; s < inputs; ++s) {
      const std::size_t tensor = arrays_[array_of(heads.front(), s)].tensor;
      const TensorView view = file_->tensor(tensor);
      std::vector<StoredRowFaults> found(heads.size());
      const std::vector<model::HeadId>& jobs = heads;  // a structured binding cannot be captured
      const auto work = [&](std::size_t task, std::size_t /*worker*/) {
        found[task] = Job{*this, view, jobs[task], s}.run(observers, context.panel_rows);
      };
      context.pool.run(jobs.size(), work);
      for (const StoredRowFaults& of_head : found) faults.add(of_head);
      if (faults.outside.count > 0)
        refuse(escaped(request_.file),
               "{}: got the weight {:g}, need one from 0 to 1; if the arrays are scores before the softmax, "
               "give --softmax",
               place_of(faults.outside), faults.outside.value);
      if (--uses[tensor] == 0) file_->release(tensor);
      if (context.progress != nullptr) context.progress->advance();
    }
  }
  if (context.progress != nullptr) context.progress->end();
  const auto warn = [&](const char* code, const StoredRowFault& fault, const std::string& text) {
    if (fault.count > 0) context.warnings.add(code, place_of(fault) + ": " + text, fault.count);
  };
  warn("fully_masked_row", faults.fully_masked, "all attention weights are 0");
  warn("non_finite_pattern", faults.non_finite, "the attention weights contain NaN or infinity");
  warn("row_sum", faults.sum,
       fmt::format("the attention weights sum to {:.4g} instead of 1", faults.sum.value));
}

std::uint64_t StoredPatterns::bytes(const forward::RunContext& context) const {
  std::uint64_t copies = 0;
  std::uint64_t most = 0;
  for (std::size_t layer = 0; layer < model_->config().layers.size(); ++layer) {
    const auto place = places_.lower_bound({layer, 0});
    std::set<std::size_t> tensors;
    for (std::size_t s = 0; s < batch_.sequences.size(); ++s)
      tensors.insert(arrays_[array_of(place->first, s)].tensor);
    std::uint64_t of_layer = 0;
    for (const std::size_t tensor : tensors) of_layer = saturating_sum(of_layer, file_->copied_bytes(tensor));
    copies = std::max(copies, of_layer);
  }
  for (const StoredArray& array : arrays_) {
    const std::uint64_t rows = std::min<std::uint64_t>(array.queries, context.panel_rows);
    most = std::max<std::uint64_t>(most, (rows * sizeof(float) + sizeof(double)) * array.keys);
  }
  return saturating_sum(copies, context.pool.size() * most);
}

Record StoredPatterns::record() const {
  std::vector<std::string> names;
  for (const StoredArray& array : arrays_) names.push_back(info(array).name);
  return Record()
      .set("file", request_.file)
      .set("arrays", names)
      .set("type", std::string(name_of(info(arrays_.front()).dtype)))
      .set("softmax", request_.softmax)
      .set("layers", model_->config().layers.size())
      .set("heads", places_.size());
}

}  // namespace attnctl::inspect
