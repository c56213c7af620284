#include "cli/selection.hpp"

#include "attnctl/base/error.hpp"
#include "attnctl/base/parse_number.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

namespace attnctl::cli {
namespace {

std::vector<std::string_view> split(std::string_view list, char separator) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t end = std::min(list.find(separator), list.size());
    words.push_back(list.substr(0, end));
    if (end == list.size()) return words;
    list.remove_prefix(end + 1);
  }
}

}  // namespace

std::vector<std::size_t> parse_ranges(const std::string& option, const std::string& list, std::size_t count) {
  std::set<std::size_t> numbers;
  for (const std::string_view word : split(list, ',')) {
    const std::vector<std::string_view> ends = split(word, '-');
    const auto first = parse_number(ends.front());
    const auto last = parse_number(ends.back());
    if (ends.size() > 2 || !first || !last || *first > *last) {
      fail(Status::usage, "{}: got \"{}\", need numbers and ranges such as 0,3-5", option, escaped(word));
    }
    if (*last >= count) {
      fail(Status::usage, "{}: got {}, the model has {} (0 to {})", option, *last, count, count - 1);
    }
    for (std::size_t i = *first; i <= *last; ++i) numbers.insert(i);
  }
  return {numbers.begin(), numbers.end()};
}

Selection select_heads(const SelectionOptions& options, const ModelConfig& config) {
  std::vector<std::size_t> layers;
  if (options.layers.empty()) {
    for (std::size_t i = 0; i < config.layers.size(); ++i) layers.push_back(i);
  } else {
    layers = parse_ranges("--layers", options.layers, config.layers.size());
  }
  std::set<HeadId> heads;
  if (options.heads.empty()) {
    for (const std::size_t layer : layers) {
      for (std::size_t h = 0; h < config.layers[layer].attention.heads; ++h) heads.insert({layer, h});
    }
    return {.heads = {heads.begin(), heads.end()}};
  }
  for (const std::string_view word : split(options.heads, ',')) {
    const std::vector<std::string_view> parts = split(word, '.');
    const auto layer = parse_number(parts.front());
    const auto head = parse_number(parts.back());
    if (parts.size() != 2 || !layer || !head) {
      fail(Status::usage, "--heads: got \"{}\", need LAYER.HEAD such as 0.1,2.3", escaped(word));
    }
    if (*layer >= config.layers.size()) {
      fail(Status::usage, "--heads: got {}: the model has {} layers (0 to {})", escaped(word),
           config.layers.size(), config.layers.size() - 1);
    }
    const std::size_t count = config.layers[*layer].attention.heads;
    if (*head >= count) {
      fail(Status::usage, "--heads: got {}: layer {} has {} heads (0 to {})", escaped(word), *layer, count,
           count - 1);
    }
    if (std::binary_search(layers.begin(), layers.end(), *layer)) heads.insert({*layer, *head});
  }
  if (heads.empty()) fail(Status::usage, "--heads and --layers have no head in common");
  return {.heads = {heads.begin(), heads.end()}};
}

}  // namespace attnctl::cli
