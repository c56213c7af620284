#include "inspect/stored/stored_arrays.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "checkpoint/readers.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::inspect {
namespace {

using checkpoint::Checkpoint;
using checkpoint::refuse_tensor;
using checkpoint::TensorInfo;
using model::Component;

constexpr std::size_t kMostLayers = 10'000;
constexpr std::size_t kMostHeads = 100'000;
constexpr std::size_t kMostInputs = 100'000;

/// A name of arrays of patterns; # is the number of the layer, or of the input if `per_input` is set.
struct StoredName {
  std::string_view name;
  Component component = Component::none;
  bool per_input = false;
};

/// A group of names that one file can have together. Of several groups, a file uses the first one.
using NameGroup = std::vector<StoredName>;

const std::vector<NameGroup>& name_groups() {
  static const std::vector<NameGroup> groups = {{{"pattern_#", Component::none, true}},
                                                {{"enc_pattern_#", Component::encoder, true},
                                                 {"dec_pattern_#", Component::decoder, true},
                                                 {"cross_pattern_#", Component::cross, true}},
                                                {{"blocks.#.attn.hook_pattern"}},
                                                {{"encoder_attentions_#", Component::encoder},
                                                 {"decoder_attentions_#", Component::decoder},
                                                 {"cross_attentions_#", Component::cross}},
                                                {{"layer_#"}},
                                                {{"layers.#"}},
                                                {{"attentions_#"}},
                                                {{"attentions.#"}},
                                                {{"attention_#"}},
                                                {{"attn_#"}},
                                                {{"arr_#"}}};
  return groups;
}

constexpr std::string_view kSingleNames[] = {"patterns", "pattern", "attentions", "attention", "attn"};

constexpr const char* kLayerShape =
    "[batch, heads, queries, keys], [heads, queries, keys] or [queries, keys]";
constexpr const char* kSingleShape =
    "[layers, batch, heads, queries, keys], [layers, heads, queries, keys], [heads, queries, keys] or "
    "[queries, keys]";

/// Returns the number in the place of # if `name` is `row` with a number, otherwise nullopt.
std::optional<std::size_t> number_in(std::string_view name, std::string_view row) {
  const std::size_t place = row.find('#');
  const std::string_view after = row.substr(place + 1);
  if (name.size() < row.size() || !name.starts_with(row.substr(0, place)) || !name.ends_with(after))
    return std::nullopt;
  return parse_number(name.substr(place, name.size() - row.size() + 1));
}

/// Returns the values of an array of integers.
std::vector<std::int64_t> integers(Checkpoint& file, std::size_t tensor) {
  const checkpoint::TensorView view = file.tensor(tensor);
  std::vector<double> values(checked_product(view.shape).value());
  convert(view.dtype, view.bytes, std::span(values));
  file.release(tensor);
  constexpr double kMost = 9'007'199'254'740'991;  // 2^53 - 1
  std::vector<std::int64_t> whole;
  for (const double value : values) {
    const TensorInfo& info = file.tensors()[tensor];
    if (is_floating(info.dtype) || value < -kMost || value > kMost)
      refuse_tensor(info.file, info.name, "got {} of type {}, need integers", value, name_of(info.dtype));
    whole.push_back(static_cast<std::int64_t>(value));
  }
  return whole;
}

/// Finds the arrays of patterns of one file.
class ArrayFinder {
 public:
  ArrayFinder(Checkpoint& file, std::string path) : file_(file), path_(std::move(path)) {}

  std::vector<StoredArray> find(const std::string& wanted) {
    if (wanted.find('#') != std::string::npos) {
      if (!find_group({{wanted}}))
        refuse(path_, "--array: no array has the name {}; {}", in_quotes(wanted), got());
      return std::move(found_);
    }
    if (!wanted.empty()) {
      const std::size_t tensor = file_.find(wanted);
      if (tensor == Checkpoint::npos)
        refuse(path_, "--array: there is no array {}; {}", in_quotes(wanted), got());
      add_single(tensor);
      return std::move(found_);
    }
    if (const auto single = single_array()) {
      add_single(*single);
      return std::move(found_);
    }
    for (const NameGroup& group : name_groups()) {
      if (find_group(group)) return std::move(found_);
    }
    refuse(path_,
           "found no attention patterns; {}; name their arrays layer_0, layer_1, ...: {}, or give their name "
           "with --array; to save a list of arrays: np.savez(\"patterns.npz\", *arrays)",
           got(), kLayerShape);
  }

