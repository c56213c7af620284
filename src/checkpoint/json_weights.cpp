#include "checkpoint/json_weights.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "formats/json.hpp"

namespace attnctl {
namespace {

constexpr std::size_t kLargestConfig = std::size_t{4} << 20;  // it becomes a tree, many times its size

struct Part {
  std::string name;
  Shape shape;
  std::size_t begin = 0;  // of the text behind the name
  std::size_t end = 0;
};

/// The first of two passes: shapes and places of all tensors, every number checked, none kept.
class WeightsEvents final : public JsonEvents {
 public:
  std::vector<Part> tensors;
  std::optional<Part> config;

 private:
  /// The arrays of one nesting level; all of them must be alike.
  struct Level {
    std::size_t count = 0;  // of the array that is open
    std::optional<std::size_t> extent;
    enum class Holds { nothing, numbers, arrays } holds = Holds::nothing;
  };

  [[nodiscard]] bool in_config() const { return in_config_; }

  void on_begin(Container container) override {
    const bool object = container == Container::object;
    if (depth() == 0) {
      if (!object) refuse("got an array, need an object of tensors");
      return;
    }
    if (in_config()) {
      if (depth() == 1 && !object) refuse("got an array, need an object of settings");
      return;
    }
    if (object) refuse("got an object, need nested arrays of numbers");
    add_element(Level::Holds::arrays);
    const std::size_t level = depth() - 1;
    if (levels_.size() == level) levels_.emplace_back();
    levels_[level].count = 0;
  }

  void on_end(Container /*container*/) override {
    if (depth() == 0) return;
    if (!in_config()) {
      Level& level = levels_[depth() - 1];
      if (level.extent.value_or(level.count) != level.count) {
        refuse(fmt::format("ragged: got {} elements, need {} as in the array before it", level.count,
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

  void on_scalar(const JsonScalar& scalar) override {
    if (in_config() && depth() > 1) return;
    if (depth() == 0 || in_config()) refuse(fmt::format("got {}, need an object", describe(scalar)));
    double value = 0;
    if (const auto* const number = std::get_if<double>(&scalar)) {
      value = *number;
    } else if (const auto* const count = std::get_if<std::uint64_t>(&scalar)) {
      value = static_cast<double>(*count);
    } else if (const auto* const negative = std::get_if<std::int64_t>(&scalar)) {
      value = static_cast<double>(*negative);
    } else {
      refuse(fmt::format("got {}, need a number", describe(scalar)));
    }
    if (!std::isfinite(static_cast<float>(value)))
      refuse(fmt::format("got {}, need a number that fits float32", value));
    add_element(Level::Holds::numbers);
    if (depth() == 1) finish();
  }

  void add_element(Level::Holds kind) {
    if (depth() < 2) return;
    Level& around = levels_[depth() - 2];
    if (around.holds != Level::Holds::nothing && around.holds != kind) {
      refuse(kind == Level::Holds::numbers ? "ragged: got a number, need an array as before it"
                                           : "ragged: got an array, need a number as before it");
    }
    around.holds = kind;
    ++around.count;
  }

  void finish() {
    for (const Level& level : levels_) part_.shape.push_back(*level.extent);
    part_.end = position();
    if (in_config()) {
      config = std::move(part_);
    } else {
      tensors.push_back(std::move(part_));
    }
    in_config_ = false;
  }

  bool in_config_ = false;
  Part part_;
  std::vector<Level> levels_;
};

/// The second pass, over text that the first one found to be nested arrays of `count` numbers.
std::vector<float> read_numbers(std::string_view text, std::size_t count) {
  std::vector<float> values;
  values.reserve(count);
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end && values.size() < count;) {
    if (*at != '-' && (*at < '0' || *at > '9')) {
      ++at;
      continue;
    }
    double value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    // Too large was refused, so this is too small.
    if (error == std::errc::result_out_of_range) value = *at == '-' ? -0.0 : 0.0;
    values.push_back(static_cast<float>(value));
    at = next == at ? at + 1 : next;
  }
  return values;
}

class JsonWeights final : public Checkpoint {
 public:
  JsonWeights(FileBytes file, WeightsEvents& events)
      : file_(std::move(file)), parts_(std::move(events.tensors)) {
    if (events.config) read_config(*events.config);
    std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) { return a.name < b.name; });
    const auto twice = std::adjacent_find(parts_.begin(), parts_.end(),
                                          [](const Part& a, const Part& b) { return a.name == b.name; });
    if (twice != parts_.end()) {
      fail(Status::bad_input, "{}: got the key {} twice, need different keys", file_.name(),
           in_quotes(twice->name));
    }
    for (const Part& part : parts_) tensors_.push_back({part.name, DType::f32, part.shape, file_.name()});
    values_.resize(parts_.size());
    file_.forget(file_.bytes());
  }

  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return tensors_; }

  [[nodiscard]] TensorView tensor(std::size_t index) override {
    const TensorInfo& info = tensors_.at(index);
    std::vector<float>& values = values_[index];
    const std::size_t count = checked_product(info.shape).value();  // numbers of the text: it fits
    if (values.size() != count) {
      const Part& part = parts_[index];
      values = read_numbers(file_.text().substr(part.begin, part.end - part.begin), count);
      file_.forget(file_.bytes().subspan(part.begin, part.end - part.begin));
    }
    if (values.size() != count) {
      fail(Status::bad_input, "{}: tensor {}: the file changed while it was read", file_.name(),
           in_quotes(info.name));
    }
    return {info.dtype, info.shape, std::as_bytes(std::span<const float>(values))};
  }

  void release(std::size_t index) override { std::vector<float>().swap(values_.at(index)); }

  [[nodiscard]] std::uint64_t copied_bytes(std::size_t index) const override {
    const Part& part = parts_.at(index);
    return part.end - part.begin + checked_product(part.shape).value_or(0) * sizeof(float);
  }

  [[nodiscard]] const nlohmann::ordered_json* config() const override {
    return config_ ? &*config_ : nullptr;
  }

 private:
  void read_config(const Part& part) {
    std::string_view text = file_.text().substr(part.begin, part.end - part.begin);
    if (text.size() > kLargestConfig) {
      fail(Status::bad_input, "{}: /config: got {} bytes, need at most {}", file_.name(), text.size(),
           kLargestConfig);
    }
    const std::size_t colon = text.find(':') + 1;
    text.remove_prefix(colon);
    config_ = parse_json_part(
        {.file = file_.name(), .text = text, .byte = part.begin + colon, .pointer = "/config"});
  }

  FileBytes file_;
  std::vector<Part> parts_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::vector<float>> values_;
  std::optional<nlohmann::ordered_json> config_;
};

}  // namespace

std::unique_ptr<Checkpoint> open_json_weights(FileBytes file) {
  WeightsEvents events;
  events.parse({.file = file.name(), .text = file.text()});
  return std::make_unique<JsonWeights>(std::move(file), events);
}

}  // namespace attnctl
