#include <charconv>
#include <cmath>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/numbers.hpp"
#include "checkpoint/readers.hpp"
#include "formats/json.hpp"

namespace attnctl::checkpoint {
namespace {

/// The largest size of "config" in bytes. The parsed JSON needs several times as much memory.
constexpr std::size_t kMaxJsonConfig = std::size_t{4} << 20;

struct JsonTensor {
  std::string name;
  Shape shape;
  std::size_t begin = 0, end = 0;  // bytes [begin, end) of the text contain a colon and the JSON value
};

/// First pass: finds the shape and the text range of each tensor, and checks every number without storing it.
class WeightsEvents final : public formats::JsonEvents {
 public:
  std::vector<JsonTensor> tensors;
  std::optional<JsonTensor> config;

 private:
  /// One nesting level of arrays. All arrays of the level must have the same length, `extent`.
  struct ArrayLevel {
    std::size_t count = 0;  // number of elements so far in the current array
    std::optional<std::size_t> extent;
    std::optional<bool> holds_arrays;  // false: the elements are numbers; nullopt before the first element
  };

  void on_begin(Container container) override {
    const bool object = container == Container::object;
    if (depth() == 0) {
      if (!object) refuse("got an array, need an object of tensors");
      return;
    }
    if (in_config_) {
      if (depth() == 1 && !object) refuse("got an array, need an object of settings");
      return;
    }
    if (object) refuse("got an object, need nested arrays of numbers");
    add_element(true);
    const std::size_t level = depth() - 1;
    if (levels_.size() == level) levels_.emplace_back();
    levels_[level].count = 0;
  }

  void on_end(Container /*container*/) override {
    if (depth() == 0) return;
    if (!in_config_) {
      ArrayLevel& level = levels_[depth() - 1];
      if (level.extent.value_or(level.count) != level.count) {
        refuse(fmt::format("ragged: got {} elements, need {} like the array before", level.count,
                           *level.extent));
      }
      level.extent = level.count;
    }
    if (depth() == 1) finish();
  }

  void on_key(std::string& key) override {
    if (depth() != 1) return;
    in_config_ = key == "config";
    if (in_config_ && config) refuse("got the key \"config\" twice, need different keys");
    part_ = {std::move(key), {}, position(), 0};
    levels_.clear();
  }

  void on_scalar(const formats::JsonScalar& scalar) override {
    if (in_config_ && depth() > 1) return;
    if (depth() == 0 || in_config_) refuse(fmt::format("got {}, need an object", formats::describe(scalar)));
    const auto to_double = [&]<typename T>(T number) -> double {
      if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) return static_cast<double>(number);
      refuse(fmt::format("got {}, need a number", formats::describe(scalar)));
    };
    const double value = std::visit(to_double, scalar);
    if (!std::isfinite(static_cast<float>(value)))
      refuse(fmt::format("got {}, need a number that fits float32", value));
    add_element(false);
    if (depth() == 1) finish();
  }

  void add_element(bool is_array) {
    if (depth() < 2) return;
    ArrayLevel& parent = levels_[depth() - 2];
    if (parent.holds_arrays.value_or(is_array) != is_array) {
      refuse(is_array ? "ragged: got an array, need a number like the elements before"
                      : "ragged: got a number, need an array like the elements before");
    }
    parent.holds_arrays = is_array;
    ++parent.count;
  }

  void finish() {
    for (const ArrayLevel& level : levels_) part_.shape.push_back(*level.extent);
    part_.end = position();
    if (std::exchange(in_config_, false)) {
      config = std::move(part_);
    } else {
      tensors.push_back(std::move(part_));
    }
  }

  bool in_config_ = false;
  JsonTensor part_;
  std::vector<ArrayLevel> levels_;
};

/// Second pass: reads up to `count` numbers from a text that the first pass checked, and stores them as
/// float32. Returns how many numbers were read.
std::size_t read_numbers(std::string_view text, std::size_t count, std::vector<std::byte>& values) {
  values.resize(count * sizeof(float));
  std::size_t found = 0;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end && found < count;) {
    double value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error == std::errc::invalid_argument) {  // a bracket, a comma, the colon or white space
      ++at;
      continue;
    }
    // The first pass rejected numbers that overflow, so this number underflows to 0.
    if (error == std::errc::result_out_of_range) value = *at == '-' ? -0.0 : 0.0;
    const auto narrow = static_cast<float>(value);
    std::memcpy(values.data() + found++ * sizeof(float), &narrow, sizeof narrow);
    at = next;
  }
  return found;
}

nlohmann::ordered_json read_config(const MappedFile& file, const JsonTensor& part) {
  std::string_view text = file.text().substr(part.begin, part.end - part.begin);
  if (text.size() > kMaxJsonConfig)
    refuse(file.name(), "/config: got {} bytes, need at most {}", text.size(), kMaxJsonConfig);
  const std::size_t colon = text.find(':') + 1;
  text.remove_prefix(colon);
  return formats::parse_json_part(
      {.file = file.name(), .text = text, .byte = part.begin + colon, .pointer = "/config"});
}

}  // namespace

void read_json_weights(const MappedFile& file, Checkpoint& checkpoint, Warnings& /*warnings*/) {
  WeightsEvents events;
  events.parse({.file = file.name(), .text = file.text()});
  if (events.config)
    checkpoint.config = std::make_shared<const nlohmann::ordered_json>(read_config(file, *events.config));
  if (const JsonTensor* const twice = sort_by_name(events.tensors, &JsonTensor::name))
    refuse(file.name(), "got the key {} twice, need different keys", in_quotes(twice->name));
  for (const JsonTensor& part : events.tensors) {
    const auto bytes = file.bytes().subspan(part.begin, part.end - part.begin);
    // Cannot overflow, because the text contains all these numbers or empty arrays.
    const std::size_t count = checked_product(part.shape).value();
    checkpoint.add(file, {part.name, DType::f32, part.shape}, bytes, bytes.size() + count * sizeof(float),
                   [&file, part, bytes, count](std::vector<std::byte>& copy) -> std::span<const std::byte> {
                     if (read_numbers(file.text().substr(part.begin, bytes.size()), count, copy) != count)
                       refuse_tensor(file.name(), part.name, "the file changed while it was read");
                     file.forget(bytes);
                     return copy;
                   });
  }
  file.forget(file.bytes());
}

}  // namespace attnctl::checkpoint