 private:
  /// Returns "got the arrays NAME [2, 3], ...", with the first names.
  [[nodiscard]] std::string got() const {
    constexpr std::size_t kMost = 5;
    std::vector<std::string> names;
    for (const TensorInfo& info : file_.tensors()) {
      if (names.size() == kMost) break;
      names.push_back(fmt::format("{} {}", shown(info.name), to_string(info.shape)));
    }
    if (names.empty()) return "got no arrays";
    const std::size_t left = file_.tensors().size() - names.size();
    return fmt::format("got the arrays {}{}", fmt::join(names, ", "),
                       left == 0 ? "" : fmt::format(" and {} more", left));
  }

  /// Returns the array of a file that has all patterns in one array.
  [[nodiscard]] std::optional<std::size_t> single_array() const {
    std::vector<std::size_t> floats;
    for (std::size_t i = 0; i < file_.tensors().size(); ++i) {
      if (is_floating(file_.tensors()[i].dtype)) floats.push_back(i);
    }
    for (const std::string_view name : kSingleNames) {
      const std::size_t tensor = file_.find(name);
      if (std::ranges::find(floats, tensor) != floats.end()) return tensor;
    }
    if (floats.size() != 1) return std::nullopt;
    const std::string& name = file_.tensors()[floats.front()].name;
    const auto is_name = [&](const StoredName& row) { return number_in(name, row.name).has_value(); };
    const auto has_name = [&](const NameGroup& group) { return std::ranges::any_of(group, is_name); };
    if (name != "arr_0" && std::ranges::any_of(name_groups(), has_name)) return std::nullopt;
    return floats.front();
  }

  bool find_group(const NameGroup& group) {
    for (const StoredName& row : group) {
      std::map<std::size_t, std::size_t> tensors;  // by number
      for (std::size_t i = 0; i < file_.tensors().size(); ++i) {
        const TensorInfo& info = file_.tensors()[i];
        const auto number = is_floating(info.dtype) ? number_in(info.name, row.name) : std::nullopt;
        if (number && !tensors.emplace(*number, i).second)
          refuse_tensor(info.file, info.name, "another array has the same number");
      }
      if (row.per_input) {
        add_inputs(row, tensors);
      } else {
        for (const auto& [layer, tensor] : tensors) add_layer(row, layer, tensor);
      }
    }
    if (found_.empty()) return false;
    const StoredArray& first = found_.front();
    std::size_t inputs = 0;
    for (const StoredArray& array : found_) {
      inputs = std::max(inputs, array.first_input + array.inputs);
      if (array.inputs != first.inputs)
        refuse_tensor(path_, info(array).name, "got {}, but {} has {}", counted(array.inputs, "input"),
                      shown(info(first).name), first.inputs);
    }
    for (const StoredName& row : group) {
      const auto is_last = [&](const StoredArray& array) {
        return array.heads.front().component == row.component && array.first_input + array.inputs == inputs;
      };
      const auto is_other = [&](const StoredArray& array) {
        return array.heads.front().component != row.component;
      };
      if (!std::ranges::any_of(found_, is_last) && !std::ranges::all_of(found_, is_other))
        refuse(path_, "got fewer arrays {} than inputs, which are {}", row.name, inputs);
    }
    return true;
  }

  [[nodiscard]] const TensorInfo& info(const StoredArray& array) const {
    return file_.tensors()[array.tensor];
  }

