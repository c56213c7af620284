#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "checkpoint/checkpoint.hpp"
#include "cli/experiments/experiments.hpp"
#include "formats/json.hpp"
#include "textbook/hull.hpp"

namespace attnctl::cli {
namespace {

constexpr const char* kTextbookKeys = "10,0;0,10;5,5;2,2";
constexpr std::size_t kKeysLimit = std::size_t{1} << 28;

OwnedMatrix<double> read_npy_keys(const std::string& path) {
  Warnings unused;
  const std::unique_ptr<Checkpoint> file = open_checkpoint(path, unused);
  const TensorView tensor = file->tensor(0);
  if (tensor.shape.size() != 2)
    fail(Status::bad_input, "{}: got shape {}, need [keys, d]", escaped(path),
         attnctl::to_string(tensor.shape));
  OwnedMatrix<double> keys(tensor.shape[0], tensor.shape[1]);
  convert(tensor.dtype, tensor.bytes, keys.values());
  return keys;
}

OwnedMatrix<double> matrix_of(const std::vector<std::vector<double>>& rows, Status status,
                              const std::string& source) {
  OwnedMatrix<double> keys(rows.size(), rows.empty() ? 0 : rows.front().size());
  for (std::size_t j = 0; j < rows.size(); ++j) {
    if (rows[j].size() != keys.cols()) {
      fail(status, "{}: key {} has {} components, key 0 has {}; need as many", source, j, rows[j].size(),
           keys.cols());
    }
    std::copy(rows[j].begin(), rows[j].end(), keys.view().row(j).begin());
  }
  return keys;
}

/// Reads keys from a JSON file, for example [[10, 0], [0, 10]].
OwnedMatrix<double> read_json_keys(const std::string& path) {
  const nlohmann::ordered_json document = parse_json(escaped(path), read_file(path, kKeysLimit));
  std::vector<std::vector<double>> rows;
  const auto refuse = [&](const std::string& place) {
    fail(Status::bad_input, "{}: {}: need an array of arrays of numbers", escaped(path), place);
  };
  if (!document.is_array()) refuse("/");
  for (const auto& row : document) {
    if (!row.is_array()) refuse(fmt::format("/{}", rows.size()));
    std::vector<double>& key = rows.emplace_back();
    for (const auto& value : row) {
      if (!value.is_number()) refuse(fmt::format("/{}/{}", rows.size() - 1, key.size()));
      key.push_back(value.get<double>());
    }
  }
  return matrix_of(rows, Status::bad_input, escaped(path));
}

double parse_component(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) {
    fail(Status::usage, "--keys: got '{}', need numbers as \"10,0;0,10\", or a file .npy or .json",
         escaped(text));
  }
  return value;
}

/// Parses keys of the form "10,0;0,10".
OwnedMatrix<double> parse_keys(std::string_view text) {
  std::vector<std::vector<double>> rows;
  for (const std::string_view row : split(text, ';')) {
    rows.emplace_back();
    for (const std::string_view component : split(row, ','))
      rows.back().push_back(parse_component(component));
  }
  return matrix_of(rows, Status::usage, "--keys");
}

OwnedMatrix<double> read_keys(const std::string& given) {
  if (given.ends_with(".npy")) return read_npy_keys(given);
  if (given.ends_with(".json")) return read_json_keys(given);
  return parse_keys(given);
}

}  // namespace

Experiment add_hull(CLI::App& command) {
  auto keys = std::make_shared<std::string>(kTextbookKeys);
  command.add_option("--keys", *keys, "the set: a .npy [keys, d], a .json of arrays, or \"10,0;0,10\"")
      ->capture_default_str();
  command.footer(
      "Examples:\n  attnctl experiment hull --format text\n"
      "  attnctl experiment hull --keys \"0,0;4,0;0,4;1,1;4,0\" --format text\n"
      "  attnctl experiment hull | jq -c '.summary.keys[2].combination'");
  Experiment experiment([keys](Session& session) {
    const OwnedMatrix<double> set = read_keys(*keys);
    return hull_experiment(set.view(), session.pool);
  });
  experiment.inputs = [keys] { return std::vector<std::filesystem::path>{*keys}; };
  return experiment;
}

}  // namespace attnctl::cli