  /// Adds the arrays [layers, heads, queries, keys] or [selected, queries, keys] of attnctl's own NPZ files.
  void add_inputs(const StoredName& row, const std::map<std::size_t, std::size_t>& tensors) {
    const std::string prefix(row.name.substr(0, row.name.find("pattern_#")));
    for (const auto& [input, tensor] : tensors) {
      const TensorInfo& info = file_.tensors()[tensor];
      if (input >= kMostInputs) refuse_tensor(info.file, info.name, "need an input below {}", kMostInputs);
      if (input != 0 && !tensors.contains(input - 1))
        refuse_tensor(info.file, info.name, "the array of input {} is missing", input - 1);
      StoredArray array{.tensor = tensor, .first_input = input};
      array.heads = stored_heads(row.component, prefix, info);
      array.heads_together = array.heads.size();
      add(std::move(array), info);
    }
  }

  /// Returns the heads of an array of attnctl's own NPZ files, from the arrays `layers` and `heads`.
  std::vector<StoredHead> stored_heads(Component component, const std::string& prefix,
                                       const TensorInfo& info) {
    const std::size_t layers_at = file_.find(prefix + "layers");
    const std::size_t heads_at = file_.find(prefix + "heads");
    const bool listed = info.shape.size() == 3;
    if (info.shape.size() != 4 && !listed)
      refuse_tensor(info.file, info.name,
                    "got shape {}, need [layers, heads, queries, keys], or [selected, queries, keys] with an "
                    "array {}heads [selected, 2]; for one array per layer, give --array '{}pattern_#'",
                    to_string(info.shape), prefix, prefix);
    const auto values = [&](std::size_t tensor, const Shape& shape) {
      std::vector<std::int64_t> numbers;
      if (tensor == Checkpoint::npos) {
        for (std::size_t i = 0; i < shape.front(); ++i) numbers.push_back(static_cast<std::int64_t>(i));
        return numbers;
      }
      const TensorInfo& axis = file_.tensors()[tensor];
      if (axis.shape != shape)
        refuse_tensor(axis.file, axis.name, "got shape {}, need {} for {} of shape {}", to_string(axis.shape),
                      to_string(shape), shown(info.name), to_string(info.shape));
      return integers(file_, tensor);
    };
    check_heads(info,
                listed ? info.shape[0] : checked_mul(info.shape[0], info.shape[1]).value_or(kMostHeads + 1));
    std::vector<StoredHead> heads;
    const auto put = [&](std::int64_t layer, std::int64_t head) {
      if (layer < 0 || head < 0)
        refuse_tensor(info.file, info.name, "got head {}.{} in the arrays layers and heads", layer, head);
      heads.push_back({component, static_cast<std::size_t>(layer), static_cast<std::size_t>(head)});
    };
    if (listed) {
      if (heads_at == Checkpoint::npos)
        refuse_tensor(info.file, info.name,
                      "got shape {}, need [layers, heads, queries, keys], or an array {}heads [selected, 2]",
                      to_string(info.shape), prefix);
      const std::vector<std::int64_t> pairs = values(heads_at, {info.shape[0], 2});
      for (std::size_t i = 0; i < info.shape[0]; ++i) put(pairs[2 * i], pairs[2 * i + 1]);
    } else {
      const std::vector<std::int64_t> layers = values(layers_at, {info.shape[0]});
      const std::vector<std::int64_t> numbers = values(heads_at, {info.shape[1]});
      for (const std::int64_t layer : layers) {
        for (const std::int64_t head : numbers) put(layer, head);
      }
    }
    return heads;
  }

  /// Adds the array of one layer.
  void add_layer(const StoredName& row, std::size_t layer, std::size_t tensor) {
    const TensorInfo& info = file_.tensors()[tensor];
    const Shape& shape = info.shape;
    if (shape.size() < 2 || shape.size() > 4)
      refuse_tensor(info.file, info.name, "got shape {}, need {}", to_string(shape), kLayerShape);
    StoredArray array{.tensor = tensor};
    if (shape.size() == 4) array.inputs = shape[0];
    add_heads(array, row.component, layer, shape.size() > 2 ? shape[shape.size() - 3] : 1, info);
    add(std::move(array), info);
  }

  void add_single(std::size_t tensor) {
    const TensorInfo& info = file_.tensors()[tensor];
    const Shape& shape = info.shape;
    if (!is_floating(info.dtype) || shape.size() < 2 || shape.size() > 5)
      refuse_tensor(info.file, info.name, "got shape {} of {}, need floats {}", to_string(shape),
                    name_of(info.dtype), kSingleShape);
    StoredArray array{.tensor = tensor};
    if (shape.size() == 5) array.inputs = shape[1];
    const std::size_t layers = shape.size() > 3 ? shape[0] : 1;
    const std::size_t heads = shape.size() > 2 ? shape[shape.size() - 3] : 1;
    check_heads(info, checked_mul(layers, heads).value_or(kMostHeads + 1));
    for (std::size_t layer = 0; layer < layers; ++layer)
      add_heads(array, Component::none, layer, heads, info);
    add(std::move(array), info);
  }

  static void check_heads(const TensorInfo& info, std::size_t heads) {
    if (heads > kMostHeads)
      fail(Status::limit, "{}: tensor {}: got shape {}, need at most {} heads", info.file,
           in_quotes(info.name), to_string(info.shape), kMostHeads);
  }

  static void add_heads(StoredArray& array, Component component, std::size_t layer, std::size_t heads,
                        const TensorInfo& info) {
    check_heads(info, heads);
    for (std::size_t head = 0; head < heads; ++head) array.heads.push_back({component, layer, head});
    array.heads_together = heads;
  }

  /// Checks an array and adds it to the result.
  void add(StoredArray array, const TensorInfo& info) {
    for (const std::size_t extent : info.shape) {
      if (extent == 0)
        refuse_tensor(info.file, info.name, "got shape {}, which has no patterns", to_string(info.shape));
    }
    for (const StoredHead& head : array.heads) {
      if (head.layer >= kMostLayers || head.head >= kMostHeads)
        fail(Status::limit, "{}: tensor {}: got head {}.{}, need a layer below {} and a head below {}",
             info.file, in_quotes(info.name), head.layer, head.head, kMostLayers, kMostHeads);
    }
    const auto twice = std::ranges::adjacent_find(array.heads, std::ranges::greater_equal());
    if (twice != array.heads.end())
      refuse_tensor(info.file, info.name,
                    "the arrays layers and heads must be ascending, but {}.{} comes before {}.{}",
                    twice->layer, twice->head, std::next(twice)->layer, std::next(twice)->head);
    if (array.inputs > kMostInputs)
      fail(Status::limit, "{}: tensor {}: got shape {}, need at most {} inputs", info.file,
           in_quotes(info.name), to_string(info.shape), kMostInputs);
    const bool later = !found_.empty() &&
                       found_.back().heads.front().component == array.heads.front().component &&
                       array.first_input > 0;
    if (later && found_.back().heads != array.heads)
      refuse_tensor(info.file, info.name, "got other heads than in {}",
                    shown(this->info(found_.back()).name));
    array.queries = info.shape[info.shape.size() - 2];
    array.keys = info.shape.back();
    found_.push_back(std::move(array));
  }

  Checkpoint& file_;
  std::string path_;  // escaped
  std::vector<StoredArray> found_;
};

/// The array with values of one input: a tensor, and the index of its row.
struct InputRow {
  std::size_t tensor = Checkpoint::npos;
  std::size_t row = 0;
};

/// Finds the array `name`, which has one row per input, or the arrays NAME_I. `axes` is the number of axes of
/// the values of an input. Empty if there are none of the wanted kind.
std::vector<InputRow> rows_of_inputs(const Checkpoint& file, std::string_view name,
                                     const std::vector<std::size_t>& lengths, bool text) {
  const std::size_t axes = text ? 2 : 1;
  const auto wanted = [&](std::size_t tensor) {
    if (tensor == Checkpoint::npos) return false;
    const TensorInfo& info = file.tensors()[tensor];
    return info.text == text && !is_floating(info.dtype);
  };
  const auto refuse_shape = [&](const TensorInfo& info, const Shape& needed) {
    Shape shape = info.shape;
    if (text) shape.pop_back();
    refuse_tensor(info.file, info.name, "got shape {}, need {}, the number of tokens", to_string(shape),
                  to_string(needed));
  };
  std::vector<InputRow> rows(lengths.size());
  bool any = false;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    const std::size_t tensor = file.find(fmt::format("{}_{}", name, s));
    if (!wanted(tensor)) continue;
    const TensorInfo& info = file.tensors()[tensor];
    if (info.shape.size() != axes || info.shape[0] != lengths[s]) refuse_shape(info, {lengths[s]});
    rows[s] = {tensor, 0};
    any = true;
  }
  if (any) return rows;
  const std::size_t tensor = file.find(name);
  if (!wanted(tensor)) return {};
  const TensorInfo& info = file.tensors()[tensor];
  const bool batched = info.shape.size() == axes + 1;
  const std::size_t inputs = batched ? info.shape[0] : 1;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    if (info.shape.size() < axes || inputs != lengths.size() || info.shape[batched ? 1 : 0] != lengths[s])
      refuse_shape(info, lengths.size() == 1 ? Shape{lengths[s]} : Shape{lengths.size(), lengths[s]});
    rows[s] = {tensor, s};
  }
  return rows;
}

/// Returns the string of `characters` numbers without the zeros at the end.
std::string string_of(const TensorInfo& info, std::span<const std::byte> characters) {
  const std::size_t size = size_of(info.dtype);
  std::string text;
  std::size_t count = characters.size() / size;
  const auto character = [&](std::size_t i) {
    return little_endian(text_of(characters.subspan(i * size, size)));
  };
  while (count > 0 && character(count - 1) == 0) --count;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t point = character(i);
    if (size == 1) {
      text.push_back(static_cast<char>(point));
    } else {
      if (point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF))
        refuse_tensor(info.file, info.name, "got the character {:#x}, which is not a code point", point);
      text += std::string_view(tokenizer::unicode::Utf8(static_cast<char32_t>(point)));
    }
  }
  if (find_ill_formed_utf8(text)) refuse_tensor(info.file, info.name, "got {}, need UTF-8", in_quotes(text));
  return text;
}

}  // namespace

std::vector<StoredArray> find_stored_arrays(Checkpoint& file, const std::string& path,
                                            const std::string& wanted) {
  return ArrayFinder(file, escaped(path)).find(wanted);
}

InputNumbers numbers_of_inputs(Checkpoint& file, std::string_view name,
                               const std::vector<std::size_t>& lengths) {
  InputNumbers numbers;
  std::size_t tensor = Checkpoint::npos;
  std::vector<std::int64_t> all;  // the values of `tensor`
  for (const InputRow& row : rows_of_inputs(file, name, lengths, false)) {
    const std::size_t length = lengths[numbers.size()];
    std::vector<std::int64_t>& values = numbers.emplace_back();
    if (row.tensor == Checkpoint::npos) continue;
    if (row.tensor != tensor) all = integers(file, tensor = row.tensor);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(row.row * length);
    values.assign(first, first + static_cast<std::ptrdiff_t>(length));
  }
  return numbers;
}

InputTexts texts_of_inputs(Checkpoint& file, std::string_view name, const std::vector<std::size_t>& lengths) {
  InputTexts texts;
  for (const InputRow& row : rows_of_inputs(file, name, lengths, true)) {
    const std::size_t length = lengths[texts.size()];
    std::vector<std::string>& values = texts.emplace_back();
    if (row.tensor == Checkpoint::npos) continue;
    const TensorInfo& info = file.tensors()[row.tensor];
    const std::span<const std::byte> bytes = file.tensor(row.tensor).bytes;
    const std::size_t size = info.shape.back() * size_of(info.dtype);
    for (std::size_t i = 0; i < length; ++i)
      values.push_back(string_of(info, bytes.subspan((row.row * length + i) * size, size)));
  }
  return texts;
}

}  // namespace attnctl::inspect
